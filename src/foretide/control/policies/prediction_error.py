"""The predictive-control paper's own rule, by name: a prediction error above a threshold empties the whole machine.

"If the prediction error of a target feature of a worker exceeds a given threshold, stop sending tuples to the machine
hosting that worker for a certain amount of time." It lets workers back in by hope; `Bypass` does by probing. As
everywhere, the last healthy worker stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.errors import ControlSettingError
from foretide.metrics.catalogue.registry import CATALOGUE


@dataclass(frozen=True, slots=True)
class PredictionErrorSettings:
    """The rule's parameters, which the paper leaves to the application.

    Attributes:
        metric: The target feature.
        threshold: Largest error, as a share of what was foreseen.
        floor: Errors below this, in the metric's unit, never count.
        hold: Seconds for which nothing is sent there.
        scope: `machine`, as in the paper, or `worker`.
        either_side: Whether a worker that is better than foreseen is bypassed too, as the words of the paper have it.
        fresh: Seconds after which a figure is too old to be judged by.
    """

    metric: str = "worker_inbound_queuing_time_ms"
    threshold: float = 1.0
    floor: float = 0.0
    hold: Seconds = 300.0
    scope: Literal["machine", "worker"] = "machine"
    either_side: bool = False
    fresh: Seconds = 60.0

    def __post_init__(self) -> None:
        if min(self.threshold, self.floor, self.hold, self.fresh) < 0 or self.scope not in {"machine", "worker"}:
            raise ControlSettingError(f"paper rule: {self} makes no sense; scope machine or worker, nothing negative")
        if self.metric not in CATALOGUE:
            raise ControlSettingError(f"paper rule: '{self.metric}' is not in the catalogue of metrics")


Held = Mapping[str, float]
"""Until when each host or worker is bypassed."""


@dataclass(frozen=True, slots=True)
class PredictionError:
    """Error threshold, hold time, scope worker or machine."""

    settings: PredictionErrorSettings = field(default_factory=PredictionErrorSettings)
    name: str = "prediction-error"

    def start(self) -> Held:
        """Nothing is bypassed."""
        return {}

    def wish(self, state: Held, world: World) -> tuple[Held, list[Wish]]:
        """Bypass where the error is too large; release when the time is over."""
        held = {place: until for place, until in state.items() if self._workers(place, world)}
        wishes: list[Wish] = []
        for place, until in state.items():
            if until <= world.at and place in held:
                wishes.append(Wish(self.name, self._action(place, out=False), "its time is over"))
                if not self._workers(place, world) & world.observed.quarantined:
                    del held[place]
        for worker, words in self._wrong(world).items():
            place = world.observed.executors[worker] if self.settings.scope == "machine" else worker
            others = world.observed.in_service - self._workers(place, world)
            if others:
                held[place] = world.at + self.settings.hold
                expected = Expectation(f"no tuples wait there for the next {self.settings.hold:g} s", "latency_p99_ms")
                wishes.append(Wish(self.name, self._action(place, out=True), words, expected))
        return held, wishes

    def _wrong(self, world: World) -> dict[str, str]:
        found: dict[str, str] = {}
        for worker in sorted(world.observed.in_service):
            value = world.snapshot.value(self.settings.metric, worker, within=self.settings.fresh)
            told = world.forecast_for_now.get((self.settings.metric, worker))
            if value is None or told is None or world.observed.is_drained(worker):
                continue
            error = abs(value - told) if self.settings.either_side else value - told
            if error > max(self.settings.threshold * told, self.settings.floor):
                found[worker] = f"{self.settings.metric} is {value:.4g} where {told:.4g} was foreseen"
        return found

    def _workers(self, place: str, world: World) -> frozenset[str]:
        if self.settings.scope == "machine":
            return world.observed.on_host(place)
        return frozenset({place}) & frozenset(world.observed.executors)

    def _action(self, place: str, *, out: bool) -> Action:
        if self.settings.scope == "machine":
            return QuarantineHost(place) if out else ReleaseHost(place)
        return Quarantine(place) if out else Release(place)
