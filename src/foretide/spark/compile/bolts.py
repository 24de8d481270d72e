"""Python bolts: Arrow or per tuple, with retries and dead letters. A tuple that fails is never dropped silently.

Output batches carry one more column, `_ft_dead`: null for a good tuple; for a dead letter the bolt, the error, the
number of attempts and the tuple itself as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from foretide.spark.compile.dead_letters import error_text, tuple_text
from foretide.spark.compile.timing import BatchWatch, Stopwatch, Timer
from foretide.topology.graph import Arrow, Bolt, PerTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEAD_COLUMN = "_ft_dead"
DEAD_TYPE = "struct<bolt: string, error: string, attempts: int, tuple: string>"
_DEAD = pa.struct([("bolt", pa.string()), ("error", pa.string()), ("attempts", pa.int32()), ("tuple", pa.string())])

Batches = Iterable[pa.RecordBatch]
_Done = tuple[list[dict[str, Any]], BaseException | None]


MARKER = "_ft_marker"
"""True for a row that is no tuple."""

TOOK = "_ft_took"
"""The nanoseconds of Python work, on the first of the tuples that it has made."""

Run = Callable[[Any], Iterator[pa.RecordBatch]]


def run_python(bolt: Bolt, frame: DataFrame, timer: Timer) -> DataFrame:
    """The bolt's Python work on a frame. With dead letters the result has the column `_ft_dead`."""
    run, schema = _python_work(bolt, timer)
    return frame.mapInArrow(run, schema)


def run_python_at_once(bolt: Bolt, frame: DataFrame, timer: Timer, carried: str | None) -> DataFrame:
    """The bolt's Python work on each Arrow batch when it comes, not on all batches of a task together.

    With `carried`, that column (a long) is handed on beside the work, from each input batch to the output that it
    leads to, and the result has the column `_ft_took` too. Rows of the frame with `_ft_marker` are no tuples.
    """
    run, schema = _python_work(bolt, timer)
    if carried is None:
        return frame.mapInArrow(partial(_at_once, run), schema)
    return frame.mapInArrow(partial(_carrying, run, carried), f"{schema}, {carried} long, {TOOK} long")


def _tuples(batches: Batches) -> Batches:
    """The batches without markers."""
    for batch in batches:
        markers = batch[MARKER]
        kept = batch if markers.true_count == 0 else batch.filter(pc.invert(markers))
        if kept.num_rows:
            yield kept.drop_columns([MARKER])


def _at_once(run: Run, batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in _tuples(batches):
        yield from run(iter([batch]))


def _carrying(run: Run, carried: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in _tuples(batches):
        value = batch[carried][-1].as_py()
        started = perf_counter_ns()
        made = [each for each in run(iter([batch.drop_columns([carried])])) if each.num_rows]
        took = [perf_counter_ns() - started]
        for each in made:
            with_value = each.append_column(carried, pa.array([value] * each.num_rows, pa.int64()))
            yield with_value.append_column(TOOK, pa.array(took + [None] * (each.num_rows - len(took)), pa.int64()))
            took = []


def _python_work(bolt: Bolt, timer: Timer) -> tuple[Run, str]:
    """What Spark calls in each task, and the schema of what it makes."""
    operator = bolt.operator
    assert isinstance(operator, Arrow | PerTuple)  # noqa: S101 - native work has no Python
    schema = to_arrow_schema(_struct(operator.schema), timezone="UTC")
    if bolt.on_error == "fail":
        return _plain(operator, schema, timer), operator.schema
    guard = Guard(bolt.id, operator, schema, bolt.retries + 1, timer)
    return guard.run, f"{operator.schema}, {DEAD_COLUMN} {DEAD_TYPE}"


def _struct(schema: str) -> StructType:
    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType)  # noqa: S101 - a list of columns is a struct
    return parsed


def _plain(operator: Arrow | PerTuple, schema: pa.Schema, timer: Timer) -> Run:
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
        try:
            rows = batch.to_pylist()
        except Exception:  # noqa: BLE001 - some value cannot be held by Python: find out whose
            done = [self._try_row(batch.slice(place, 1), watch) for place in range(batch.num_rows)]
        else:
            done = [self._try_tuple(row, watch) for row in rows]
        good, errors = self._converted(done)
        yield self._alive(good)
        if errors:
            yield self._dead([self._letter(batch.slice(place, 1), error) for place, error in errors.items()])

    def _converted(self, done: list[_Done]) -> tuple[pa.RecordBatch, dict[int, BaseException]]:
        """The output in the declared schema, and what went wrong with which tuple."""
        errors = {place: error for place, (_, error) in enumerate(done) if error is not None}
        try:
            return pa.RecordBatch.from_pylist([row for made, _ in done for row in made], self.schema), errors
        except BaseException:  # noqa: BLE001 - some output does not fit the schema: find out whose
            parts = [pa.RecordBatch.from_pylist([], self.schema)]
        for place, (made, _) in enumerate(done):
            try:
                parts.append(pa.RecordBatch.from_pylist(made, self.schema))
            except BaseException as raised:  # noqa: BLE001 - objects of a user's own making may raise anything
                errors[place] = raised
        return pa.concat_batches(parts), dict(sorted(errors.items()))

    def _try_row(self, row: pa.RecordBatch, watch: Stopwatch) -> _Done:
        try:
            values = row.to_pylist()[0]
        except Exception as raised:  # noqa: BLE001 - text that is not UTF-8, a date beyond the year 9999
            return [], raised
        return self._try_tuple(values, watch)

    def _try_tuple(self, row: dict[str, Any], watch: Stopwatch) -> _Done:
        work: Callable[[Any], Iterator[Any]] = self.operator.work
        error: BaseException | None = None
        for _ in range(self.attempts):
            try:
                return watch.run(work, dict(row)), None  # a copy: the work may change it
            except BaseException as raised:  # noqa: BLE001 - SystemExit too; Spark ends a worker by a signal
                error = raised
        return [], error

    def _bisect(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        made, error = self._try_table(table, self.attempts if table.num_rows == 1 else 1)
        if error is None:
            yield from map(self._alive, made)
        elif table.num_rows == 1:
            yield self._dead([self._letter(table, error)])
        elif table.num_rows > 1:
            half = table.num_rows // 2
            yield from self._bisect(table.slice(0, half))
            yield from self._bisect(table.slice(half))

    def _try_table(self, table: pa.Table, attempts: int) -> tuple[list[pa.RecordBatch], BaseException | None]:
        error: BaseException | None = None
        for _ in range(attempts):
            try:
                return [conform(b, self.schema) for b in self.operator.work(iter(table.to_batches()))], None
            except BaseException as raised:  # noqa: BLE001 - SystemExit too; Spark ends a worker by a signal
                error = raised
        return [], error

    def _letter(self, row: pa.RecordBatch | pa.Table, error: BaseException) -> dict[str, Any]:
        text = error_text(error)
        return {"bolt": self.bolt, "error": text, "attempts": self.attempts, "tuple": tuple_text(row)}

    def _alive(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column(pa.field(DEAD_COLUMN, _DEAD), pa.nulls(batch.num_rows, _DEAD))

    def _dead(self, letters: list[dict[str, Any]]) -> pa.RecordBatch:
        self.timer.dead(len(letters))
        columns = [pa.nulls(len(letters), field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(letters, _DEAD)],
            schema=pa.schema([*self.schema, pa.field(DEAD_COLUMN, _DEAD)]),
        )
