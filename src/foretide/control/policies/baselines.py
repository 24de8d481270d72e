"""Baselines for all other policies: thresholds as in Kubernetes' Horizontal Pod Autoscaler, and no control at all.

The autoscaler wants ceil(current * metric / target) replicas. The tolerance, the wait before scaling down and the
limits on scaling up are its own. In micro-batches stages run one after another, so none of them can be busy all the
time; there the metric is the sum over all stages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import SetReplicas
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.measured import FRESH
from foretide.control.world.world import World
from foretide.durations import Seconds


@dataclass(frozen=True, slots=True)
class ReactiveSettings(Bounded):
    """The autoscaler's settings, with its defaults."""

    section: ClassVar[str] = "reactive"

    target_utilization: Annotated[
        float, Interval(gt=0, le=1), Doc("Share of the time that replicas should be busy.")
    ] = 0.7
    tolerance: Annotated[
        float, Ge(0), Doc("Nothing changes while the ratio of metric to target is within 1 plus or minus this.")
    ] = 0.1
    period: Annotated[Seconds, Ge(0), Doc("Seconds between two decisions.")] = 15.0
    down_window: Annotated[
        Seconds,
        Ge(0),
        Doc("Before scaling down, the highest recommendation within this many seconds counts."),
        Scope.PYTHON_ONLY,
    ] = 300.0
    max_increase: Annotated[
        float, Ge(1), Doc("Factor by which replicas may grow at most in one period, ..."), Scope.PYTHON_ONLY
    ] = 2.0
    max_added: Annotated[
        int, Ge(0), Doc("... or replicas that may be added, whichever is more."), Scope.PYTHON_ONLY
    ] = 4


@dataclass(frozen=True, slots=True)
class ReactiveState:
    """When it decided last, and what it has recommended (edge, time, replicas)."""

    decided: float = -math.inf
    recommended: tuple[tuple[str, float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Reactive:
    """Scales by how busy replicas are at present."""

    settings: ReactiveSettings = field(default_factory=ReactiveSettings)
    name: str = "reactive"

    def start(self) -> ReactiveState:
        """Nothing recommended yet."""
        return ReactiveState()

    def wish(self, state: ReactiveState, world: World) -> tuple[ReactiveState, list[Wish]]:
        """Once a period, as many replicas as would bring the metric to its target."""
        if world.at - state.decided < self.settings.period:
            return state, []
        kept = tuple(each for each in state.recommended if each[1] > world.at - self.settings.down_window)
        wishes: list[Wish] = []
        busy_by_operator = _busy(world)
        for edge, part in world.setup.by_edge.items():
            busy = busy_by_operator.get(part.name)
            now = world.observed.replicas(edge)
            if busy is None or not now:
                continue
            desired = self._desired(now, busy / self.settings.target_utilization)
            kept = (*kept, (edge, world.at, desired))
            highest = max(replicas for name, _, replicas in kept if name == edge)
            wanted = desired if desired >= now else min(now, highest)
            reason = f"replicas are busy {busy:.0%} of the time, the target is {self.settings.target_utilization:.0%}"
            expected = Expectation(f"busy about {busy * now / wanted:.0%} of the time", "utilization")
            wishes.append(Wish(self.name, SetReplicas(edge, min(wanted, part.pool)), reason, expected))
        return ReactiveState(world.at, kept), wishes

    def _desired(self, now: int, ratio: float) -> int:
        if abs(ratio - 1) <= self.settings.tolerance:
            return now
        limit = max(math.floor(now * self.settings.max_increase), now + self.settings.max_added)
        return max(1, min(math.ceil(now * ratio - 1e-9), limit))


def _busy(world: World) -> dict[str, float]:
    """How busy each operator is: by itself in a pipeline, all of them together in micro-batches."""
    shares = {
        part.name: share
        for part in world.setup.operators
        if (share := world.snapshot.value("utilization", part.name, within=FRESH)) is not None
    }
    return shares if world.setup.mode == "pipeline" else dict.fromkeys(shares, sum(shares.values()))


@dataclass(frozen=True, slots=True)
class Static:
    """Never wishes anything."""

    name: str = "static"

    def start(self) -> None:
        """No state."""

    def wish(self, state: None, world: World) -> tuple[None, list[Wish]]:  # noqa: ARG002
        """No wishes."""
        return None, []
