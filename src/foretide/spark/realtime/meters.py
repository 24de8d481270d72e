"""Meters of operators: Columns that count tuples, work, arrivals and latency in the executor's JVM, for each row.

A stage of a real-time query works on one row at a time. So a stamp where a tuple enters an operator and one where it
leaves measure the work on it, and the tuple's record timestamp is handed from the one to the other through the
counters, whatever columns the operator makes. Where an executor has no counters, nothing is counted and no row is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from foretide.metrics.task_meters import (
    BUCKETS,
    EMITTED,
    FIRST_MICROSECONDS,
    PER_DECADE,
    SQUARE_NANOSECONDS,
    STRIDE,
    Place,
    property_of,
    size_of,
)
from foretide.spark.groupings import hashable
from foretide.spark.realtime.jvm import Jvm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

TIMESTAMP = "_ft_timestamp"
"""The hidden column with a tuple's record timestamp, in microseconds since 1970, between an exit and the next entry."""

PARTITION = "_ft_partition"
"""The hidden column with the partition of a topic that a record was read from."""

_NOW, _BASE, _BEFORE, _ENTERED = "_ft__now", "_ft__base", "_ft__before", "_ft__entered"
_STAMP, _LAP, _SPENT, _LATENCY = "_ft__stamp", "_ft__lap", "_ft__spent", "_ft__latency"
_HIDDEN = (_NOW, _BASE, _BEFORE, _ENTERED, _STAMP, _LAP, _SPENT, _LATENCY)
_LARGEST = 2.0**62
_SHIFT = STRIDE.bit_length() - 1


def meter_entry(frame: DataFrame, name: str, key: str, width: int) -> DataFrame:
    """Count each tuple that enters an operator: right behind its edge's exchange, or behind the source of a spout.

    It is a barrier, too: no work moves across it. The column `_ft_timestamp` is kept in the counters and dropped; a
    frame may have none. Arrivals are counted when the task takes a tuple, which is later than its arrival if the task
    is busy: see `foretide.metrics.arrival_variation`.

    Args:
        frame: The tuples.
        name: The operator.
        key: Tells this query from others in the same JVM.
        width: Tasks that have counters of their own; the tuples of others are counted together, without times.
    """
    meter = _Meter(frame.sparkSession, name, key, width)
    kept = [column for column in frame.columns if column != TIMESTAMP]
    stamp = F.coalesce(F.col(TIMESTAMP), F.lit(0)) if TIMESTAMP in frame.columns else F.lit(0)
    stamped = meter.at_task(frame).withColumn(_BEFORE, meter.swap(Place.ENTERED, F.col(_NOW)))
    gap = (F.col(_NOW) - F.col(_BEFORE)).cast("double")
    counted = [
        meter.add(Place.TUPLES, F.lit(1)),
        meter.add(Place.GAP_SQUARES, F.when(F.col(_BEFORE) != 0, _squared(gap * gap)).otherwise(0)),
        meter.swap(Place.TIMESTAMP, stamp),
    ]
    every_column = F.xxhash64(*hashable(frame, kept))
    return stamped.where(_always(counted) | (every_column == 0)).drop(*_HIDDEN, TIMESTAMP)


def meter_exit(frame: DataFrame, name: str, key: str, width: int, *, took: Column | None = None) -> DataFrame:
    """Count each tuple that an operator emits and time the work on it: before the next edge or the sink.

    It is `meter_work` and `meter_sent` in one, for an operator that sends on all that it makes.
    """
    return meter_sent(meter_work(frame, name, key, width, took=took), name, key, width)


def meter_work(frame: DataFrame, name: str, key: str, width: int, *, took: Column | None = None) -> DataFrame:
    """Time the work on each tuple: where the operator's work ends, before one of its streams is picked.

    The work on a tuple ends with the last tuple that it led to. A tuple that led to none is counted at the entry only:
    how long it took is not known. The column `_ft_timestamp` is there again afterwards, null where it is not known.
    Entry and exit have to be in one task: for an operator with an exchange of Spark's own see `meter_emitted`.

    Args:
        frame: What the operator made.
        name: The operator.
        key: As at the entry.
        width: As at the entry.
        took: The work in nanoseconds, for an operator that holds several rows at a time, as Python bolts do: on the
            first of the tuples that one led to, null on others and on tuples that were not timed. The column
            `_ft_timestamp` has to be carried through the operator.
    """
    meter = _Meter(frame.sparkSession, name, key, width)
    if took is not None:
        timed = meter.at_task(frame).withColumn(_LAP, took.cast("long"))
        first, spent = F.col(_LAP).isNotNull(), F.lit(0.0)
    else:
        timed = _with_laps(frame, meter)
        first, spent = F.col(_SPENT) == 0, F.col(_SPENT)
    lap = F.col(_LAP).cast("double")
    counted = [
        meter.add(Place.BUSY, F.coalesce(F.col(_LAP), F.lit(0))),
        meter.add(Place.SQUARES, F.coalesce(_squared(lap * (lap + 2 * spent)), F.lit(0))),
        meter.add(Place.TIMED, F.when(F.col(_LAP).isNotNull() & first, 1).otherwise(0)),
    ]
    return timed.where(_always(counted)).drop(*_HIDDEN)


