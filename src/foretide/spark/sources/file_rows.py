"""Rows of a file by number, for replaying it. Read once for each Python worker and kept."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from foretide.errors import WorkloadError

if TYPE_CHECKING:
    from foretide.topology.sources import FileRows


def file_table(rows: FileRows) -> pa.Table:
    """The whole file as an Arrow table; an error that names the file when it is gone or cannot be read."""
    try:
        changed = Path(rows.path).stat().st_mtime_ns
    except OSError as error:
        raise WorkloadError(
            f"the replayed file '{rows.path}' cannot be opened ({error.strerror}): put it back and start again from "
            "the same checkpoint; nothing that was committed is lost"
        ) from error
    return _read(rows.path, rows.format, changed)


@lru_cache(maxsize=2)
def _read(path: str, kind: str, _changed: int) -> pa.Table:
    try:
        return _READERS[kind](path)
    except KeyError:
        raise WorkloadError(f"'{kind}' is no format to replay; use one of {', '.join(_READERS)}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"the replayed file '{path}' is not readable as {kind}: {error}") from error


def _parquet(path: str) -> Any:
    from pyarrow import parquet  # noqa: PLC0415 - loaded only for this format

    return parquet.read_table(path)


def _csv(path: str) -> Any:
    from pyarrow import csv  # noqa: PLC0415 - loaded only for this format

    return csv.read_csv(path)


def _json(path: str) -> Any:
    from pyarrow import json  # noqa: PLC0415 - loaded only for this format

    return json.read_json(path)


def _text(path: str) -> Any:
    with Path(path).open(encoding="utf-8") as file:  # str.splitlines would cut at form feeds and the like too
        return pa.table({"line": pa.array([line.removesuffix("\n") for line in file], pa.string())})


_READERS = {"parquet": _parquet, "csv": _csv, "json": _json, "text": _text}
