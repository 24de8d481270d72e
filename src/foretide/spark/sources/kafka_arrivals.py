"""When the records of a batch arrived in Kafka, found by few questions to the broker and without reading a record.

The broker says which offset of each partition is the first one not older than an instant. So one question tells how
many records of the batch had arrived by then, in all partitions; the instants are chosen where quantiles lie. Exact
to a millisecond and a few percent of the latency, as long as a partition's timestamps ascend.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Find = Callable[[int], Mapping[int, int | None] | None]
"""The first offset of each partition that is not older than an instant (ms); None when that is unknown."""

_QUESTIONS = 24
_WIDEN = 4
_LEVELS = (0.01, 0.05, 0.5, 0.99)
_PRECISION = 0.05
_MIN_MS = 1
_FIRST_SPAN_MS = 1000

_WINDOWS = 8
_MIN_WINDOWS = 4
_WINDOW_MS = 10
_WINDOW_RECORDS = 10
"""Counts in windows tell the variation of arrivals; they have to hold some records and some milliseconds."""


@dataclass(frozen=True)
class Ranges:
    """The offsets of a batch by partition, from `first` up to and without `last`; none is empty."""

    first: Mapping[int, int]
    last: Mapping[int, int]

    @property
    def records(self) -> int:
        """All offsets in it."""
        return sum(self.last.values()) - sum(self.first.values())

    def before(self, found: Mapping[int, int | None]) -> NDArray[np.int_]:
        """Records of each partition before the offsets that were found."""
        return np.array([self._before(partition, found.get(partition)) for partition in self.first])

    def _before(self, partition: int, offset: int | None) -> int:
        first, last = self.first[partition], self.last[partition]
        return last - first if offset is None else min(max(offset, first), last) - first


@dataclass(frozen=True)
class Arrivals:
    """How many records of each partition (a column each) had arrived by each instant, from none to all of them."""

    partitions: tuple[int, ...]
    instants_ms: NDArray[np.int_]
    arrived: NDArray[np.int_]

    def at(self, shares: NDArray[np.float64], partition: int | None = None) -> NDArray[np.float64]:
        """When these shares of the records had arrived, in seconds since 1970; of one partition if it is named."""
        one = None if partition is None else self.partitions.index(partition)
        arrived = self.arrived.sum(axis=1) if one is None else self.arrived[:, one]
        wanted = np.clip(shares, 0.0, 1.0) * arrived[-1]
        after = np.clip(np.searchsorted(arrived, wanted, side="left"), 1, len(arrived) - 1)
        low, high = arrived[after - 1], arrived[after]
        part = np.where(high > low, (wanted - low) / np.maximum(high - low, 1), 1.0)
        start, end = self.instants_ms[after - 1], self.instants_ms[after]
        found: NDArray[np.float64] = (start + part * (end - start)) / 1000
        return found

    @property
    def span_ms(self) -> int:
        """From the last instant at which none had arrived to the last one of all."""
        total = self.arrived.sum(axis=1)
        return int(self.instants_ms[-1] - self.instants_ms[np.flatnonzero(total == 0)[-1]])


def find_arrivals(find: Find, ranges: Ranges, now_ms: int, span_ms: int | None = None) -> Arrivals | None:
    """Ask where the quantiles lie; `span_ms` is a guess of the oldest record's age. None when it cannot be told."""
    known: dict[int, NDArray[np.int_]] = {}
    asked = 0
    instant, span = now_ms, span_ms or _FIRST_SPAN_MS
    while not known or known[min(known)].sum():
        found = find(instant)
        if found is None:
            return None
        known[instant] = ranges.before(found)
        if asked == 0 and known[instant].sum() < ranges.records:  # stamped by a clock that runs ahead
            return None
        if instant == 0:
            known[instant] = np.zeros(len(ranges.first), dtype=int)
        instant, span, asked = max(0, now_ms - span), span * _WIDEN, asked + 1
    instants = sorted(known)
    while asked < _QUESTIONS:
        split = _widest(instants, [int(known[each].sum()) for each in instants], now_ms)
        found = None if split is None else find(split)
        if split is None or found is None:
            break
        known[split], asked = ranges.before(found), asked + 1
        insort(instants, split)
    counts = np.maximum.accumulate(np.array([known[each] for each in instants]), axis=0)
    return Arrivals(tuple(ranges.first), np.array(instants), counts)


def _widest(instants: list[int], arrived: list[int], now_ms: int) -> int | None:
    """Where to ask next: in the interval that tells a quantile least well, halving the ratio of its ages."""
    worst, middle = 1.0, None
    for level in _LEVELS:
        after = min(int(np.searchsorted(arrived, level * arrived[-1], side="left")), len(arrived) - 1)
        start, end = instants[max(after - 1, 0)], instants[after]
        allowed = max(_MIN_MS, _PRECISION * (now_ms - end))
        if (end - start) / allowed > worst and end - start > _MIN_MS:
            middle_age = math.sqrt((now_ms - start) * max(now_ms - end, _MIN_MS))
            worst, middle = (end - start) / allowed, min(max(now_ms - int(middle_age), start + 1), end - 1)
    return middle


def counts_in_windows(find: Find, ranges: Ranges, arrivals: Arrivals) -> list[int] | None:
    """Records that arrived in each of some equal windows up to the batch's end; None when they are too few to tell."""
    early, late = (float(each) * 1000 for each in arrivals.at(np.array([0.01, 0.99])))
    if late - early < _MIN_WINDOWS * _WINDOW_MS or ranges.records < _MIN_WINDOWS * _WINDOW_RECORDS:
        return None
    width = max(_WINDOW_MS, int(np.ceil(_WINDOW_RECORDS * (late - early) / ranges.records)))
    windows = min(_WINDOWS, int((late - early) // width))
    if windows < _MIN_WINDOWS:
        return None
    edges = [int(late) - width * number for number in range(windows, -1, -1)]
    arrived = list(_totals(find, ranges, edges))
    return [end - start for start, end in pairwise(arrived)] if len(arrived) == len(edges) else None


def _totals(find: Find, ranges: Ranges, instants: list[int]) -> Iterator[int]:
    for instant in instants:
        found = find(instant)
        if found is None:
            return
        yield int(ranges.before(found).sum())


def variation(batches: list[list[int]]) -> float | None:
    """The squared variation coefficient of the time between arrivals, by the index of dispersion of the counts.

    For a renewal process both are the same in the long run. Each batch has a rate of its own, so windows are compared
    within a batch.

    >>> variation([[10, 10, 10, 10]] * 6)
    0.0
    """
    freedom = sum(len(counts) - 1 for counts in batches)
    mean = sum((len(counts) - 1) * float(np.mean(counts)) for counts in batches)
    if freedom < 2 * _WINDOWS or mean <= 0:
        return None
    return sum((len(counts) - 1) * float(np.var(counts, ddof=1)) for counts in batches) / mean
