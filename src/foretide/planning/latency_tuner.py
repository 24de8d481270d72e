"""The second tuner of admission: as many tuples in flight as a latency target allows.

By Little's law the time in flight is the number in flight over the throughput, so when the limit binds,
latency follows the limit. The tuner steers by that: straight down when the target is missed, gently up when
there is air.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from foretide.errors import ModelError, Problem
from foretide.planning.admission import Observation, TunerMove, TunerStep

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
    >>> state, verdict = tuner.step(tuner.start(1000), seen)
    >>> verdict.limit, verdict.reason
    (500, 'latency 0.8 s is above the target of 0.5 s: fewer in flight')

    Attributes:
        target: Seconds.
        band: From `band * target` to `target` nothing is changed, so that noise does not move the limit.
        step_size: Most the limit goes up in a turn, as a share.
        deepest: Most it goes down in a turn, as a share: one bad reading must not starve the query.
        least: The limit never goes below.
        most: Nor above.
    """

    target: float
    band: float = 0.8
    step_size: float = 0.25
    deepest: float = 0.5
    least: int = 1
    most: int = 1_000_000

    def __post_init__(self) -> None:
        if not (math.isfinite(self.target) and self.target > 0):
            raise ModelError([Problem("latency target", f"is {self.target:g}", "Give seconds above 0.")])

    def start(self, limit: int) -> LatencyState:
        """A source at `limit` that has not been tuned yet."""
        return LatencyState(min(max(limit, self.least), self.most))

    def step(self, state: LatencyState, seen: Observation) -> tuple[LatencyState, TunerStep]:
        """One turn: cut at once, wait a turn for queues to drain, grow only where growing can matter."""
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
        if state.limit == self.least:
            return self._hold(state, f"{says} with the least in flight: more capacity is needed")
        if state.settling:
            return self._hold(state, f"{says}, just after a cut: lets queues drain for a turn")
        limit = max(math.floor(state.limit * max(self._aim(latency), 1 - self.deepest)), self.least)
        return LatencyState(limit, settling=True), TunerStep(limit, TunerMove.DECREASE, f"{says}: fewer in flight")

    def _grow(self, state: LatencyState, latency: float) -> tuple[LatencyState, TunerStep]:
        if state.limit == self.most:
            return self._hold(state, f"latency {latency:g} s leaves air, but the limit is at its most: holds")
        factor = 1 + self.step_size
        if latency > 0:
            factor = min(factor, self._aim(latency))
        limit = min(math.ceil(state.limit * factor), self.most)
        reason = f"latency {latency:g} s leaves air below {self.target:g} s: more in flight"
        return LatencyState(limit), TunerStep(limit, TunerMove.INCREASE, reason)

    def _hold(self, state: LatencyState, reason: str) -> tuple[LatencyState, TunerStep]:
        return LatencyState(state.limit), TunerStep(state.limit, TunerMove.NO_CHANGE, reason)
