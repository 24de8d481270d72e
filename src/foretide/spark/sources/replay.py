"""The replay source: rows of a generator or a file along a rate curve, exactly restartable.

An offset is the number of the next row and the time at which the replay began, so any range of rows can be made again,
alike to the bit and due at the same instant. The limit of rows a batch is read from the control folder each time
Spark asks how far it may go: it changes while the query runs. Only this module knows what is in an offset.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from foretide.control_folder.filesystem import local_path
from foretide.control_folder.folder import ControlFolder
from foretide.errors import ForetideError, WorkloadError
from foretide.spark.sources.port import LoadContext, RowCounts, SourcePort
from foretide.spark.sources.replay_plan import CHUNK_ROWS, ReplayPlan
from foretide.spark.versions import REPLAY, check_has
from foretide.topology.sources import Replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from foretide.metrics.batch import SourceRange

Offset = dict[str, Any]

FORMAT = "foretide-replay"
_TABLE_ROWS = 500_000


class ReplaySource(SourcePort[Replay]):
    """The port of a replay: it knows when each row was due, where it ends, and every row itself."""

    def __init__(self, source: Replay) -> None:
        super().__init__(source)
        self.plan = ReplayPlan(source)

    def load(self, context: LoadContext) -> DataFrame:
        """Payload columns, then `row`, `due` and `event_time`."""
        check_has(REPLAY)
        spark, folder = context.spark, context.folder
        spark.dataSource.register(ReplayDataSource)
        self.plan.schema  # noqa: B018 - a file that is gone is found here, with a clear error
        reader = spark.readStream.format(FORMAT).option("plan", self.plan.to_json())
        reader = reader.option("spout", context.spout).option("control_folder", folder.location)
        if context.once_only:
            reader = reader.option("once_only", str(_markers(folder, context.spout)))
        return reader.load()

    @staticmethod
    def read_offsets(start: Mapping[str, Any], end: Mapping[str, Any], latest: Mapping[str, Any]) -> RowCounts | None:
        """Spout, rows and lag. A query that has just begun has no start."""
        if "row" not in end:
            return None
        backlog = max(0, latest["row"] - end["row"]) if "row" in latest else None
        return RowCounts(end.get("spout"), end["row"] - start.get("row", 0), backlog)

    @property
    def total_rows(self) -> int | None:
        """Rows with a payload and the flush; None when the curve never ends."""
        return self.plan.total_rows

    def is_over(self, taken: SourceRange) -> bool | None:
        """Whether the batch ended at the last row."""
        return None if "row" not in taken.end else bool(taken.end["row"] == self.total_rows)

    def origin(self, taken: SourceRange) -> float | None:
        """When the replay began."""
        return float(taken.end["origin_ms"]) / 1000 if "origin_ms" in taken.end else None

    def arrival_times(self, taken: SourceRange, rows: NDArray[np.int_]) -> NDArray[np.float64] | None:
        """When the rows fell due. Without pace they are handed out before that, and it says nothing."""
        if not self.source.paced or "row" not in taken.end:
            return None
        numbers = taken.start.get("row", 0) + rows
        return self.plan.due_at(numbers) if numbers[0] >= 0 else None

    def input_table(self, taken: SourceRange, *, whole: bool = True) -> pa.Table | None:
        """All rows with a payload, as they were handed out; if not `whole`, those until the end of what was taken."""
        total, origin = self.plan.payload_rows, self.origin(taken)
        if total is None or origin is None:
            return None
        total = total if whole else min(total, int(taken.end["row"]))
        batches = [
            self.plan.rows(first, min(first + _TABLE_ROWS, total), origin) for first in range(0, total, _TABLE_ROWS)
        ]
        return pa.Table.from_batches(batches, self.plan.schema)


def _markers(folder: ControlFolder, spout: str) -> Path:
    """Where rows that were handed out are marked: a disk that all executors see."""
    path = local_path(folder.location)
    if path is None:
        raise WorkloadError(
            f"at-most-once needs a checkpoint on a disk that all executors see, not '{folder.location}'"
        )
    return path / "handed-out" / spout


class Rows(InputPartition):
    """Rows [first, last) of a replay that began at `origin`."""

    def __init__(self, first: int, last: int, origin: float) -> None:
        self.first, self.last, self.origin = first, last, origin


class ReplayDataSource(DataSource):
    """The replay as Spark knows it, registered by `ReplaySource.load`."""

    @classmethod
    def name(cls) -> str:
        """The name for `spark.readStream.format`."""
        return FORMAT

    def schema(self) -> StructType:
        """Payload and stamps."""
        return from_arrow_schema(ReplayPlan.from_json(self.options["plan"]).schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark calls it
        """What Spark drives."""
        return ReplayReader(
            self.options["plan"],
            self.options["spout"],
            self.options["control_folder"],
            self.options.get("once_only"),
        )


class ReplayReader(DataSourceStreamReader):
    """Hands out ranges of rows. With `once_only` (a folder) no row is handed out a second time, come what may."""

    def __init__(self, plan: str, spout: str, control_folder: str, once_only: str | None) -> None:
        self._plan = ReplayPlan.from_json(plan)
        self._spout, self._control_folder, self._once_only = spout, control_folder, once_only
        self._latest: Offset | None = None
        self._limits: Mapping[str, int] = {}

    def initialOffset(self) -> Offset:  # noqa: N802
        """Row 0, now."""
        return {"spout": self._spout, "row": 0, "origin_ms": int(time.time() * 1000)}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802
        """As far as rows are due and the admission limit allows."""
        elapsed = time.time() - start["origin_ms"] / 1000
        due = max(start["row"], self._plan.available(elapsed, start["row"]))
        self._latest = {**start, "row": due}
        max_rows = self._admission().get(self._spout, self._plan.source.max_rows)
        return {**start, "row": due if max_rows is None else min(due, start["row"] + max_rows)}

    def _admission(self) -> Mapping[str, int]:
        """The limits in the control folder. If they cannot be read, those that were read last stay in force."""
        with suppress(ForetideError):
            self._limits = ControlFolder(self._control_folder).orders.admission()
        return self._limits

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """What is due by now: the distance to what was read is the backlog."""
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The range cut into equal parts.

        The beginning is taken from `end`, which Spark has logged: it may ask for the initial offset several times.
        """
        cuts = np.linspace(start["row"], end["row"], self._plan.source.partitions + 1).astype(int).tolist()
        origin = end["origin_ms"] / 1000
        return [Rows(first, last, origin) for first, last in pairwise(cuts) if first < last]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows themselves, in Arrow batches."""
        assert isinstance(partition, Rows)  # noqa: S101 - Spark hands back what partitions() gave
        if self._once_only and not claim(Path(self._once_only), partition.first, partition.last):
            return
        for first in range(partition.first, partition.last, CHUNK_ROWS):
            yield self._plan.rows(first, min(first + CHUNK_ROWS, partition.last), partition.origin)

    def commit(self, end: Offset) -> None:
        """Forget claims on rows that Spark will never ask for again."""
        if self._once_only:
            for marker, _, last in _claims(Path(self._once_only)):
                if last < end["row"]:
                    marker.unlink(missing_ok=True)


def claim(folder: Path, first: int, last: int) -> bool:
    """Take rows [first, last) for this attempt, once for all runs; False when any of them was taken before."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(first < taken_last and taken_first < last for _, taken_first, taken_last in _claims(folder)):
        return False
    try:
        (folder / f"{first}-{last}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _claims(folder: Path) -> list[tuple[Path, int, int]]:
    parts = [(marker, marker.name.partition("-")) for marker in folder.iterdir()]
    return [(marker, int(first), int(last)) for marker, (first, _, last) in parts if first.isdigit()]
