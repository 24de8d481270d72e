"""The port of a source: what Spark reads, and what the source tells about the rows of a batch.

Each kind implements what it can; the answer None means unknown, never 0. The admission limit is the control folder's:
a source whose record says `live_admission` reads it before every batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.batch import SourceRange
    from foretide.topology.sources import Source

S = TypeVar("S", bound="Source")

Offset = Mapping[str, Any]
"""An offset as the source writes it."""


@dataclass(frozen=True)
class LoadContext:
    """Where a stream is read. With `once_only` (at-most-once) no row may be handed out a second time.

    A source whose records have a timestamp puts it, in microseconds since 1970, into the column `timestamp_column`, and
    one that reads partitions puts the number of a record's partition into `partition_column`.
    """

    spark: SparkSession
    spout: str
    folder: ControlFolder
    once_only: bool = False
    timestamp_column: str | None = None
    partition_column: str | None = None


@dataclass(frozen=True)
class RowCounts:
    """What the offsets of a batch tell: the spout, rows taken, and rows that were due but not taken (the lag).

    `topic` is the name of what was read, by which the spout is found where offsets do not have it. With `gaps`, offsets
    may be skipped: `rows` is a bound from above, and what Spark counted is right.
    """

    spout: str | None = None
    rows: int | None = None
    backlog: int | None = None
    topic: str | None = None
    partition_lag: Mapping[str, int] = field(default_factory=dict)
    gaps: bool = False


class SourcePort(Generic[S]):
    """A source at run time. This base is a source that tells nothing; a kind overrides `load` and what it can tell."""

    def __init__(self, source: S) -> None:
        self.source = source

    def load(self, context: LoadContext) -> DataFrame:
        """The stream of a spout."""
        raise NotImplementedError

    @staticmethod
    def read_offsets(start: Offset, end: Offset, latest: Offset) -> RowCounts | None:  # noqa: ARG004
        """What the offsets of a batch tell; None when they are not offsets of this kind of source."""
        return None

    @property
    def total_rows(self) -> int | None:
        """All rows that there will ever be."""
        return None

    def is_over(self, taken: SourceRange) -> bool | None:  # noqa: ARG002
        """Whether the batch took the last row of all."""
        return None

    def origin(self, taken: SourceRange) -> float | None:  # noqa: ARG002
        """The instant from which arrival times are counted, in seconds since 1970."""
        return None

    def arrival_times(self, taken: SourceRange, rows: NDArray[np.int_]) -> NDArray[np.float64] | None:  # noqa: ARG002
        """When the rows at these places of the batch, in ascending order, arrived: seconds after the origin."""
        return None

    def arrival_process(self, taken: SourceRange) -> tuple[float | None, float | None] | None:  # noqa: ARG002
        """Arrivals a second and their squared variation coefficient, where `arrival_times` cannot tell them."""
        return None

    def partition_times(self, taken: SourceRange, shares: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:  # noqa: ARG002
        """When these shares of each partition's rows had arrived, in seconds since 1970."""
        return {}

    def input_table(self, taken: SourceRange, *, whole: bool = True) -> pa.Table | None:  # noqa: ARG002
        """All rows with a payload that the source hands out, made again to verify results.

        If not `whole`, those up to the end of what was taken.
        """
        return None
