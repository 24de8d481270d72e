"""Advice for a query that is followed, worked out again now and then from its last batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from foretide.planning.advice import Advice, advise
from foretide.planning.stage_costs import MIN_BATCHES, WARM_UP_BATCHES, measure
from foretide.runtime.threads import guarded
from foretide.spark.running_query import read_environment

if TYPE_CHECKING:
    from foretide.control.world.setup import Target
    from foretide.runtime.pipeline.follower import Follower
    from foretide.spark.executors import Executors

_PERIOD_SECONDS = 15.0


class Adviser:
    """Works out advice at most every 15 s, when it is asked for and batches have been reported since."""

    def __init__(
        self,
        follower: Follower,
        executors: Executors,
        target: Callable[[], Target],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._follower, self._executors, self._target, self._clock = follower, executors, target, clock
        self._advice: list[Advice] = []
        self._batch, self._due = -1, 0.0

    def advice(self) -> list[Advice]:
        """What a person could change, that which saves most first. What fails is logged, and changes nothing."""
        batch, now = self._follower.last_batch, self._clock()
        if batch >= WARM_UP_BATCHES + MIN_BATCHES - 1 and batch > self._batch and now >= self._due:
            self._batch, self._due = batch, now + _PERIOD_SECONDS
            guarded(self._work_out, f"advice for '{self._follower.topology.name}'")
        return list(self._advice)

    def _work_out(self) -> None:
        executors = len(self._executors.executors()) or 1
        measured = measure(list(self._follower.reports), executors * self._executors.cores)
        if measured is None:
            self._due = 0.0
            return
        environment = read_environment(self._follower.query.handle, executors)
        latency = self._target().latency
        self._advice = advise(measured, replace(environment, latency_target=latency))
