"""The replay source: rows of a generator or a file along a rate curve, exactly restartable.

An offset is the number of the next row and the time at which the replay began, so any range of rows can be made again,
alike to the bit and due at the same instant. The limit of rows a batch is read from the control folder each time
Spark asks how far it may go: it changes while the query runs.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from foretide.control_folder.folder import ControlFolder
from foretide.errors import WorkloadError
from foretide.spark.sources.file_rows import file_table
from foretide.topology.sources import FileRows, Replay
from foretide.workloads.curve import Curve
from foretide.workloads.registry import generator_from_json, generator_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

Offset = dict[str, Any]

FORMAT = "foretide-replay"
_CHUNK = 50_000
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
        there = file_table(rows).num_rows if isinstance(rows, FileRows) else None
        return min((count for count in (there, self.source.curve.total_rows) if count is not None), default=None)

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
        if last - first <= _CHUNK:
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


class Rows(InputPartition):
    """Rows [first, last) of a replay that began at `origin`."""

    def __init__(self, first: int, last: int, origin: float) -> None:
        self.first, self.last, self.origin = first, last, origin


class ReplaySource(DataSource):
    """Spark's name for the replay; made by `foretide.spark.sources.read`."""

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
            self.options["control"],
            self.options.get("once_only"),
        )


class ReplayReader(DataSourceStreamReader):
    """Hands out ranges of rows. With `once_only` (a folder) no row is handed out a second time, come what may."""

    def __init__(self, plan: str, spout: str, control: str, once_only: str | None) -> None:
        self._plan = ReplayPlan.from_json(plan)
        self._spout, self._control, self._once_only = spout, control, once_only
        self._latest: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Row 0, now."""
        return {"spout": self._spout, "row": 0, "origin_ms": int(time.time() * 1000)}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802
        """As far as rows are due and the admission limit allows."""
        elapsed = time.time() - start["origin_ms"] / 1000
        due = max(start["row"], self._plan.available(elapsed, start["row"]))
        self._latest = {**start, "row": due}
        most = ControlFolder(self._control).orders.admission().get(self._spout, self._plan.source.max_rows)
        return {**start, "row": due if most is None else min(due, start["row"] + most)}

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
        for first in range(partition.first, partition.last, _CHUNK):
            yield self._plan.rows(first, min(first + _CHUNK, partition.last), partition.origin)

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
