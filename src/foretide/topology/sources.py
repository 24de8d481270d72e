"""Sources as data: where tuples come from, and what may be expected of each kind before it runs.

How Spark reads a source, and what the source tells about a batch, is in `foretide.spark.sources`: one file a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from foretide.workloads.curve import Curve
    from foretide.workloads.generator import Generator


class Source:
    """What all sources share, with the answers of a plain Spark source.

    A source that is `at_most_once` can refuse to hand out a row a second time. With `live_admission` its limit of rows
    a batch can change while the query runs, with `restart_admission` when it is restarted. `partitions` tasks read it;
    None leaves their number to Spark.
    """

    at_most_once: ClassVar[bool] = False
    live_admission: ClassVar[bool] = False
    restart_admission: ClassVar[bool] = False
    partitions: int | None = None

    @property
    def dead_letters(self) -> bool:
        """Whether records that cannot be parsed become dead letters."""
        return False

    @property
    def replayable(self) -> bool:
        """Whether the same rows can be read again after a failure."""
        return True

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with its values, and how to correct it."""
        return iter(())


@dataclass(frozen=True)
class FileRows:
    """The rows of a file (Parquet, CSV with a header, JSON lines, or text with one column `line`), in its order."""

    path: str
    format: Literal["parquet", "csv", "json", "text"] = "parquet"


@dataclass(frozen=True)
class Replay(Source):
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

    at_most_once: ClassVar[bool] = True
    live_admission: ClassVar[bool] = True

    def problems(self) -> Iterator[tuple[str, str]]:
        """Values with which no row would be read, or no window would close."""
        if self.partitions < 1:
            yield f"its replay has {self.partitions} partitions", "Use 1 or more, or no row is read"
        if self.max_rows is not None and self.max_rows < 1:
            yield f"max_rows is {self.max_rows}", "Use 1 or more, or the replay never moves on"
        if self.flush is not None and not 0 <= self.flush < float("inf"):
            yield f"flush is {self.flush}", "Use 0 or more event seconds"
        if self.event_seconds is not None and not 0 < self.event_seconds < float("inf"):
            yield f"event_seconds is {self.event_seconds}", "Use more than 0"
        elif self.event_seconds is not None and self.curve.endless:
            yield "event_seconds stretches a curve that never ends", "Drop it, or let the curve end"


@dataclass(frozen=True)
class KafkaSource(Source):
    """Records of a Kafka topic.

    With a `schema` (DDL) the values are JSON objects with these columns, and a record that is not becomes a dead
    letter; without one there is a column `value` (string). `metadata` names columns of Kafka's own that are added.
    `options` are passed to Spark's Kafka source as they are (`kafka.security.protocol`, ...), and never shown.

    Attributes:
        servers: Addresses of brokers, such as `host:9092,other:9092`.
        topic: The topic.
        start: Where a new checkpoint starts.
        max_rows: Limit of records a batch. Spark splits it over the partitions by their lag, and fixes it when the
            query starts: another one takes a restart (`foretide admission set SPOUT ROWS --restart`).
    """

    servers: str
    topic: str
    schema: str | None = None
    metadata: tuple[str, ...] = ("timestamp",)
    start: Literal["earliest", "latest"] = "latest"
    max_rows: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    restart_admission: ClassVar[bool] = True

    @property
    def dead_letters(self) -> bool:
        """Only values that are parsed can fail to be."""
        return self.schema is not None

    def problems(self) -> Iterator[tuple[str, str]]:
        """Values that Kafka or Spark would refuse after the start."""
        if not self.servers or not self.topic:
            yield "names no broker or no topic", "Give servers such as 'localhost:9092', and a topic"
        if self.max_rows is not None and self.max_rows < 1:
            yield f"max_rows is {self.max_rows}", "Use 1 or more, or the query never moves on"
        unknown = sorted(set(self.metadata) - set(KAFKA_METADATA))
        if unknown:
            yield f"metadata names {', '.join(unknown)}", f"Choose from {', '.join(KAFKA_METADATA)}"


KAFKA_METADATA = ("key", "topic", "partition", "offset", "timestamp")
"""Columns that Kafka adds to every record."""


@dataclass(frozen=True)
class Rate(Source):
    """Spark's rate source: `timestamp` and `value`."""

    rows_per_second: int


@dataclass(frozen=True)
class Files(Source):
    """New files in a folder, in one of Spark's formats, with a schema (DDL)."""

    path: str
    schema: str
    format: str = "json"
    max_files: int | None = None


@dataclass(frozen=True)
class Socket(Source):
    """Lines from a socket, column `value`. Spark cannot read them again after a failure."""

    host: str
    port: int

    @property
    def replayable(self) -> bool:
        """What was read from a socket is gone."""
        return False


@dataclass(frozen=True)
class Stream(Source):
    """Any streaming DataFrame: `load` gets the Spark session. Say whether the source can be read again."""

    load: Callable[[Any], Any]
    replayable: bool = True
