"""Keeps the store small beside its writer: older samples at coarser steps, the oldest deleted, free space given back.

Work is done in rounds, each in pieces of some hundredths of a second, with pauses between them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.metrics.steps import Step, begin
from foretide.store.compaction import Part
from foretide.store.records import MAX_DECISIONS

if TYPE_CHECKING:
    from foretide.store.metric_store import MetricStore

PRUNED_AT_ONCE = 5_000
"""Samples deleted in a piece."""

VACUUMED_AT_ONCE = 500
"""Pages given back in a piece."""

_REST = 4.0
"""A pause lasts so many times as long as the piece before it."""

log = logging.getLogger("foretide")


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Sizes of the queues, retention, and pauses after failures.

    Attributes:
        decision_capacity: Maximum of decisions in the queue, and of setups.
        batch: Maximum of records of a kind in one transaction.
        retention_seconds: How long samples, alarms and decisions are kept; None for ever.
        steps: How much detail is kept of older samples; all of it without any.
        max_decisions: Maximum of decisions in the store, however young.
        prune_every: Seconds between two rounds of compaction and deletion.
        first_pause: Seconds before a failing store is retried; doubled with each failure, up to `max_pause`.
    """

    capacity: int = 100_000
    alarm_capacity: int = 1_000
    decision_capacity: int = 1_000
    batch: int = 5_000
    retention_seconds: float | None = None
    steps: tuple[Step, ...] = ()
    max_decisions: int = MAX_DECISIONS
    prune_every: float = 600.0
    first_pause: float = 0.5
    max_pause: float = 30.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int | float) and value <= 0:
                raise StoreError(f"{each.name} must be greater than 0, got {value}")


class Upkeep:
    """Compacts and prunes what the store has of one pipeline. Not thread-safe: the writer's thread uses it."""

    def __init__(
        self,
        pipeline: str,
        settings: WriterSettings,
        clock: Callable[[], float],
        steady_clock: Callable[[], float],
    ) -> None:
        self._pipeline, self._settings = pipeline, settings
        self._clock, self._steady_clock = clock, steady_clock
        self._due = steady_clock()
        self._round: Iterator[None] | None = None
        self._compacted = {step.every: -math.inf for step in settings.steps}
        self._oldest_written = math.inf
        self._told: set[float] = set()

    def wrote(self, samples: Sequence[Sample]) -> None:
        """Take note of samples: late ones may lie in a period that is compacted already."""
        oldest = min((sample.at for sample in samples), default=math.inf)
        self._oldest_written = min(oldest, self._oldest_written)

    def turn(self, store: MetricStore) -> float | None:
        """Do a piece if it is due; returns the seconds until the next one is, None if there is never one."""
        if self._settings.retention_seconds is None and not self._settings.steps:
            return None
        now = self._steady_clock()
        if now >= self._due:
            self._due = now + self._piece(store)
        return max(0.0, self._due - now)

    def abort(self) -> None:
        """Begin a new round when the store works again."""
        self._round = None

    def _piece(self, store: MetricStore) -> float:
        """Do a piece; returns the pause."""
        began = self._steady_clock()
        if self._round is None:
            self._round = self._pieces(store)
        try:
            next(self._round)
        except StopIteration:
            self._round = None
            return self._settings.prune_every
        return (self._steady_clock() - began) * _REST

    def _pieces(self, store: MetricStore) -> Iterator[None]:
        """A round; it can be interrupted after each piece."""
        now, kept = self._clock(), self._settings.retention_seconds
        if kept is not None:
            before = store.recorded_before(self._pipeline, now, kept, self._tell_pause)
            while store.delete_before(self._pipeline, before, at_most=PRUNED_AT_ONCE) == PRUNED_AT_ONCE:
                yield
        yield from self._compaction(store, now)
        while store.give_back_space(VACUUMED_AT_ONCE):
            yield

    def _compaction(self, store: MetricStore, now: float) -> Iterator[None]:
        """The coarsest steps first: what they take in is not compacted twice."""
        late, self._oldest_written, since = self._oldest_written, math.inf, -math.inf
        for step in reversed(self._settings.steps):
            until = begin(store.recorded_before(self._pipeline, now, step.after), step.every)
            since = max(since, min(self._compacted[step.every], begin(late, step.every)))
            left = Part(self._pipeline, step.every, since, until) if since < until else None
            while left is not None:
                left = store.compact(left)
                yield
            self._compacted[step.every] = since = max(since, until)

    def _tell_pause(self, begin: float, end: float) -> None:
        if begin not in self._told:
            self._told.add(begin)
            log.warning(
                "%s: nothing was recorded for %.1f days; the pipeline was stopped, or the clock was set. That time "
                "does not count: what was recorded before it is kept as long as if it had not passed",
                self._pipeline,
                (end - begin) / 86_400,
            )
