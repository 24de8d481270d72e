"""Sinks as data. One query writes to one sink; the column `stream` tells its output streams apart.

How Spark writes to a sink and reads it back is in `foretide.spark.sinks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Guarantee = Literal["exactly-once", "at-least-once", "at-most-once", "none"]
GUARANTEES: tuple[Guarantee, ...] = ("exactly-once", "at-least-once", "at-most-once", "none")


class Sink:
    """What all sinks share.

    `format` is Spark's name for it, `transactional` whether a batch is committed exactly once, `files` whether its
    output is a folder of files at `path`. With `feedback`, what is written can be read back as a stream.
    """

    format: ClassVar[str]
    transactional: ClassVar[bool] = False
    files: ClassVar[bool] = False
    feedback: ClassVar[bool] = False


@dataclass(frozen=True)
class Parquet(Sink):
    """Parquet files under `path`, a folder for each stream; committed exactly once."""

    path: str
    format: ClassVar[str] = "parquet"
    transactional: ClassVar[bool] = True
    files: ClassVar[bool] = True
    feedback: ClassVar[bool] = True


@dataclass(frozen=True)
class Json(Sink):
    """JSON lines under `path`, a folder for each stream; committed exactly once."""

    path: str
    format: ClassVar[str] = "json"
    transactional: ClassVar[bool] = True
    files: ClassVar[bool] = True
    feedback: ClassVar[bool] = True


@dataclass(frozen=True)
class Table(Sink):
    """A table in Spark's catalogue, partitioned by stream; committed exactly once."""

    name: str
    format: ClassVar[str] = "parquet"
    transactional: ClassVar[bool] = True


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Records in Kafka topics: the tuple as a JSON object. A record may come twice after a failure (at-least-once).

    Attributes:
        servers: Addresses of brokers, such as `host:9092,other:9092`.
        topic: The topic; `{stream}` in it stands for the output stream, so that each has a topic of its own.
        key: The column that becomes the record's key, by which Kafka chooses the partition; None for none.
        options: Passed to Spark's Kafka sink as they are (`kafka.security.protocol`, ...), and never shown.
    """

    servers: str
    topic: str = "{stream}"
    key: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    format: ClassVar[str] = "kafka"
    feedback: ClassVar[bool] = True

    def topic_of(self, stream: str) -> str:
        """The topic of an output stream."""
        return self.topic.replace("{stream}", stream)


@dataclass(frozen=True)
class Console(Sink):
    """Printed to the driver's standard output."""

    rows: int = 20
    format: ClassVar[str] = "console"


@dataclass(frozen=True)
class Memory(Sink):
    """A table in the driver's memory, for trying things out."""

    name: str
    format: ClassVar[str] = "memory"
