"""How many tuples may be in flight: max-spout-pending, tuned while the query runs.

A tuner is a value with pure methods, `start(limit)` and `step(state, observation)`; a state goes in, the next state and
the limit come out, and the caller keeps one state for each source. A caller that did not carry a step out, or not in
full, says so by `resume(state, before, limit)`. `ProgressTuner` is Storm's
(storm-at-twitter section 3.3). `LatencyTuner` holds a latency target: by Little's law the time in flight is the
number in flight over the throughput, so when the limit binds, latency follows it. The limit goes straight down when
the target is missed, and slowly up while latency is well below it.
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
        action: What it did last.
        progress: Progress of the last period; None before the first.
        unchanged: Consecutive periods without a change.
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
    (125, 100, 'the last increase had no effect: the limit before it is restored')

    Attributes:
        similar: Two progresses are similar if they differ by at most this share of the larger. The
            paper uses the word without a number.
        step_size: Share by which the limit goes up, and goes down at least.
        patience: Periods of no change after which it tries an increase all the same.
        min_limit: With 0 in flight nothing would ever be seen again.
    """

    similar: float = 0.05
    step_size: float = 0.25
    patience: int = 5
    min_limit: int = 1
    max_limit: int = 1_000_000

    def start(self, limit: int) -> ProgressState:
        """A source at `limit` that has not been tuned yet."""
        return ProgressState(min(max(limit, self.min_limit), self.max_limit))

    def resume(self, state: ProgressState, before: int, limit: int) -> ProgressState:
        """The state with `limit` in force, whatever the last step asked for; `before` was in force when it did.

        A step that was stopped is no change. A limit that is no part of the way to what was asked for is a new start.
        """
        if limit == before != state.limit:
            return replace(state, limit=limit, action=TunerMove.NO_CHANGE, before_increase=0)
        return replace(state, limit=limit) if _on_the_way(before, limit, state.limit) else self.start(limit)

    def step(self, state: ProgressState, seen: Observation) -> tuple[ProgressState, TunerStep]:
        """One period of the paper's state machine."""
        if state.progress is None:
            return self._increase(state, seen, "first period: tries more")
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
            reason = "the last increase had no effect: the limit before it is restored"
            return self._hold(state, seen, state.before_increase, reason)
        if state.unchanged + 1 == self.patience:
            return self._increase(state, seen, f"{self.patience} periods of no change: tries more")
        held = replace(state, unchanged=state.unchanged + 1)
        return self._hold(held, seen, state.limit, "progress is similar: holds")

    def _trend(self, last: float, now: float) -> int:
        if abs(now - last) <= self.similar * max(last, now):
            return 0
        return 1 if now > last else -1

    def _increase(self, state: ProgressState, seen: Observation, reason: str) -> tuple[ProgressState, TunerStep]:
        limit = min(math.ceil(state.limit * (1 + self.step_size)), self.max_limit)
        after = ProgressState(limit, TunerMove.INCREASE, seen.progress, before_increase=state.limit)
        return after, TunerStep(limit, TunerMove.INCREASE, reason)

    def _decrease(self, state: ProgressState, seen: Observation, last: float) -> tuple[ProgressState, TunerStep]:
        share = max(self.step_size, (last - seen.progress) / last)
        limit = max(math.floor(state.limit * (1 - share)), self.min_limit)
        reason = f"progress fell by {1 - seen.progress / last:.0%}: {share:.0%} less"
        return ProgressState(limit, TunerMove.DECREASE, seen.progress), TunerStep(limit, TunerMove.DECREASE, reason)

    def _hold(
        self, state: ProgressState, seen: Observation, limit: int, reason: str
    ) -> tuple[ProgressState, TunerStep]:
        after = ProgressState(limit, TunerMove.NO_CHANGE, seen.progress, unchanged=state.unchanged)
        return after, TunerStep(limit, TunerMove.NO_CHANGE, reason)


def _on_the_way(before: int, limit: int, wanted: int) -> bool:
    """Whether a limit is what was wanted, or part of the way there."""
    return min(before, wanted) <= limit <= max(before, wanted)


