"""Python bolts: Arrow or per tuple, with retries and dead letters. A tuple that fails is never dropped silently.

Output batches carry one more column, `_ft_dead`: null for a good tuple; for a dead letter the bolt, the error, the
number of attempts and the tuple itself as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from foretide.spark.compile.timing import BatchWatch, Stopwatch, Timer
from foretide.topology.graph import Arrow, Bolt, PerTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEAD_COLUMN = "_ft_dead"
DEAD_TYPE = "struct<bolt: string, error: string, attempts: int, tuple: string>"
_DEAD = pa.struct([("bolt", pa.string()), ("error", pa.string()), ("attempts", pa.int32()), ("tuple", pa.string())])

Batches = Iterable[pa.RecordBatch]
_Done = tuple[dict[str, Any], list[dict[str, Any]], Exception | None]


def run_python(bolt: Bolt, frame: DataFrame, timer: Timer) -> DataFrame:
    """The bolt's Python work on a frame. With dead letters the result has the column `_ft_dead`."""
    operator = bolt.operator
    assert isinstance(operator, Arrow | PerTuple)  # noqa: S101 - native work has no Python
    schema = to_arrow_schema(_struct(operator.schema), timezone="UTC")
    if bolt.on_error == "fail":
        return frame.mapInArrow(_plain(operator, schema, timer), operator.schema)
    guard = Guard(bolt.id, operator, schema, bolt.retries + 1, timer)
    return frame.mapInArrow(guard.run, f"{operator.schema}, {DEAD_COLUMN} {DEAD_TYPE}")


def _struct(schema: str) -> StructType:
    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType)  # noqa: S101 - a list of columns is a struct
    return parsed


def _plain(operator: Arrow | PerTuple, schema: pa.Schema, timer: Timer) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    if isinstance(operator, PerTuple):
        return lambda batches: _each_tuple(operator, schema, timer, batches)
    return lambda batches: _each_batch(operator, schema, timer, batches)


def _each_tuple(operator: PerTuple, schema: pa.Schema, timer: Timer, batches: Batches) -> Iterator[pa.RecordBatch]:
    watch = Stopwatch(timer)
    for batch in batches:
        rows = [made for row in batch.to_pylist() for made in watch.run(operator.work, row)]
        yield pa.RecordBatch.from_pylist(rows, schema)
    watch.stop()


def _each_batch(operator: Arrow, schema: pa.Schema, timer: Timer, batches: Batches) -> Iterator[pa.RecordBatch]:
    watch = BatchWatch(timer)
    return watch.made(conform(batch, schema) for batch in operator.work(watch.given(batches)))


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the declared schema: by name, cast where that is safe; an error names what is missing."""
    missing = [name for name in schema.names if name not in batch.schema.names]
    if missing:
        raise ValueError(f"the bolt's output lacks {', '.join(missing)}; it has {', '.join(batch.schema.names)}")
    return pa.RecordBatch.from_arrays([batch[f.name].cast(f.type) for f in schema], schema=schema)


@dataclass(frozen=True)
class Guard:
    """Runs Python work so that a tuple that raises is retried and then set aside with its error.

    An Arrow bolt sees all batches of its task at once. When it raises, the task's tuples are cut in halves until the
    failing ones stand alone; good halves give their output as usual. So the work may see a tuple more than once, and
    has to give each part of its input an output of its own (as stateless work does).
    """

    bolt: str
    operator: Arrow | PerTuple
    schema: pa.Schema
    attempts: int
    timer: Timer

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """What Spark calls in each task."""
        if isinstance(self.operator, PerTuple):
            watch = Stopwatch(self.timer)
            for batch in batches:
                yield from self._tuples(batch, watch)
            watch.stop()
        else:
            timed = BatchWatch(self.timer)
            yield from timed.made(self._halves(timed.given(batches)))

    def _halves(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        taken = list(batches)
        if taken:
            yield from self._bisect(pa.Table.from_batches(taken))

    def _tuples(self, batch: pa.RecordBatch, watch: Stopwatch) -> Iterator[pa.RecordBatch]:
        done = [(row, *self._try_tuple(row, watch)) for row in batch.to_pylist()]
        try:
            good = self._batch(done)
        except Exception:  # noqa: BLE001 - some output does not fit the schema: find out whose
            done = [(row, made, error or self._misfit(made)) for row, made, error in done]
            good = self._batch(done)
        yield self._alive(good)
        if letters := [self._letter(row, error) for row, _, error in done if error is not None]:
            yield self._dead(letters)

    def _batch(self, done: list[_Done]) -> pa.RecordBatch:
        rows = [made for _, made_here, error in done if error is None for made in made_here]
        return pa.RecordBatch.from_pylist(rows, self.schema)

    def _misfit(self, made: list[dict[str, Any]]) -> Exception | None:
        try:
            pa.RecordBatch.from_pylist(made, self.schema)
        except Exception as error:  # noqa: BLE001 - Arrow raises errors of many kinds
            return error
        return None

    def _try_tuple(self, row: dict[str, Any], watch: Stopwatch) -> tuple[list[dict[str, Any]], Exception | None]:
        work: Callable[[Any], Iterator[Any]] = self.operator.work
        error: Exception | None = None
        for _ in range(self.attempts):
            try:
                return watch.run(work, dict(row)), None  # a copy: the work may change it
            except Exception as raised:  # noqa: BLE001 - whatever a user's bolt raises
                error = raised
        return [], error

    def _bisect(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        made, error = self._try_table(table, self.attempts if table.num_rows == 1 else 1)
        if error is None:
            yield from map(self._alive, made)
        elif table.num_rows <= 1:
            yield self._dead([self._letter(row, error) for row in table.to_pylist()])
        else:
            half = table.num_rows // 2
            yield from self._bisect(table.slice(0, half))
            yield from self._bisect(table.slice(half))

    def _try_table(self, table: pa.Table, attempts: int) -> tuple[list[pa.RecordBatch], Exception | None]:
        error: Exception | None = None
        for _ in range(attempts):
            try:
                return [conform(b, self.schema) for b in self.operator.work(iter(table.to_batches()))], None
            except Exception as raised:  # noqa: BLE001 - whatever a user's bolt raises
                error = raised
        return [], error

    def _letter(self, row: dict[str, Any], error: Exception) -> dict[str, Any]:
        text = json.dumps(row, default=str, ensure_ascii=False)
        message = f"{type(error).__name__}: {error}"
        return {"bolt": self.bolt, "error": message, "attempts": self.attempts, "tuple": text}

    def _alive(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column(pa.field(DEAD_COLUMN, _DEAD), pa.nulls(batch.num_rows, _DEAD))

    def _dead(self, letters: list[dict[str, Any]]) -> pa.RecordBatch:
        self.timer.dead(len(letters))
        columns = [pa.nulls(len(letters), field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(letters, _DEAD)],
            schema=pa.schema([*self.schema, pa.field(DEAD_COLUMN, _DEAD)]),
        )
