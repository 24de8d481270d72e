"""Workers: how fast each one is at a time, and stations, in which they take tuples from a queue.

A station takes tuples in the order in which they join its queue and returns at once when each is begun
and done. That is exact, not an approximation: nothing that joins later can overtake, so the next tuple is
begun when the first worker is free, which is known. Departures need no events, only the time at which each
worker is free.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from heapq import heapreplace
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from foretide.simulation.routes import Router
    from foretide.simulation.variation import Floats


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A worker that runs at `speed` times its usual pace from `start` to `end`; a speed of 0 hangs.

    Attributes:
        speed: 0.25 takes four times as long; above 1 is faster. Slowdowns that overlap multiply.
        operator: Whose worker; None for a core that all stages share (micro-batches).
    """

    worker: int
    start: float
    end: float
    speed: float
    operator: str | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """A worker that is gone from `start` to `end`.

    What it was working on is lost with it and is replayed from the beginning: it rejoins the tail of its
    operator's queue at once, and is routed again. What waits in the queue of a routed task waits on.
    """

    worker: int
    start: float
    end: float
    operator: str | None = None


class WorkerTimeline:
    """When one worker is there and how fast it is.

    >>> hogged = WorkerTimeline([Slowdown(0, 10.0, 20.0, speed=0.5)], [Outage(0, 50.0, 60.0)])
    >>> hogged.finish(9.0, work=2.0)
    (12.0, False)
    >>> hogged.finish(19.0, work=2.0)
    (21.5, False)
    >>> hogged.ready(55.0), hogged.finish(49.5, work=2.0)
    (60.0, (50.0, True))
    """

    def __init__(self, slowdowns: Sequence[Slowdown], outages: Sequence[Outage]) -> None:
        self._knots = sorted({edge for slow in slowdowns for edge in (slow.start, slow.end)})
        self._speeds = [
            math.prod(slow.speed for slow in slowdowns if slow.start <= knot < slow.end) for knot in self._knots
        ]
        self._gone = _merged((outage.start, outage.end) for outage in outages)

    def ready(self, time: float) -> float:
        """The first moment from `time` on at which the worker is there."""
        for start, end in self._gone:
            if start <= time < end:
                return end
        return time

    def available(self, since: float, time: float) -> float:
        """Since when a worker, free from `since` on, has been there at `time`; later than that if gone."""
        for start, end in self._gone:
            if start <= time and end > since:
                since = end
        return since

    def finish(self, start: float, work: float) -> tuple[float, bool]:
        """When work begun at `start` ends, and whether it was lost at that moment."""
        end = self._undisturbed_finish(start, work)
        for gone, _ in self._gone:
            if start <= gone < end:
                return gone, True
        return end, False

    def _undisturbed_finish(self, start: float, work: float) -> float:
        if work <= 0:
            return start
        now = start
        piece = bisect_right(self._knots, start) - 1
        while True:
            speed = self._speeds[piece] if piece >= 0 else 1.0
            until = self._knots[piece + 1] if piece + 1 < len(self._knots) else math.inf
            if work <= (until - now) * speed or math.isinf(until):
                return now + work / speed
            work -= (until - now) * speed
            now, piece = until, piece + 1


def timelines(slowdowns: Iterable[Slowdown], outages: Iterable[Outage]) -> dict[int, WorkerTimeline]:
    """One timeline for each worker that is slow or gone at any time."""
    slow, gone = tuple(slowdowns), tuple(outages)
    workers = {event.worker for event in slow} | {event.worker for event in gone}
    return {
        worker: WorkerTimeline(
            [event for event in slow if event.worker == worker],
            [event for event in gone if event.worker == worker],
        )
        for worker in sorted(workers)
    }


