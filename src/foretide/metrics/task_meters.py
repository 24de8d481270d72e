"""What the tasks of an operator count while they run: layout of the counters, parsing, differences, and figures.

An executor's JVM has one array of counters an operator, with a row of `STRIDE` numbers a task, and one more for tasks
beyond the width. Counters only grow; squares may pass 2**63 and wrap round, which differences do not notice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from itertools import accumulate

from foretide.errors import MonitoringError

PER_DECADE, FIRST_MICROSECONDS, BUCKETS = 8, 100, 54
"""The histogram of latency: 8 buckets a decade from 0.1 ms to 316 s, one below and one above."""

SQUARE_NANOSECONDS = 1000.0
"""The unit of squares, in square nanoseconds: times of some 100 ns and of minutes are both told with it."""

_MODULUS = 1 << 64
_MAX_GAP_SECONDS = 10.0
_MIN_GAPS = 20


class Place(IntEnum):
    """The place of each counter of a task.

    `ENTERED` and `LEFT` are times of the last entry and exit (nanoseconds), `TIMESTAMP` is the record timestamp of the
    tuple under work (microseconds since 1970). `TIMED` counts the tuples that led to a tuple or more: `BUSY` is the
    work on these in nanoseconds, `SQUARES` the sum of its squares. `LATENCY` adds up microseconds. `UNKNOWN` counts
    emitted tuples whose record timestamp is not known; the others are in the histogram, which begins at `HISTOGRAM`.
    """

    TUPLES = 0
    ENTERED = 1
    GAP_SQUARES = 2
    TIMESTAMP = 3
    LEFT = 4
    BUSY = 5
    SQUARES = 6
    TIMED = 7
    LATENCY = 8
    UNKNOWN = 9
    HISTOGRAM = 10


STRIDE = 64
"""Numbers a task, a power of two. Tasks share no cache line but at the ends, so they do not slow each other down."""

EMITTED = ".emitted"
"""How the counters behind an exchange of Spark's own inside an operator are called: `<operator>.emitted`."""

SINK = ".sink"
"""How the counters of tuples are called that a bolt sends to the sink while it is metered elsewhere: `<bolt>.sink`."""


def prefix_of(key: str) -> str:
    """How the properties with the counters of a query begin."""
    return f"foretide.meter.{key}."


def property_of(key: str, operator: str, width: int) -> str:
    """The system property that holds the counters of an operator of so many tasks: another pool has others.

    >>> property_of("k1", "parse", 4)
    'foretide.meter.k1.parse.4'
    """
    return f"{prefix_of(key)}{operator}.{width}"


def size_of(width: int) -> int:
    """Numbers in the counters of an operator of so many tasks."""
    return (width + 1) * STRIDE


@dataclass(frozen=True, slots=True)
class TaskMeter:
    """The counters of one task, in their own units; `task` is None for all tasks beyond the width together."""

    task: int | None
    tuples: int = 0
    entered: int = 0
    gap_squares: int = 0
    busy: int = 0
    squares: int = 0
    timed: int = 0
    latency: int = 0
    unknown: int = 0
    histogram: tuple[int, ...] = (0,) * BUCKETS

    @property
    def emitted(self) -> int:
        """Tuples that the operator sent on."""
        return self.unknown + sum(self.histogram)


def parse_counters(text: str) -> tuple[TaskMeter, ...]:
    """The counters of an operator in one JVM, task by task, from text such as `[17, 0, 4]`."""
    try:
        numbers = [int(number) for number in text.strip().removeprefix("[").removesuffix("]").split(",")]
    except ValueError as error:
        raise MonitoringError(f"counters cannot be read: {text[:60]!r} is not a list of numbers") from error
    if len(numbers) % STRIDE or len(numbers) <= STRIDE:
        raise MonitoringError(f"counters cannot be read: {len(numbers)} numbers are not rows of {STRIDE}, two or more")
    rows = [numbers[begin : begin + STRIDE] for begin in range(0, len(numbers), STRIDE)]
    return (*(_meter(task, row) for task, row in enumerate(rows[:-1])), _meter(None, rows[-1]))


def _meter(task: int | None, row: Sequence[int]) -> TaskMeter:
    return TaskMeter(
        task,
        tuples=row[Place.TUPLES],
        entered=row[Place.ENTERED],
        gap_squares=row[Place.GAP_SQUARES],
        busy=row[Place.BUSY],
        squares=row[Place.SQUARES],
        timed=row[Place.TIMED],
        latency=row[Place.LATENCY],
        unknown=row[Place.UNKNOWN],
        histogram=tuple(row[Place.HISTOGRAM : Place.HISTOGRAM + BUCKETS]),
    )


@dataclass(frozen=True, slots=True)
class Work:
    """What a task did between two readings, or what several did together.

    `timed` tuples took `seconds`, with `squares` as sum of the squares; `gaps` between arrivals likewise. `latencies`
    is the histogram of the emitted tuples whose latency is known, and `latency_seconds` their sum.
    """

    tuples: int = 0
    emitted: int = 0
    timed: int = 0
    seconds: float = 0.0
    squares: float = 0.0
    gaps: float = 0
    gap_seconds: float = 0.0
    gap_squares: float = 0.0
    latency_seconds: float = 0.0
    latencies: tuple[int, ...] = (0,) * BUCKETS

    @property
    def all_seconds(self) -> float | None:
        """Work on all tuples, those that led to none taken to be like the others; None if it is not known."""
        if not self.tuples:
            return 0.0
        return self.seconds * max(1.0, self.tuples / self.timed) if self.timed else None

    @property
    def mean_latency(self) -> float | None:
        """Mean latency in seconds, exact."""
        known = sum(self.latencies)
        return self.latency_seconds / known if known else None


