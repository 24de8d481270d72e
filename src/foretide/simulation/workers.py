"""What can befall one worker: slow for a while, or gone for a while; and when its work is then done."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A worker that runs at `speed` times its usual pace from `start` to `end`; a speed of 0 hangs.

    Attributes:
        worker: Its number, from 0.
        start: Seconds.
        end: Seconds.
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
    """One timeline for each worker that anything befalls."""
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
