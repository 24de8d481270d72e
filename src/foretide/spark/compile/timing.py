"""What is measured in the data path: how long Python bolts take, and, on request, the event times of a spout's tuples.

Every N-th tuple of a Python bolt is timed where it runs, and Spark adds up what its tasks report (an accumulator). A
task that runs again reports again, so after a retry the counts are a little high; means and variation are not. Event
times are for sources that cannot tell when tuples arrived; they cost some 60 ns a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import functions as F

from foretide.metrics.batch import TIME_EVERY, BoltTimes, EventTimes
from foretide.spark.groupings import quoted

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame

EVENT_TIMES = "foretide_event_times_"
"""How the observation of a spout's event times is called, before the spout's name."""

_LEVELS = (0.01, 0.05, 0.5)
"""The oldest tuples have waited longest: latency at 0.99 is told by event time at 0.01."""

Sums = tuple[int, int, float, float, int]
_NOTHING: Sums = (0, 0, 0.0, 0.0, 0)


class _SumParam(AccumulatorParam[Sums]):
    def zero(self, value: Sums) -> Sums:  # noqa: ARG002
        return _NOTHING

    def addInPlace(self, one: Sums, other: Sums) -> Sums:  # noqa: N802 - Spark calls it
        return tuple(a + b for a, b in zip(one, other, strict=True))  # type: ignore[return-value]


@dataclass(frozen=True)
class Timer:
    """What a bolt holds on an executor to report its times."""

    sums: Accumulator[Sums]
    every: int = TIME_EVERY

    def report(self, tuples: int, timed: int, seconds: float, squares: float) -> None:
        """Add the times of some tuples."""
        self.sums.add((tuples, timed, seconds, squares, 0))

    def dead(self, tuples: int) -> None:
        """Note tuples that went to the dead letters."""
        self.sums.add((0, 0, 0.0, 0.0, tuples))


class Stopwatch:
    """Times every N-th call of a bolt's work on one tuple."""

    def __init__(self, timer: Timer) -> None:
        self._timer, self._every = timer, timer.every
        self._tuples = self._timed = 0
        self._seconds = self._squares = 0.0

    def run(self, work: Any, row: Any) -> list[Any]:
        """The work on one tuple, made to the end."""
        self._tuples += 1
        if self._tuples % self._every:
            return list(work(row))
        started = perf_counter()
        made = list(work(row))
        took = perf_counter() - started
        self._timed += 1
        self._seconds += took
        self._squares += took * took
        return made

    def stop(self) -> None:
        """Report, at the end of the task."""
        self._timer.report(self._tuples, self._timed, self._seconds, self._squares)


class BatchWatch:
    """Times work that takes a stream of Arrow batches: all of it, without the time spent waiting for the next batch."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._tuples = 0
        self._waited = self._seconds = 0.0

    def given(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The input, counted."""
        source = iter(batches)
        while True:
            started = perf_counter()
            try:
                batch = next(source)
            except StopIteration:
                return
            finally:
                self._waited += perf_counter() - started
            self._tuples += batch.num_rows
            yield batch

    def made(self, output: Iterable[Any]) -> Iterator[Any]:
        """The output, timed; reports when it ends."""
        source = iter(output)
        while True:
            started = perf_counter()
            try:
                batch = next(source)
            except StopIteration:
                self._seconds += perf_counter() - started
                break
            self._seconds += perf_counter() - started
            yield batch
        self._timer.report(self._tuples, self._tuples, max(0.0, self._seconds - self._waited), 0.0)


@dataclass
class Timers:
    """The timers of a topology's Python bolts, and what they had reported at the last look."""

    each: Mapping[str, bool]
    timers: Mapping[str, Timer]
    _before: dict[str, Sums] = field(default_factory=dict)

    @classmethod
    def of(cls, context: SparkContext, each: Mapping[str, bool], every: int = TIME_EVERY) -> Timers:
        """Timers for bolts by id; the flag says whether a bolt's tuples are timed one by one."""
        made = {bolt: Timer(context.accumulator(_NOTHING, _SumParam()), every) for bolt in each}
        return cls(each, made)

    def since_last(self) -> dict[str, BoltTimes]:
        """What each bolt reported since the last call."""
        return {bolt: self._of(bolt, timer.sums.value) for bolt, timer in self.timers.items()}

    def _of(self, bolt: str, now: Sums) -> BoltTimes:
        before = self._before.get(bolt, _NOTHING)
        self._before[bolt] = now
        tuples, timed, seconds, squares, dead = (a - b for a, b in zip(now, before, strict=True))
        each = self.each[bolt]
        return BoltTimes(int(tuples), int(timed), seconds, squares if each else None, int(dead))


def observe_event_times(frame: DataFrame, spout: str, column: str) -> DataFrame:
    """The same frame; each batch reports its event times under the spout's name."""
    seconds = F.col(quoted(column)).cast("double")
    levels = F.array(*(F.lit(level) for level in _LEVELS))
    return frame.observe(
        f"{EVENT_TIMES}{spout}",
        F.count(seconds).alias("tuples"),
        F.avg(seconds).alias("mean"),
        F.percentile_approx(seconds, levels, 10_000).alias("at"),
    )


def read_event_times(observed: Any) -> EventTimes | None:
    """What a batch reported; None when it had no tuples."""
    if not observed["tuples"]:
        return None
    return EventTimes(observed["tuples"], observed["mean"], dict(zip(_LEVELS, observed["at"], strict=True)))
