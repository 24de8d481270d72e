"""Sinks as data. One query writes to one sink; the column `stream` tells its output streams apart.

How Spark writes to a sink and reads it back is in `foretide.spark.sinks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Guarantee = Literal["exactly-once", "at-least-once", "at-most-once", "none"]
GUARANTEES: tuple[Guarantee, ...] = ("exactly-once", "at-least-once", "at-most-once", "none")


class Sink:
    """What all sinks share.

    `format` is Spark's name for it, `transactional` whether a batch is committed exactly once, `files` whether its
    output is a folder of files at `path`, which feedback can be read from.
    """

    format: ClassVar[str]
    transactional: ClassVar[bool] = False
    files: ClassVar[bool] = False


@dataclass(frozen=True)
class Parquet(Sink):
    """Parquet files under `path`, a folder for each stream; committed exactly once."""

    path: str
    format: ClassVar[str] = "parquet"
    transactional: ClassVar[bool] = True
    files: ClassVar[bool] = True


@dataclass(frozen=True)
class Json(Sink):
    """JSON lines under `path`, a folder for each stream; committed exactly once."""

    path: str
    format: ClassVar[str] = "json"
    transactional: ClassVar[bool] = True
    files: ClassVar[bool] = True


@dataclass(frozen=True)
class Table(Sink):
    """A table in Spark's catalogue, partitioned by stream; committed exactly once."""

    name: str
    format: ClassVar[str] = "parquet"
    transactional: ClassVar[bool] = True


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
