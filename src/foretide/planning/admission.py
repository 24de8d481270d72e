"""How many tuples may be in flight: max-spout-pending, tuned while the query runs.

A tuner is a value with two pure methods, `start(limit)` and `step(state, observation)`; a state goes in, the
next state and a verdict come out, and the caller keeps one state for each source. `ProgressTuner` is Storm's
(storm-at-twitter section 3.3), `latency_tuner.LatencyTuner` the one that Storm's users asked for. Anything
else with these two methods will do as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from foretide.errors import ModelError, Problem


class TunerMove(Enum):
    """What a tuner did to the limit."""

    INCREASE = "increase"
    DECREASE = "decrease"
    NO_CHANGE = "no change"


@dataclass(frozen=True, slots=True)
class Observation:
    """What one source saw in the last t seconds (120 in the paper).

    Attributes:
        progress: How far it advanced for good: for Kafka the committed offset, not acknowledgements,
            since what is acknowledged but not committed may still be replayed.
        latency: The percentile that is to be held (p95 or p99) in seconds, if it was measured.
        pending: Most tuples that were in flight, if known; below the limit, the limit did not bind.
    """

    progress: float
    latency: float | None = None
    pending: float | None = None

    def __post_init__(self) -> None:
        figures = {"progress": self.progress, "latency": self.latency, "pending": self.pending}
        problems = [
            Problem("observation", f"{name} is {value:g}", "Give a finite number, 0 or more.")
            for name, value in figures.items()
            if value is not None and not (math.isfinite(value) and value >= 0)
        ]
        if problems:
            raise ModelError(problems)


@dataclass(frozen=True, slots=True)
class TunerStep:
    """The limit from now on, what was done to it, and why."""

    limit: int
    action: TunerMove
    reason: str


@dataclass(frozen=True, slots=True)
class ProgressState:
    """What Storm's tuner remembers of a source.

    Attributes:
        limit: Max pending now.
        action: What it did last.
        progress: Progress of the last turn; None before the first.
        before_increase: The limit before the last increase.
        unchanged: Consecutive turns in which nothing was worth changing.
    """

    limit: int
    action: TunerMove = TunerMove.NO_CHANGE
    progress: float | None = None
    before_increase: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class ProgressTuner:
    """Storm's tuner: the most progress for the fewest tuples in flight.

    >>> tuner = ProgressTuner()
    >>> state, first = tuner.step(tuner.start(100), Observation(progress=1000.0))
    >>> state, second = tuner.step(state, Observation(progress=1010.0))
    >>> first.limit, second.limit, second.reason
    (125, 100, 'the last increase brought nothing: restored what it was before')

    Attributes:
        similar: Two progresses are similar if they differ by at most this share of the larger. The
            paper uses the word without a number.
        step_size: Share by which the limit goes up, and goes down at least.
        patience: Turns of no change after which it tries an increase all the same.
        least: The limit never goes below; with 0 in flight nothing would ever be seen again.
        most: Nor above.
    """

    similar: float = 0.05
    step_size: float = 0.25
    patience: int = 5
    least: int = 1
    most: int = 1_000_000

    def start(self, limit: int) -> ProgressState:
        """A source at `limit` that has not been tuned yet."""
        return ProgressState(min(max(limit, self.least), self.most))

    def step(self, state: ProgressState, seen: Observation) -> tuple[ProgressState, TunerStep]:
        """One turn of the paper's state machine."""
        if state.progress is None:
            return self._increase(state, seen, "first turn: tries more")
        trend = self._trend(state.progress, seen.progress)
        if trend > 0:
            return self._increase(state, seen, "progress rose: tries more")
        if state.action is TunerMove.DECREASE:
            return self._hold(state, seen, state.limit, "the last decrease brought no more progress: holds")
        if trend < 0:
            return self._decrease(state, seen, state.progress)
        return self._similar(state, seen)

    def _similar(self, state: ProgressState, seen: Observation) -> tuple[ProgressState, TunerStep]:
        """Progress neither rose nor fell, after an increase or after no change."""
        if state.action is TunerMove.INCREASE:
            reason = "the last increase brought nothing: restored what it was before"
            return self._hold(state, seen, state.before_increase, reason)
        if state.unchanged + 1 == self.patience:
            return self._increase(state, seen, f"{self.patience} turns of no change: tries more")
        held = replace(state, unchanged=state.unchanged + 1)
        return self._hold(held, seen, state.limit, "progress is similar: holds")

    def _trend(self, last: float, now: float) -> int:
        if abs(now - last) <= self.similar * max(last, now):
            return 0
        return 1 if now > last else -1

    def _increase(self, state: ProgressState, seen: Observation, reason: str) -> tuple[ProgressState, TunerStep]:
        limit = min(math.ceil(state.limit * (1 + self.step_size)), self.most)
        after = ProgressState(limit, TunerMove.INCREASE, seen.progress, before_increase=state.limit)
        return after, TunerStep(limit, TunerMove.INCREASE, reason)

    def _decrease(self, state: ProgressState, seen: Observation, last: float) -> tuple[ProgressState, TunerStep]:
        share = max(self.step_size, (last - seen.progress) / last)
        limit = max(math.floor(state.limit * (1 - share)), self.least)
        reason = f"progress fell by {1 - seen.progress / last:.0%}: {share:.0%} less"
        return ProgressState(limit, TunerMove.DECREASE, seen.progress), TunerStep(limit, TunerMove.DECREASE, reason)

    def _hold(
        self, state: ProgressState, seen: Observation, limit: int, reason: str
    ) -> tuple[ProgressState, TunerStep]:
        after = ProgressState(limit, TunerMove.NO_CHANGE, seen.progress, unchanged=state.unchanged)
        return after, TunerStep(limit, TunerMove.NO_CHANGE, reason)
