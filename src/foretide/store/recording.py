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

_BATCHES_IN_MEMORY = 100
_LEAD_SECONDS = 60.0
"""Samples count from this long before the end of the first batch."""

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
        """All that is kept of a pipeline, or what is kept from a time on. A damaged setup is reported and left out.

        Raises:
            ReplayError: The store has no setup of it, or no batch.
        """
        setups = tuple(store.setups(pipeline, on_problem=on_problem))
        if not setups:
            raise ReplayError(
                f"the store has no setup of '{pipeline}'; its control loop writes one while it runs, acting or advising"
            )
        ends = tuple(each.at for each in store.read(pipeline, metrics=[BATCH], subjects=[pipeline], since=since))
        if not ends:
            raise ReplayError(f"no batch of '{pipeline}' was recorded{'' if since is None else ' in that time'}")
        return cls(store, pipeline, setups, ends)

    def worlds(self, *, latency: float | None = None, smoothing: Smoothing | None = None) -> Iterator[World]:
        """A world for every batch.

        Args:
            latency: T_max in seconds, instead of the recorded one.
            smoothing: How to smooth metrics, by name.
        """
        target = None if latency is None else _with_latency(self.setups[-1].target, latency)
        return worlds(self.setups, self._samples(), target=target, smoothing=smoothing)

    def _samples(self) -> Iterator[Sample]:
        """In order of time, some batches at once: a week of them may not fit into memory."""
        since = self.ends[0] - _LEAD_SECONDS
        for start in range(0, len(self.ends), _BATCHES_IN_MEMORY):
            until = math.nextafter(self.ends[start : start + _BATCHES_IN_MEMORY][-1], math.inf)
            yield from self.store.read(self.pipeline, since=since, until=until)
            since = until


def _with_latency(target: Target, latency: float) -> Target:
    return replace(target, latency=latency, relaxed=target.relaxed if target.relaxed < latency else 0.0)
