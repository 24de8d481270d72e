"""What a simulation keeps: sums by batch of time for each operator, and a few numbers a tuple tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from foretide.simulation.variation import Floats, Integers

_GATHER = 20_000


@dataclass(frozen=True, slots=True)
class TimeBins:
    """The measured stretch of simulated time, cut into equal batches.

    >>> TimeBins(10.0, 20.0, 5).bins(np.array([9.0, 10.0, 19.9, 20.0])).tolist()
    [0, 1, 5, 6]
    """

    start: float
    end: float
    batches: int

    @property
    def width(self) -> float:
        """Seconds a batch."""
        return (self.end - self.start) / self.batches

    @property
    def middles(self) -> Floats:
        """The middle of each batch."""
        return np.linspace(self.start, self.end, self.batches, endpoint=False) + self.width / 2

    def bins(self, times: Floats) -> Integers:
        """The batch of each time, from 1; 0 is before the stretch, batches + 1 after it."""
        scaled = (times - self.start) * (1 / self.width) + 1
        inside: Integers = np.minimum(np.maximum(scaled, 0), self.batches + 1).astype(np.int64)
        return inside

    def sums(self, bins: Integers, values: Floats | None = None) -> Floats:
        """How many, or the sum of values, in each bin."""
        return np.bincount(bins, values, minlength=self.batches + 2).astype(np.float64)


class Tally:
    """Count and sum of values by the batch that a time falls into. Small additions are gathered first.

    >>> tally = Tally(TimeBins(0.0, 10.0, 2))
    >>> tally.add(np.array([1.0, 7.0, 8.0]), np.array([0.5, 0.25, 0.5]))
    >>> tally.counts.tolist(), tally.sums.tolist()
    ([1.0, 2.0], [0.5, 0.75])
    """

    def __init__(self, bins: TimeBins) -> None:
        self._bins = bins
        self._counts, self._sums = np.zeros(bins.batches + 2), np.zeros(bins.batches + 2)
        self._gathered: list[tuple[Floats, Floats]] = []
        self._size = 0

    def add(self, times: Floats, values: Floats) -> None:
        """Add a value for each time."""
        self._gathered.append((times, values))
        self._size += len(times)
        if self._size > _GATHER:
            self._settle()

    def _settle(self) -> None:
        if self._size:
            times, values = (np.concatenate(each) for each in zip(*self._gathered, strict=True))
            bins = self._bins.bins(times)
            self._counts += self._bins.sums(bins)
            self._sums += self._bins.sums(bins, values)
        self._gathered, self._size = [], 0

    @property
    def counts(self) -> Floats:
        """How many fell into each batch."""
        self._settle()
        return self._counts[1:-1]

    @property
    def sums(self) -> Floats:
        """The sum of the values in each batch."""
        self._settle()
        return self._sums[1:-1]

    def elapsed(self) -> Floats:
        """Seconds within each batch that lie after a time, summed; if the values are those times."""
        self._settle()
        edges = np.arange(self._bins.batches + 1) * self._bins.width
        upto = edges * np.cumsum(self._counts)[:-1] - np.cumsum(self._sums)[:-1]
        return np.asarray(np.diff(upto), dtype=np.float64)


class Meter:
    """What is recorded of an operator.

    >>> meter = Meter(TimeBins(0.0, 10.0, 2))
    >>> meter.attempt(np.array([1.0]), np.array([3.0]), np.array([7.0]))
    >>> meter.waiting().tolist(), meter.busy().tolist()
    ([2.0, 0.0], [2.0, 2.0])
    """

    def __init__(self, bins: TimeBins) -> None:
        self._start = bins.start
        self._joined, self._begun, self._ended = Tally(bins), Tally(bins), Tally(bins)
        self._sojourns, self._finished = Tally(bins), Tally(bins)
        self.arrived = self.served = self.replayed = 0

    def attempt(self, joined: Floats, begun: Floats, ended: Floats) -> None:
        """Tuples waited from `joined` to `begun` and held a worker until `ended`."""
        self._joined.add(joined, joined - self._start)
        self._begun.add(begun, begun - self._start)
        self._ended.add(ended, ended - self._start)

    def complete(self, arrived: Floats, ended: Floats) -> None:
        """Tuples that arrived were processed."""
        self.served += len(ended)
        sojourns = ended - arrived
        self._sojourns.add(arrived, sojourns)
        self._finished.add(ended, sojourns)

    def waiting(self) -> Floats:
        """Tuple-seconds spent waiting, by batch."""
        return self._joined.elapsed() - self._begun.elapsed()

    def busy(self) -> Floats:
        """Worker-seconds spent working, by batch."""
        return self._begun.elapsed() - self._ended.elapsed()

    def finished(self) -> Floats:
        """Tuples processed, by batch."""
        return self._finished.counts

    def sojourns(self) -> tuple[Floats, Floats]:
        """Sum of the sojourn times, and the number, of the tuples that arrived in each batch."""
        return self._sojourns.sums, self._sojourns.counts


class TupleTrees:
    """All tuple trees: when the root arrived, when the last tuple was done, and the sum of all sojourn times.

    >>> records = TupleTrees()
    >>> trees = records.start(np.array([1.0, 2.0]))
    >>> records.process(trees, np.array([4.0, 3.0]), np.array([3.0, 1.0]))
    >>> records.completion_times.tolist(), records.completed
    ([3.0, 1.0], 2)
    """

    def __init__(self) -> None:
        self._size = 0
        self._arrivals, self._ends, self._sojourns = np.empty(1024), np.empty(1024), np.empty(1024)
        self._open = np.empty(1024, dtype=np.int64)

    def start(self, arrivals: Floats) -> Integers:
        """Open one tree for each arrival; returns their numbers."""
        low, high = self._size, self._size + len(arrivals)
        self._reserve(high)
        self._arrivals[low:high] = arrivals
        self._ends[low:high] = arrivals
        self._sojourns[low:high] = 0.0
        self._open[low:high] = 1
        self._size = high
        return np.arange(low, high)

    def _reserve(self, size: int) -> None:
        if size > len(self._arrivals):
            room = max(size, 2 * len(self._arrivals))
            self._arrivals, self._ends, self._sojourns = (
                np.resize(values, room) for values in (self._arrivals, self._ends, self._sojourns)
            )
            self._open = np.resize(self._open, room)

    def add(self, trees: Integers) -> None:
        """One more tuple in each of these trees."""
        np.add.at(self._open, trees, 1)

    def process(self, trees: Integers, ends: Floats, sojourns: Floats) -> None:
        """A tuple of each of these trees was processed."""
        np.maximum.at(self._ends, trees, ends)
        np.add.at(self._sojourns, trees, sojourns)
        np.add.at(self._open, trees, -1)

    @property
    def arrivals(self) -> Floats:
        """When each tree's root arrived."""
        return self._arrivals[: self._size]

    @property
    def completion_times(self) -> Floats:
        """Seconds from each root's arrival until its whole tree was processed."""
        return self._ends[: self._size] - self.arrivals

    @property
    def total_sojourns(self) -> Floats:
        """The sum of the sojourn times of all tuples of each tree."""
        return self._sojourns[: self._size]

    @property
    def completed(self) -> int:
        """Trees of which every tuple was processed."""
        return int(np.count_nonzero(self._open[: self._size] == 0))
