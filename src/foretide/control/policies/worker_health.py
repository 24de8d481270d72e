"""How bad a worker looks: against its peers, against what was foreseen of it, and by what is foreseen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from foretide.control.world.world import World
from foretide.errors import ControlSettingError
from foretide.metrics.catalogue.registry import CATALOGUE
from foretide.metrics.from_tasks import SLOWNESS

_ALIKE = 1.2
"""A worker that has left its forecast is blamed only if it has left its peers by so much: load hits all alike."""


@dataclass(frozen=True, slots=True)
class HealthMetric:
    """A metric of workers that is high when something is wrong with them.

    Attributes:
        metric: Its name.
        floor: Added to both sides before they are compared, in the metric's unit, so that tiny times weigh little.
        unless: A metric that says the same better; where that is known of any worker, this one is not looked at.
    """

    metric: str
    floor: float = 0.0
    unless: str | None = None

    def __post_init__(self) -> None:
        if self.metric not in CATALOGUE or (self.unless is not None and self.unless not in CATALOGUE):
            raise ControlSettingError(f"symptom '{self.metric}': give metrics of the catalogue")
        if self.floor < 0:
            raise ControlSettingError(f"symptom '{self.metric}': a floor of {self.floor:g}; give 0 or more")


SYMPTOMS = (
    HealthMetric(SLOWNESS),
    HealthMetric("worker_tuple_execution_time_ms", unless=SLOWNESS),
    HealthMetric("worker_inbound_queuing_time_ms", 100.0, unless=SLOWNESS),
)
"""Time on the tuples it was given. Where that is not known, time on a tuple, and time before one is taken up: that says
less, because a worker also waits for what a slow one has to send it.
"""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How many times its reference a worker shows, and in words. `foreseen` if only a forecast says so."""

    ratio: float
    words: str
    foreseen: bool = False


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """Looks after the workers in service.

    Attributes:
        symptoms: What to look at.
        fresh: Seconds after which a figure is too old.
        horizon: Seconds ahead that forecasts are looked at; None leaves them out.
    """

    symptoms: tuple[HealthMetric, ...]
    fresh: float
    horizon: float | None

    def looks(self, world: World, since: Mapping[str, float]) -> dict[str, Suspicion]:
        """The worst look of each worker in service; one is missing where nothing newer than `since` is known."""
        found: dict[str, Suspicion] = {}
        for symptom in self.symptoms:
            values = self._values(world, symptom.metric, since)
            better = None if symptom.unless is None else self._values(world, symptom.unless, {})
            if len(values) <= 1 or better:
                continue
            ahead = self._ahead(world, symptom.metric, values)
            usual, usual_ahead = _of_others(values), _of_others({**values, **ahead})
            for worker, value in values.items():
                for look in self._of(world, symptom, worker, value, usual[worker], ahead, usual_ahead[worker]):
                    if worker not in found or look.ratio > found[worker].ratio:
                        found[worker] = look
        return found

    def _values(self, world: World, metric: str, since: Mapping[str, float]) -> dict[str, float]:
        found: dict[str, float] = {}
        for worker in sorted(world.observed.in_service - world.observed.young):
            value, measured = world.snapshot.figures.get((metric, worker), (0.0, float("-inf")))
            if measured > since.get(worker, float("-inf")) and world.at - measured <= self.fresh:
                found[worker] = value
        return found

    def _ahead(self, world: World, metric: str, values: Mapping[str, float]) -> dict[str, float]:
        if self.horizon is None:
            return {}
        ahead = {worker: world.forecasts.expected(metric, worker, self.horizon) for worker in values}
        return {worker: value for worker, value in ahead.items() if value is not None}

    def _of(
        self,
        world: World,
        symptom: HealthMetric,
        worker: str,
        value: float,
        usual: float,
        ahead: Mapping[str, float],
        usual_ahead: float,
    ) -> list[Suspicion]:
        looks = [
            Suspicion(_times(value, usual, symptom.floor), f"{symptom.metric} is {value:.4g}, of its peers {usual:.4g}")
        ]
        told = world.forecast_for_now.get((symptom.metric, worker))
        votes = world.forecasts.trusted(symptom.metric, worker) is not None
        if told is not None and votes and value > _ALIKE * usual:
            words = f"{symptom.metric} is {value:.4g} where {told:.4g} was foreseen"
            looks.append(Suspicion(_times(value, told, symptom.floor), words))
        if worker in ahead:
            words = f"{symptom.metric} is foreseen at {ahead[worker]:.4g}, of its peers at {usual_ahead:.4g}"
            looks.append(Suspicion(_times(ahead[worker], usual_ahead, symptom.floor), words, foreseen=True))
        return looks


def _of_others(values: Mapping[str, float]) -> dict[str, float]:
    """For each of two or more, the median of all the others.

    >>> _of_others({"a": 1.0, "b": 2.0, "c": 9.0})
    {'a': 5.5, 'b': 5.0, 'c': 1.5}
    """
    order = sorted(values, key=values.__getitem__)
    ranked = [values[name] for name in order]
    low, high = (len(order) - 2) // 2, (len(order) - 1) // 2
    rank = {name: place for place, name in enumerate(order)}
    return {name: (ranked[low + (low >= rank[name])] + ranked[high + (high >= rank[name])]) / 2 for name in values}


def _times(value: float, reference: float, floor: float) -> float:
    """How many times the reference, both raised by the floor; 1 where there is nothing to compare with."""
    return (value + floor) / (reference + floor) if reference + floor > 0 else 1.0
