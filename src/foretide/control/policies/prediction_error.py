"""The predictive-control paper's own rule: a prediction error above a threshold empties the whole machine.

"If the prediction error of a target feature of a worker exceeds a given threshold, stop sending tuples to the machine
hosting that worker for a certain amount of time." It lets workers back in without a test; `Bypass` probes them. The
last healthy worker always stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.metrics.catalogue import CATALOGUE


@dataclass(frozen=True, slots=True)
class PredictionErrorSettings(Bounded):
    """The rule's parameters, which the paper leaves to the application."""

    section: ClassVar[str] = "prediction_error"

    metric: Annotated[str, Doc("The metric of workers whose prediction error counts.")] = (
        "worker_inbound_queuing_time_ms"
    )
    threshold: Annotated[float, Ge(0), Doc("Maximum error, as a share of the forecast.")] = 1.0
    floor: Annotated[float, Ge(0), Doc("Errors below this, in the metric's unit, never count."), Scope.PYTHON_ONLY] = (
        0.0
    )
    hold: Annotated[Seconds, Ge(0), Doc("Seconds for which nothing is sent to the machine or worker.")] = 300.0
    scope: Annotated[Literal["machine", "worker"], Doc("`machine`, as in the paper, or `worker`.")] = "machine"
    either_side: Annotated[
        bool,
        Doc("Whether a worker that is better than its forecast is bypassed too, as the paper's wording has it."),
        Scope.PYTHON_ONLY,
    ] = False
    max_age: Annotated[
        Seconds, Ge(0), Doc("Seconds after which a measured value is too old to be used."), Scope.PYTHON_ONLY
    ] = 60.0

    def conflicts(self) -> Iterator[str]:
        """A metric that does not exist."""
        if self.metric not in CATALOGUE:
            yield f"prediction_error.metric must be in the catalogue of metrics, got {self.metric!r}"


BypassedUntil = Mapping[str, float]
"""Until when each host or worker is bypassed."""


@dataclass(frozen=True, slots=True)
class PredictionError:
    """Bypasses a worker, or its machine, for some time after a large prediction error."""

    settings: PredictionErrorSettings = field(default_factory=PredictionErrorSettings)
    name: str = "prediction_error"

    def start(self) -> BypassedUntil:
        """Nothing is bypassed."""
        return {}

    def wish(self, state: BypassedUntil, world: World) -> tuple[BypassedUntil, list[Wish]]:
        """Bypass where the error is too large; release when the hold time is over."""
        held = {place: until for place, until in state.items() if self._workers(place, world)}
        wishes: list[Wish] = []
        for place, until in state.items():
            if until <= world.at and place in held:
                wishes.append(Wish(self.name, self._action(place, out=False), "its hold time is over"))
                if not self._workers(place, world) & world.observed.quarantined:
                    del held[place]
        for worker, reason in self._mispredicted(world).items():
            place = world.observed.executors[worker] if self.settings.scope == "machine" else worker
            others = world.observed.in_service - self._workers(place, world)
            if others:
                held[place] = world.at + self.settings.hold
                expected = Expectation(f"no tuples wait there for the next {self.settings.hold:g} s", "latency_p99_ms")
                wishes.append(Wish(self.name, self._action(place, out=True), reason, expected))
        return held, wishes

    def _mispredicted(self, world: World) -> dict[str, str]:
        """Workers whose error is too large, and why."""
        found: dict[str, str] = {}
        for worker in sorted(world.observed.in_service):
            value = world.snapshot.value(self.settings.metric, worker, within=self.settings.max_age)
            forecast = world.forecast_for_now.get((self.settings.metric, worker))
            if value is None or forecast is None or world.observed.is_drained(worker):
                continue
            error = abs(value - forecast) if self.settings.either_side else value - forecast
            if error > max(self.settings.threshold * forecast, self.settings.floor):
                metric = CATALOGUE[self.settings.metric]
                seen, expected = metric.figure(value), metric.figure(forecast)
                found[worker] = f"its {metric.words} is {seen} where {expected} was forecast"
        return found

    def _workers(self, place: str, world: World) -> frozenset[str]:
        if self.settings.scope == "machine":
            return world.observed.on_host(place)
        return frozenset({place}) & frozenset(world.observed.executors)

    def _action(self, place: str, *, out: bool) -> Action:
        if self.settings.scope == "machine":
            return QuarantineHost(place) if out else ReleaseHost(place)
        return Quarantine(place) if out else Release(place)
