"""Where tuples come from, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from foretide.workloads.curve import Curve
    from foretide.workloads.generator import Generator


@dataclass(frozen=True)
class FileRows:
    """The rows of a file (Parquet, CSV with a header, JSON lines, or text with one column `line`), in its order."""

    path: str
    format: Literal["parquet", "csv", "json", "text"] = "parquet"


@dataclass(frozen=True)
class Replay:
    """Rows replayed along a rate curve, exactly restartable: row i is the same in every run, and due at the same time.

    Adds `row` (its number), `due` (when the curve says it falls due, by the wall clock) and `event_time` (the same,
    with the curve stretched to `event_seconds`). With `flush`, one last tuple without payload comes that many event
    seconds after the end, so that open windows close. Without `paced` rows do not wait until they are due. The
    admission limit (`max_rows`, rows a batch) can be changed while the query runs.
    """

    rows: Generator | FileRows
    curve: Curve
    event_seconds: float | None = None
    flush: float | None = None
    paced: bool = True
    partitions: int = 2
    max_rows: int | None = None
    replayable: ClassVar[bool] = True


@dataclass(frozen=True)
class Rate:
    """Spark's rate source: `timestamp` and `value`."""

    rows_per_second: int
    replayable: ClassVar[bool] = True


@dataclass(frozen=True)
class Files:
    """New files in a folder, in one of Spark's formats, with a schema (DDL)."""

    path: str
    schema: str
    format: str = "json"
    max_files: int | None = None
    replayable: ClassVar[bool] = True


@dataclass(frozen=True)
class Socket:
    """Lines from a socket, column `value`. Spark cannot read them again after a failure."""

    host: str
    port: int
    replayable: ClassVar[bool] = False


@dataclass(frozen=True)
class Stream:
    """Any streaming DataFrame: `load` gets the Spark session. Say whether the source can be read again."""

    load: Callable[[Any], Any]
    replayable: bool = True


Source = Replay | Rate | Files | Socket | Stream