def work_between(before: TaskMeter | None, now: TaskMeter) -> Work:
    """What a task did between two readings. Without an earlier one, or if its counters began anew: all they show.

    Tuples enter and leave while counters are read, so a reading may show one a little before the other.
    """
    if before is None or now.tuples < before.tuples or now.emitted < before.emitted:
        before = TaskMeter(now.task)
    tuples, own = now.tuples - before.tuples, now.task is not None
    waited = (now.entered - before.entered) / 1e9
    gaps = tuples if own and before.entered and 0 < waited <= _MAX_GAP_SECONDS else 0
    timed = max(0, now.timed - before.timed) if own else 0
    return Work(
        tuples=tuples,
        emitted=now.emitted - before.emitted,
        timed=timed,
        seconds=_grown(before.busy, now.busy) / 1e9 if timed else 0.0,
        squares=_grown(before.squares, now.squares) * SQUARE_NANOSECONDS / 1e18 if timed else 0.0,
        gaps=gaps,
        gap_seconds=waited if gaps else 0.0,
        gap_squares=_grown(before.gap_squares, now.gap_squares) * SQUARE_NANOSECONDS / 1e18 if gaps else 0.0,
        latency_seconds=_signed(now.latency - before.latency) / 1e6,
        latencies=tuple(max(0, b - a) for a, b in zip(before.histogram, now.histogram, strict=True)),
    )


def _grown(before: int, now: int) -> int:
    """How much a counter grew that may have wrapped round."""
    return (now - before) % _MODULUS


def _signed(difference: int) -> int:
    return (difference + _MODULUS // 2) % _MODULUS - _MODULUS // 2


def total(works: Iterable[Work]) -> Work:
    """What several tasks did together."""
    all_of_them = list(works)
    sums = {each.name: sum(getattr(work, each.name) for work in all_of_them) for each in fields(Work)[:-1]}
    return Work(**sums, latencies=merged(work.latencies for work in all_of_them))


def merged(histograms: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Several histograms as one."""
    return tuple(map(sum, zip((0,) * BUCKETS, *histograms, strict=True)))


def arrival_scv(works: Iterable[Work]) -> float | None:
    """The squared variation coefficient of the gaps between an operator's arrivals, None if there are too few.

    Each task sees a share p of them. If they are split at random, the gaps of a task vary by p * scv + (1 - p), so each
    task tells an scv: the more certain, the more of the arrivals it gets. Groupings by key are taken to do so.
    """
    seen = [work for work in works if work.gaps and work.gap_seconds > 0]
    tuples = sum(work.gaps for work in seen)
    if tuples < _MIN_GAPS:
        return None
    told = weights = 0.0
    for work in seen:
        share, mean = work.gaps / tuples, work.gap_seconds / work.gaps
        of_task = max(0.0, work.gap_squares / work.gaps / mean**2 - 1)
        weight = work.gaps * share**2
        told += weight * (of_task - (1 - share)) / share
        weights += weight
    return max(0.0, told / weights)


def bounds(bucket: int) -> tuple[float, float]:
    """From where to where a bucket of the histogram of latency goes, in seconds.

    >>> [round(bound, 7) for bound in (*bounds(0), *bounds(8))]
    [0.0, 0.0001, 0.0007499, 0.001]
    """
    first = FIRST_MICROSECONDS / 1e6
    low = 0.0 if bucket == 0 else first * 10 ** ((bucket - 1) / PER_DECADE)
    return low, math.inf if bucket == BUCKETS - 1 else first * 10 ** (bucket / PER_DECADE)


def quantile(histogram: Sequence[int], level: float) -> float | None:
    """The latency in seconds that a share `level` of the tuples stayed within, interpolated; None without tuples.

    >>> quantile((0, 8) + (0,) * (BUCKETS - 2), 1.0) == bounds(1)[1]
    True
    """
    wanted = level * sum(histogram)
    for bucket, (tuples, below) in enumerate(zip(histogram, accumulate(histogram), strict=True)):
        if tuples and below >= wanted:
            low, high = bounds(bucket)
            part = 1 - (below - wanted) / tuples
            if math.isinf(high):
                return low
            return low * (high / low) ** part if low else high * part
    return None


def by_task(
    before: Mapping[str, Sequence[TaskMeter]], now: Mapping[str, Sequence[TaskMeter]]
) -> dict[tuple[str, int | None], Work]:
    """What each task did on each executor between two readings of one operator, by executor and task.

    An executor that is gone has no reading: what it did after the last one is not known.
    """
    found: dict[tuple[str, int | None], Work] = {}
    for executor, meters in now.items():
        earlier = {meter.task: meter for meter in before.get(executor, ())}
        for meter in meters:
            found[executor, meter.task] = work_between(earlier.get(meter.task), meter)
    return found