def meter_sent(frame: DataFrame, name: str, key: str, width: int) -> DataFrame:
    """Count each tuple that leaves an operator, and its latency: behind `meter_work`, when its stream is picked."""
    meter = _Meter(frame.sparkSession, name, key, width)
    return _emitted(meter.at_task(frame), meter)


def meter_emitted(frame: DataFrame, name: str, key: str, width: int) -> DataFrame:
    """Count each tuple that leaves an operator with an exchange of Spark's own inside, such as an aggregation.

    Its tuples enter in the tasks before that exchange and leave in those behind it, which are not told which tuple led
    to which. So tuples and arrivals are known at the entry and the number of tuples here, in counters of their own
    (`<operator>.emitted`). Work on a tuple is not known, and latency only if the operator makes `_ft_timestamp` itself
    (an aggregation: the latest one of a group).
    """
    return meter_sent(frame, f"{name}{EMITTED}", key, width)


def hold_timestamp(frame: DataFrame, name: str, key: str, width: int) -> DataFrame:
    """Keep `_ft_timestamp` in counters and drop it, before work that may not hand it on; nothing is counted.

    It is a barrier like `meter_entry`. `restore_timestamp` brings the column back in the same task.
    """
    meter = _Meter(frame.sparkSession, name, key, width)
    held = meter.swap(Place.TIMESTAMP, F.coalesce(F.col(TIMESTAMP), F.lit(0)))
    kept = [column for column in frame.columns if column != TIMESTAMP]
    every_column = F.xxhash64(*hashable(frame, kept))
    return meter.at_task(frame).where(_always([held]) | (every_column == 0)).drop(*_HIDDEN, TIMESTAMP)


def restore_timestamp(frame: DataFrame, name: str, key: str, width: int) -> DataFrame:
    """The frame with the `_ft_timestamp` that the counters hold, null where it is not known."""
    meter = _Meter(frame.sparkSession, name, key, width)
    read = meter.at_task(frame).withColumn(_STAMP, meter.get(Place.TIMESTAMP))
    return read.withColumn(TIMESTAMP, meter.held_stamp).drop(*_HIDDEN)


def meter_partitions(frame: DataFrame, name: str, key: str, width: int) -> DataFrame:
    """Count each record of a topic by its partition, in the column `_ft_partition`, which is dropped.

    Which task reads which partition is Spark's secret: the order of tasks is not that of partitions.
    """
    meter = _Meter(frame.sparkSession, name, key, width)
    row = F.shiftleft(F.least(F.col(PARTITION), F.lit(width)), _SHIFT)
    counted = _always([meter.add(Place.TUPLES, F.lit(1))])
    return frame.withColumn(_BASE, row).where(counted).drop(_BASE, PARTITION)


def create_counters(spark: SparkSession, key: str, widths: Mapping[str, int]) -> None:
    """Create the counters of operators in the driver's JVM: all there is to do for a master `local[N]`.

    Counters that are there already are kept.
    """
    jvm = spark._jvm  # noqa: SLF001
    properties, made = jvm.java.lang.System.getProperties(), jvm.java.util.concurrent.atomic.AtomicLongArray  # type: ignore[union-attr]
    for operator, width in widths.items():
        properties.putIfAbsent(property_of(key, operator, width), made(size_of(width)))


def driver_counters(spark: SparkSession, keys: Iterable[str]) -> dict[str, dict[str, str]]:
    """The counters in the driver's JVM as text, by property, under the one executor of `local[N]`."""
    properties = spark._jvm.java.lang.System.getProperties()  # type: ignore[union-attr]  # noqa: SLF001
    found = {key: properties.get(key) for key in keys}
    return {"driver": {key: array.toString() for key, array in found.items() if array is not None}}


