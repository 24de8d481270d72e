"""Where output goes, as data. One query writes to one sink; its streams are told apart by the column `stream`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Guarantee = Literal["exactly-once", "at-least-once", "at-most-once", "none"]
GUARANTEES: tuple[Guarantee, ...] = ("exactly-once", "at-least-once", "at-most-once", "none")


@dataclass(frozen=True)
class Parquet:
    """Parquet files under `path`, a folder for each stream; committed exactly once."""

    path: str
    format: ClassVar[str] = "parquet"
    transactional: ClassVar[bool] = True
    files: ClassVar[bool] = True


@dataclass(frozen=True)
class Json:
    """JSON lines under `path`, a folder for each stream; committed exactly once."""

    path: str
    format: ClassVar[str] = "json"
    transactional: ClassVar[bool] = True
    files: ClassVar[bool] = True


@dataclass(frozen=True)
class Table:
    """A table in Spark's catalogue, partitioned by stream; committed exactly once."""

    name: str
    format: ClassVar[str] = "parquet"
    transactional: ClassVar[bool] = True
    files: ClassVar[bool] = False


@dataclass(frozen=True)
class Console:
    """Printed to the driver's standard output."""

    rows: int = 20
    format: ClassVar[str] = "console"
    transactional: ClassVar[bool] = False
    files: ClassVar[bool] = False


@dataclass(frozen=True)
class Memory:
    """A table in the driver's memory, for trying things out."""

    name: str
    format: ClassVar[str] = "memory"
    transactional: ClassVar[bool] = False
    files: ClassVar[bool] = False


Sink = Parquet | Json | Table | Console | Memory