def _merged(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class Station(Protocol):
    """What every station can do: take one tuple."""

    def admit(self, time: float, work: float) -> tuple[float, float, bool]:
        """When a tuple that joins at `time` is begun, when it leaves its worker, and whether it was lost."""
        ...


class SharedStation:
    """One queue for all workers, as in M/M/k; all workers alike.

    >>> station = SharedStation(workers=2)
    >>> station.serve(np.array([0.0, 0.0, 1.0]), np.array([5.0, 3.0, 1.0]))
    array([0., 0., 3.])
    >>> station.admit(3.5, 1.0)
    (4.0, 5.0, False)
    """

    def __init__(self, workers: int) -> None:
        self._free = [0.0] * workers

    def serve(self, times: Floats, works: Floats) -> Floats:
        """When each tuple is begun, given the rising times at which they join."""
        free = self._free
        begun: list[float] = []
        append = begun.append
        for time, work in zip(times.tolist(), works.tolist(), strict=True):
            start = free[0]
            if start < time:  # noqa: PLR1730 twice as fast as max()
                start = time
            heapreplace(free, start + work)
            append(start)
        return np.array(begun, dtype=np.float64)

    def admit(self, time: float, work: float) -> tuple[float, float, bool]:
        """Take one tuple."""
        start = self._free[0]
        if start < time:  # noqa: PLR1730 twice as fast as max()
            start = time
        end = start + work
        heapreplace(self._free, end)
        return start, end, False


class UnevenStation:
    """One queue for all workers, some of which are slow or gone for a while.

    Of several idle workers, the one that has been there and idle longest takes the tuple.
    """

    def __init__(self, workers: int, timelines: Mapping[int, WorkerTimeline]) -> None:
        self._free = [(0.0, worker) for worker in range(workers)]
        self._timelines = timelines

    def admit(self, time: float, work: float) -> tuple[float, float, bool]:
        """Take one tuple."""
        return self.assign(time, work)[:3]

    def assign(self, time: float, work: float) -> tuple[float, float, bool, int]:
        """Take one tuple, and say which worker got it."""
        free = self._free
        while True:
            idle_since, worker = free[0]
            start = max(time, idle_since)
            timeline = self._timelines.get(worker)
            if timeline is None:
                heapreplace(free, (start + work, worker))
                return start, start + work, False, worker
            there_since = timeline.available(idle_since, start)
            if there_since > idle_since:
                heapreplace(free, (there_since, worker))
                continue
            end, lost = timeline.finish(start, work)
            heapreplace(free, (end, worker))
            return start, end, lost, worker


class RoutedStation:
    """A queue of its own for each task; the route says which one a tuple joins.

    >>> from foretide.simulation.routes import RouteChange, Router
    >>> station = RoutedStation(2, Router([RouteChange((0.0, 1.0))], np.random.default_rng(1)), {})
    >>> station.serve(np.array([0.0, 1.0]), np.array([5.0, 1.0]))
    array([0., 5.])
    """

    def __init__(self, tasks: int, router: Router, timelines: Mapping[int, WorkerTimeline]) -> None:
        self._free = [0.0] * tasks
        self._router = router
        self._timelines = timelines

    def serve(self, times: Floats, works: Floats) -> Floats:
        """When each tuple is begun; only where no task is ever slow or gone."""
        free = self._free
        tasks = self._router.assign(times).tolist()
        begun: list[float] = []
        append = begun.append
        for time, work, task in zip(times.tolist(), works.tolist(), tasks, strict=True):
            start = free[task]
            if start < time:  # noqa: PLR1730 twice as fast as max()
                start = time
            free[task] = start + work
            append(start)
        return np.array(begun, dtype=np.float64)

    def admit(self, time: float, work: float) -> tuple[float, float, bool]:
        """Take one tuple."""
        task = self._router.assign_one(time)
        start = max(time, self._free[task])
        timeline = self._timelines.get(task)
        if timeline is None:
            end, lost = start + work, False
        else:
            start = timeline.ready(start)
            end, lost = timeline.finish(start, work)
        self._free[task] = end
        return start, end, lost
