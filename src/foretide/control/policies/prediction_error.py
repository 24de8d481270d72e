"""The predictive-control paper's own rule: a prediction error above a threshold empties the whole machine.

"If the prediction error of a target feature of a worker exceeds a given threshold, stop sending tuples to the machine
hosting that worker for a certain amount of time." It lets workers back in without a test; `Bypass` probes them. The
last healthy worker always stays.

The forecast is that of the net of workers. As long as there is none that is trusted, it is the worker's usual value:
the smoothed value of its earlier batches, without those in which the error was too large. Where all workers are on one
machine, which cannot be emptied, the worker alone is bypassed.

In real time tasks stay with their workers, so splits keep tuples away from the tasks there, at once. Sources and state
stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.policies.emptying import splits_away
from foretide.control.world.setup import Weights
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


_MIN_VALUES = 3
_SMOOTHING = 0.7


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual value of a worker: smoothed over `count` values, the last of which was measured at `at`."""

    value: float
    count: int
    at: float

    def after(self, value: float, at: float) -> Usual:
        """With one more value."""
        return Usual(_SMOOTHING * self.value + (1 - _SMOOTHING) * value, self.count + 1, at)


@dataclass(frozen=True, slots=True)
class PredictionErrorState:
    """Until when each host or worker is bypassed, the usual value of each worker, and the splits to go back to."""

    held: Mapping[str, float] = field(default_factory=dict)
    usual: Mapping[str, Usual] = field(default_factory=dict)
    splits: Mapping[str, Weights] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PredictionError:
    """Bypasses a worker, or its machine, for some time after a large prediction error."""

    settings: PredictionErrorSettings = field(default_factory=PredictionErrorSettings)
    name: str = "prediction_error"

    def start(self) -> PredictionErrorState:
        """Nothing is bypassed."""
        return PredictionErrorState()

    def wish(self, state: PredictionErrorState, world: World) -> tuple[PredictionErrorState, list[Wish]]:
        """Bypass where the error is too large; release when the hold time is over."""
        if world.setup.mode == "pipeline" and world.observed.placements:
            return self._split_away(state, world)
        held = {place: until for place, until in state.held.items() if self._workers(place, world)}
        wishes: list[Wish] = []
        for place, until in state.held.items():
            if until <= world.at and place in held:
                wishes.append(Wish(self.name, self._action(place, world, out=False), "its hold time is over"))
                if not self._workers(place, world) & world.observed.quarantined:
                    del held[place]
        mispredicted = self._mispredicted(state.usual, world)
        for worker, reason in mispredicted.items():
            place = self._place(worker, world)
            others = world.observed.in_service - self._workers(place, world)
            if others:
                held[place] = world.at + self.settings.hold
                expected = Expectation(f"no tuples wait there for the next {self.settings.hold:g} s", "latency_p99_ms")
                wishes.append(Wish(self.name, self._action(place, world, out=True), reason, expected))
        return PredictionErrorState(held, self._learned(state.usual, mispredicted, world)), wishes

    def _split_away(self, state: PredictionErrorState, world: World) -> tuple[PredictionErrorState, list[Wish]]:
        """Where tasks stay with their workers: send nothing to theirs for some time, but for those of the last one."""
        held = {place: until for place, until in state.held.items() if until > world.at}
        mispredicted = self._mispredicted(state.usual, world)
        for worker in mispredicted:
            place = self._place(worker, world)
            if world.observed.in_service - self._emptied([*held, place], world):
                held[place] = world.at + self.settings.hold
        splits, wanted = splits_away(world, self._emptied(held, world), state.splits)
        why = "; ".join(f"worker {worker}: {reason}" for worker, reason in mispredicted.items())
        expected = Expectation(f"no tuples wait there for the next {self.settings.hold:g} s", world.target.metric)
        wishes = [
            Wish(self.name, split, why or "tuples keep away until the hold time is over", expected, urgent=True)
            if split.edge in splits
            else Wish(self.name, split, "the hold time is over: the shares that they had before")
            for split in wanted
        ]
        return PredictionErrorState(held, self._learned(state.usual, mispredicted, world), splits), wishes

    def _emptied(self, places: Iterable[str], world: World) -> frozenset[str]:
        return frozenset().union(*(self._workers(place, world) for place in places))

    def _place(self, worker: str, world: World) -> str:
        """The machine of a worker, unless there is no other one: then the worker itself."""
        host = world.observed.executors[worker]
        only = set(world.observed.executors.values()) == {host}
        return worker if self.settings.scope == "worker" or only else host

    def _mispredicted(self, usual: Mapping[str, Usual], world: World) -> dict[str, str]:
        """Workers whose error is too large, and why."""
        found: dict[str, str] = {}
        metric = CATALOGUE[self.settings.metric]
        for worker in sorted(world.observed.in_service):
            value = world.snapshot.value(self.settings.metric, worker, within=self.settings.max_age)
            forecast, words = self._forecast(worker, usual, world)
            if value is None or forecast is None or world.observed.is_drained(worker):
                continue
            error = abs(value - forecast) if self.settings.either_side else value - forecast
            if error > max(self.settings.threshold * forecast, self.settings.floor):
                found[worker] = f"its {metric.words} is {metric.figure(value)} where {metric.figure(forecast)} {words}"
        return found

    def _forecast(self, worker: str, usual: Mapping[str, Usual], world: World) -> tuple[float | None, str]:
        """What was forecast for now, if such forecasts are trusted, or else what is usual; and what it is, in words."""
        series = (self.settings.metric, worker)
        forecast, known = world.forecast_for_now.get(series), usual.get(worker)
        if forecast is not None and series in world.forecasts.by_series:
            return forecast, "was forecast"
        judged = known is not None and known.count >= _MIN_VALUES and worker not in world.observed.young
        return (known.value if known is not None and judged else None), "is usual"

    def _learned(
        self, usual: Mapping[str, Usual], mispredicted: Mapping[str, str], world: World
    ) -> Mapping[str, Usual]:
        """The usual values with those measured since, of workers that are as they should be."""
        learned: dict[str, Usual] = {}
        for worker in world.observed.executors:
            before = usual.get(worker)
            value, at = world.snapshot.figures.get((self.settings.metric, worker), (0.0, float("-inf")))
            is_new = at > (float("-inf") if before is None else before.at)
            if is_new and worker in world.observed.in_service - world.observed.young and worker not in mispredicted:
                learned[worker] = Usual(value, 1, at) if before is None else before.after(value, at)
            elif before is not None:
                learned[worker] = before
        return learned

    def _workers(self, place: str, world: World) -> frozenset[str]:
        return frozenset({place}) if place in world.observed.executors else world.observed.on_host(place)

    def _action(self, place: str, world: World, *, out: bool) -> Action:
        if place in world.observed.executors:
            return Quarantine(place) if out else Release(place)
        return QuarantineHost(place) if out else ReleaseHost(place)
