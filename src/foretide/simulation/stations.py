"""Stations: the workers of one operator, who take tuples from its queue first come, first served.

A station is told of tuples in the order in which they join its queue and says at once when each is begun
and done. That is exact, not an approximation: nothing that joins later can overtake, so the next tuple is
begun when the first worker is free, which is known. Departures need no events, only the time at which each
worker is free.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.simulation.routes import Router
    from foretide.simulation.variation import Floats
    from foretide.simulation.workers import WorkerTimeline


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
        free = self._free
        while True:
            idle_since, worker = free[0]
            start = max(time, idle_since)
            timeline = self._timelines.get(worker)
            if timeline is None:
                heapreplace(free, (start + work, worker))
                return start, start + work, False
            there_since = timeline.available(idle_since, start)
            if there_since > idle_since:
                heapreplace(free, (there_since, worker))
                continue
            end, lost = timeline.finish(start, work)
            heapreplace(free, (end, worker))
            return start, end, lost


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
        """When each tuple is begun; only for tasks that nothing befalls."""
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
