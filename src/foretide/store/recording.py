"""A pipeline's history in the store, as the worlds that a control loop would have seen."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from foretide.control.history import BATCH, RecordedWorld, Smoothing, worlds
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.errors import ReplayError
from foretide.metrics.metric import Sample
from foretide.store.journal import OnProblem
from foretide.store.metric_store import MetricStore

AT_ONCE = 100
"""Batches whose samples are in memory at one time."""

BEFORE = 60.0
"""Seconds before the end of the first batch from which samples still count."""

log = logging.getLogger("foretide")


@dataclass(frozen=True)
class Recording:
    """What was recorded of a pipeline: its setups, and when its batches ended."""

    store: MetricStore
    pipeline: str
    setups: tuple[RecordedWorld, ...]
    ends: tuple[float, ...]

    @classmethod
    def of(
        cls, store: MetricStore, pipeline: str, *, since: float | None = None, on_problem: OnProblem = log.warning
    ) -> Self:
        """All that is kept of a pipeline, or what is from a time on. A setup that is damaged is told and left out.

        Raises:
            ReplayError: Its setup was never kept, or no batch of it was.
        """
        setups = tuple(store.setups(pipeline, on_problem=on_problem))
        if not setups:
            raise ReplayError(
                f"the store does not say what '{pipeline}' is made of; its control loop writes that when it runs, "
                "acting or advising"
            )
        ends = tuple(each.at for each in store.read(pipeline, metrics=[BATCH], subjects=[pipeline], since=since))
        if not ends:
            raise ReplayError(f"no batch of '{pipeline}' was recorded{'' if since is None else ' in that time'}")
        return cls(store, pipeline, setups, ends)

    def worlds(self, *, latency: float | None = None, smoothing: Smoothing | None = None) -> Iterator[World]:
        """A world for every batch.

        Args:
            latency: T_max, in seconds, instead of what was to be held.
            smoothing: How to smooth which metrics, by name.
        """
        target = None if latency is None else _with_latency(self.setups[-1].target, latency)
        return worlds(self.setups, self._samples(), target=target, smoothing=smoothing)

    def _samples(self) -> Iterator[Sample]:
        """In order of time, a few batches at a time: a week of them may not fit into memory."""
        since = self.ends[0] - BEFORE
        for start in range(0, len(self.ends), AT_ONCE):
            until = math.nextafter(self.ends[start : start + AT_ONCE][-1], math.inf)
            yield from self.store.read(self.pipeline, since=since, until=until)
            since = until


def _with_latency(target: Target, latency: float) -> Target:
    return replace(target, latency=latency, relaxed=target.relaxed if target.relaxed < latency else 0.0)