@dataclass(frozen=True)
class _Meter:
    """The counters of an operator, at the row of the task that evaluates the expression."""

    spark: SparkSession
    name: str
    key: str
    width: int

    @cached_property
    def jvm(self) -> Jvm:
        return Jvm(self.spark)

    @cached_property
    def counters(self) -> str:
        return property_of(self.key, self.name, self.width)

    def add(self, place: int | Column, value: Column) -> Column:
        return self.jvm.counter_add(self.counters, self._index(place), value.cast("long"))

    def swap(self, place: Place, value: Column) -> Column:
        return self.jvm.counter_set(self.counters, self._index(place), value.cast("long"))

    def get(self, place: Place) -> Column:
        return self.jvm.counter_get(self.counters, self._index(place))

    def at_task(self, frame: DataFrame, *, worked_out: bool = False) -> DataFrame:
        """The frame with the time, and where the counters of the task begin.

        Spark works out a column when it is needed first. With `worked_out` that is before the time is taken.
        """
        task, now = F.least(F.spark_partition_id(), F.lit(self.width)), self.jvm.nano_time()
        if worked_out:
            every_column = F.xxhash64(*hashable(frame, frame.columns))
            now = F.when(every_column == 0, F.lit(0)).otherwise(now)  # which is as good as never
        return frame.withColumns({_NOW: now, _BASE: F.shiftleft(task, _SHIFT)})

    @property
    def own(self) -> Column:
        """Whether the task has counters of its own."""
        return F.col(_BASE) < self.width * STRIDE

    @property
    def held_stamp(self) -> Column:
        """The record timestamp that was read from the counters; null if it is not known, or of another task."""
        return F.when(self.own & (F.col(_STAMP) != 0), F.col(_STAMP))

    @staticmethod
    def _index(place: int | Column) -> Column:
        """A place of the task's counters; nothing here can overflow, so nothing is checked for it."""
        return F.col(_BASE).bitwiseOR(F.lit(int(place)) if isinstance(place, int) else place)


def _with_laps(frame: DataFrame, meter: _Meter) -> DataFrame:
    """The frame with the time since the tuple's entry or the exit before, whichever was later, and between the two."""
    read = meter.at_task(frame, worked_out=True).withColumns(
        {
            _BEFORE: meter.swap(Place.LEFT, F.col(_NOW)),
            _ENTERED: meter.get(Place.ENTERED),
            _STAMP: meter.get(Place.TIMESTAMP),
        }
    )
    since = F.greatest(F.col(_BEFORE), F.col(_ENTERED))
    return read.withColumns(
        {
            _LAP: F.when(F.col(_ENTERED) != 0, F.col(_NOW) - since),
            _SPENT: since - F.col(_ENTERED),
            TIMESTAMP: meter.held_stamp,
        }
    )


def _emitted(frame: DataFrame, meter: _Meter) -> DataFrame:
    """Count each tuple in the histogram of latency, or as one whose latency is not known."""
    if TIMESTAMP in frame.columns:
        frame = frame.withColumn(_LATENCY, F.try_subtract(meter.jvm.wall_clock(), F.col(TIMESTAMP)))
        late = F.col(_LATENCY)
        decades = meter.jvm.log10(F.greatest(late, F.lit(1)).cast("double") / FIRST_MICROSECONDS)
        above = F.floor(decades * PER_DECADE) + 1
        bucket = F.least(F.greatest(above, F.lit(0)), F.lit(BUCKETS - 1)) + int(Place.HISTOGRAM)
        place = F.when(late.isNull(), int(Place.UNKNOWN)).otherwise(bucket).cast("int")
        counted = [meter.add(Place.LATENCY, F.coalesce(late, F.lit(0))), meter.add(place, F.lit(1))]
    else:
        counted = [meter.add(Place.UNKNOWN, F.lit(1))]
    return frame.where(_always(counted)).drop(*_HIDDEN)


def _always(counted: list[Column]) -> Column:
    """True, whatever the counters are, and known to nobody but us. Nothing else is safe from overflow."""
    all_of_them = reduce(lambda left, right: left.bitwiseAND(right), counted)
    return F.shiftrightunsigned(F.coalesce(all_of_them, F.lit(0).cast("long")), 1) >= 0


def _squared(square_nanoseconds: Column) -> Column:
    """A square as it is added up: rounded, and never beyond what Spark can cast."""
    rounded = square_nanoseconds / SQUARE_NANOSECONDS + 0.5
    return F.least(F.greatest(rounded, F.lit(0.0)), F.lit(_LARGEST)).cast("long")