_BINDING = 0.9


@dataclass(frozen=True, slots=True)
class LatencyState:
    """What the latency tuner remembers of a source: its limit, and whether it has just cut it."""

    limit: int
    settling: bool = False


@dataclass(frozen=True, slots=True)
class LatencyTuner:
    """Holds a percentile of latency (p95 or p99, whichever is observed) at or below a target.

    >>> tuner = LatencyTuner(target=0.5)
    >>> seen = Observation(progress=9000.0, latency=0.8, pending=1000)
    >>> state, tuned = tuner.step(tuner.start(1000), seen)
    >>> tuned.limit, tuned.reason
    (500, 'latency 0.8 s is above the target of 0.5 s: fewer in flight')

    Attributes:
        target: Seconds.
        band: From `band * target` to `target` nothing is changed, so that noise does not move the limit.
        step_size: Most the limit goes up in a period, as a share.
        max_cut: Most it goes down in a period, as a share: one bad reading must not starve the query.
    """

    target: float
    band: float = 0.8
    step_size: float = 0.25
    max_cut: float = 0.5
    min_limit: int = 1
    max_limit: int = 1_000_000

    def __post_init__(self) -> None:
        if not (math.isfinite(self.target) and self.target > 0):
            raise ModelError([Problem("latency target", f"is {self.target:g}", "Give seconds above 0.")])

    def start(self, limit: int) -> LatencyState:
        """A source at `limit` that has not been tuned yet."""
        return LatencyState(min(max(limit, self.min_limit), self.max_limit))

    def resume(self, state: LatencyState, before: int, limit: int) -> LatencyState:
        """The state with `limit` in force, whatever the last step asked for; `before` was in force when it did.

        Queues drain after a cut only if it was carried out, at least in part.
        """
        return LatencyState(limit, settling=state.settling and state.limit <= limit < before)

    def step(self, state: LatencyState, seen: Observation) -> tuple[LatencyState, TunerStep]:
        """One period: cut at once, wait a period for queues to drain, grow only where growing can matter."""
        if seen.latency is None:
            return self._hold(state, "latency was not measured: holds")
        if seen.latency > self.target:
            return self._cut(state, seen.latency)
        if seen.latency >= self.band * self.target:
            return self._hold(state, f"latency {seen.latency:g} s is within the band: holds")
        if seen.pending is not None and seen.pending < _BINDING * state.limit:
            return self._hold(state, f"only {seen.pending:g} of {state.limit} were in flight: holds")
        return self._grow(state, seen.latency)

    def _aim(self, latency: float) -> float:
        """The factor that Little's law says brings latency to the lower edge of the band."""
        return self.band * self.target / latency

    def _cut(self, state: LatencyState, latency: float) -> tuple[LatencyState, TunerStep]:
        says = f"latency {latency:g} s is above the target of {self.target:g} s"
        if state.limit == self.min_limit:
            return self._hold(state, f"{says} with the fewest in flight: more capacity is needed")
        if state.settling:
            return self._hold(state, f"{says}, just after a cut: lets queues drain for a period")
        limit = max(math.floor(state.limit * max(self._aim(latency), 1 - self.max_cut)), self.min_limit)
        return LatencyState(limit, settling=True), TunerStep(limit, TunerMove.DECREASE, f"{says}: fewer in flight")

    def _grow(self, state: LatencyState, latency: float) -> tuple[LatencyState, TunerStep]:
        if state.limit == self.max_limit:
            return self._hold(
                state, f"latency {latency:g} s is well below the target; the limit is at its maximum: holds"
            )
        factor = 1 + self.step_size
        if latency > 0:
            factor = min(factor, self._aim(latency))
        limit = min(math.ceil(state.limit * factor), self.max_limit)
        reason = f"latency {latency:g} s is well below {self.target:g} s: more in flight"
        return LatencyState(limit), TunerStep(limit, TunerMove.INCREASE, reason)

    def _hold(self, state: LatencyState, reason: str) -> tuple[LatencyState, TunerStep]:
        return LatencyState(state.limit), TunerStep(state.limit, TunerMove.NO_CHANGE, reason)
