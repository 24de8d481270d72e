"""A replay as values: which rows there are, when they fall due, and what is in them. No Spark here.

The rows of a file are read once for each Python worker and kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from foretide.errors import WorkloadError
from foretide.topology.sources import FileRows, Replay
from foretide.workloads.curve import Curve
from foretide.workloads.registry import generator_from_json, generator_to_json

CHUNK_ROWS = 50_000
"""Rows of one Arrow batch."""

_UNPACED_ROWS = 100_000
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_STAMPS = (pa.field("row", pa.int64()), pa.field("due", _TIMESTAMP), pa.field("event_time", _TIMESTAMP))


@dataclass(frozen=True)
class ReplayPlan:
    """A replay as values: which rows there are, when they fall due, and what is in them."""

    source: Replay

    @property
    def schema(self) -> pa.Schema:
        """Payload columns, then `row`, `due` and `event_time`."""
        rows = self.source.rows
        payload = file_table(rows).schema if isinstance(rows, FileRows) else rows.schema
        taken = {field.name for field in _STAMPS} & set(payload.names)
        if taken:
            raise WorkloadError(f"the replayed rows have columns of the replay's own: {', '.join(sorted(taken))}")
        return pa.schema([*payload, *_STAMPS])

    @property
    def payload_rows(self) -> int | None:
        """Rows with a payload, None when the replay never ends."""
        rows = self.source.rows
        in_file = file_table(rows).num_rows if isinstance(rows, FileRows) else None
        return min((count for count in (in_file, self.source.curve.total_rows) if count is not None), default=None)

    @property
    def total_rows(self) -> int | None:
        """All rows, the flush included."""
        payload = self.payload_rows
        return None if payload is None else payload + (self.source.flush is not None)

    def available(self, elapsed: float, start: int) -> int:
        """How many rows may have been handed out `elapsed` seconds after the replay began."""
        total = self.total_rows
        if not self.source.paced:
            return start + _UNPACED_ROWS if total is None else total
        due = self.source.curve.rows_due(elapsed)
        if total is not None and elapsed >= self.source.curve.duration:
            return total
        return due if total is None else min(due, total)

    def due_seconds(self, first: int, last: int) -> np.ndarray:
        """Seconds after the beginning at which rows [first, last) fall due."""
        payload = self.payload_rows
        end = last if payload is None else min(last, payload)
        due = self.source.curve.due_times(first, end) if first < end else np.empty(0)
        if payload is None or last in (first, end):
            return due
        return np.append(due, self._flush_due(payload))

    def due_at(self, rows: np.ndarray) -> np.ndarray:
        """When each of these rows, in ascending order, falls due: without those in between where that is many."""
        first, last = int(rows[0]), int(rows[-1]) + 1
        if last - first <= CHUNK_ROWS:
            return np.asarray(self.due_seconds(first, last)[rows - first])
        return np.array([float(self.due_seconds(int(row), int(row) + 1)[0]) for row in rows])

    def _flush_due(self, payload: int) -> float:
        """When the flush falls due: as the row after the last one, or at the end of the curve."""
        curve = self.source.curve
        more = curve.total_rows is None or curve.total_rows > payload
        return float(curve.due_times(payload, payload + 1)[0]) if more else curve.duration

    def rows(self, first: int, last: int, origin: float) -> pa.RecordBatch:
        """Rows [first, last) with their stamps, for a replay that began at `origin` (seconds since 1970)."""
        due = self.due_seconds(first, last)
        event = due * self._stretch
        payload = self._payload(first, last)
        if len(payload[0]) < last - first:  # the flush: no payload, and far enough ahead to close every window
            payload = [pa.concat_arrays([column, pa.nulls(1, column.type)]) for column in payload]
            event[-1] += self.source.flush
        stamps = [pa.array(np.arange(first, last)), _timestamps(origin + due), _timestamps(origin + event)]
        return pa.RecordBatch.from_arrays([*payload, *stamps], schema=self.schema)

    @property
    def _stretch(self) -> float:
        seconds = self.source.event_seconds
        return 1.0 if seconds is None else seconds / self.source.curve.duration

    def _payload(self, first: int, last: int) -> list[pa.Array]:
        payload = self.payload_rows
        end = last if payload is None else min(last, payload)
        rows = self.source.rows
        if isinstance(rows, FileRows):
            table = file_table(rows).slice(first, max(0, end - first)).combine_chunks()
            return [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns]
        return list(rows.rows(first, max(first, end)).columns)

    def to_json(self) -> str:
        """The plan as text, for Spark's options."""
        source = self.source
        rows = (
            {"path": source.rows.path, "format": source.rows.format}
            if isinstance(source.rows, FileRows)
            else generator_to_json(source.rows)
        )
        plain = {name: getattr(source, name) for name in _PLAIN}
        return json.dumps({"rows": rows, "curve": source.curve.to_json(), **plain})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the plan back."""
        data = json.loads(text)
        rows, curve = data.pop("rows"), Curve.from_json(data.pop("curve"))
        made = FileRows(**rows) if isinstance(rows, dict) else generator_from_json(rows)
        return cls(Replay(made, curve, **data))


_PLAIN = ("event_seconds", "flush", "paced", "partitions", "max_rows")


def _timestamps(seconds: np.ndarray) -> pa.Array:
    return pa.array(np.round(seconds * 1e6).astype("int64"), pa.int64()).cast(_TIMESTAMP)


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
        raise WorkloadError(f"'{kind}' cannot be replayed; use one of {', '.join(_READERS)}") from None
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
