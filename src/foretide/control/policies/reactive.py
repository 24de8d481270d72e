"""Thresholds, as Kubernetes' Horizontal Pod Autoscaler applies them: desired = ceil(current * metric / target).

The tolerance, the wait before scaling down and the limits on scaling up are that autoscaler's own. In micro-batches
stages run one after another, so none of them can be busy all the time; there the metric is the sum over all stages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from foretide.control.actions.registry import SetReplicas
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.measured import FRESH
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.errors import ControlSettingError


@dataclass(frozen=True, slots=True)
class ReactiveSettings:
    """The autoscaler's settings, with its defaults.

    Attributes:
        target: Share of the time that replicas should be busy.
        tolerance: Ratios of metric to target within 1 plus or minus this change nothing.
        period: Seconds between two looks.
        down_window: Seconds over which the highest recommendation counts before scaling down.
        up_factor: Most that replicas may grow in one period, as a factor...
        up_replicas: ...or by so many, whichever is more.
    """

    target: float = 0.7
    tolerance: float = 0.1
    period: Seconds = 15.0
    down_window: Seconds = 300.0
    up_factor: float = 2.0
    up_replicas: int = 4

    def __post_init__(self) -> None:
        times = min(self.period, self.down_window, self.tolerance)
        if not 0 < self.target <= 1 or times < 0 or self.up_factor < 1 or self.up_replicas < 0:
            raise ControlSettingError(
                f"reactive: {self} makes no sense; a target in 0..1, factors from 1, no negatives"
            )


@dataclass(frozen=True, slots=True)
class ReactiveState:
    """When it last looked, and what it recommended since (edge, time, replicas)."""

    looked: float = -math.inf
    recommended: tuple[tuple[str, float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Reactive:
    """Scales by how busy replicas are now."""

    settings: ReactiveSettings = field(default_factory=ReactiveSettings)
    name: str = "reactive"

    def start(self) -> ReactiveState:
        """Nothing recommended yet."""
        return ReactiveState()

    def wish(self, state: ReactiveState, world: World) -> tuple[ReactiveState, list[Wish]]:
        """Once a period, as many replicas as would bring the metric to its target."""
        if world.at - state.looked < self.settings.period:
            return state, []
        kept = tuple(each for each in state.recommended if each[1] > world.at - self.settings.down_window)
        wishes: list[Wish] = []
        busy_by_operator = _busy(world)
        for edge, part in world.setup.by_edge.items():
            busy = busy_by_operator.get(part.name)
            now = world.observed.replicas(edge)
            if busy is None or not now:
                continue
            desired = self._desired(now, busy / self.settings.target)
            kept = (*kept, (edge, world.at, desired))
            highest = max(replicas for name, _, replicas in kept if name == edge)
            wanted = desired if desired >= now else min(now, highest)
            reason = f"replicas are busy {busy:.0%} of the time, the target is {self.settings.target:.0%}"
            expected = Expectation(f"busy about {busy * now / wanted:.0%} of the time", "utilization")
            wishes.append(Wish(self.name, SetReplicas(edge, min(wanted, part.pool)), reason, expected))
        return ReactiveState(world.at, kept), wishes

    def _desired(self, now: int, ratio: float) -> int:
        if abs(ratio - 1) <= self.settings.tolerance:
            return now
        most = max(math.floor(now * self.settings.up_factor), now + self.settings.up_replicas)
        return max(1, min(math.ceil(now * ratio - 1e-9), most))


def _busy(world: World) -> dict[str, float]:
    """How busy each operator is: by itself in a pipeline, all of them together in micro-batches."""
    shares = {
        part.name: share
        for part in world.setup.operators
        if (share := world.snapshot.value("utilization", part.name, within=FRESH)) is not None
    }
    return shares if world.setup.mode == "pipeline" else dict.fromkeys(shares, sum(shares.values()))
