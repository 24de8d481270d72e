"""How a worker compares: with its peers, with its own forecast, and its forecast with those of its peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt
from typing_extensions import Doc

from foretide.bounds import Bounded
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.from_batch import SLOWNESS
from foretide.metrics.peers import median_of_others
from foretide.metrics.running_tasks import RUNNING_SLOWNESS

_MIN_RATIO_TO_PEERS = 1.2
"""A worker that deviates from its forecast is suspect only if it also deviates from its peers: load affects all."""


@dataclass(frozen=True, slots=True)
class HealthMetric(Bounded):
    """A metric of workers that is high when something is wrong with them."""

    section: ClassVar[str] = "bypass.health_metrics"

    metric: Annotated[str, Doc("Its name.")]
    floor: Annotated[
        float,
        Ge(0),
        Doc("Added to both sides before they are compared, in the metric's unit: tiny times weigh little."),
    ] = 0.0
    unless: Annotated[
        str | None, Doc("A metric that tells the same better; where it is known of any worker, this one is not used.")
    ] = None
    max_age: Annotated[
        Seconds | None, Gt(0), Doc("Seconds after which a value is too old; none for those of the policy.")
    ] = None

    def conflicts(self) -> Iterator[str]:
        """A metric that does not exist."""
        unknown = [name for name in (self.metric, self.unless) if name is not None and name not in CATALOGUE]
        yield from (f"{self.section}: '{name}' is not in the catalogue of metrics" for name in unknown)


HEALTH_METRICS = (
    HealthMetric(SLOWNESS),
    HealthMetric(RUNNING_SLOWNESS, max_age=2.0),
    HealthMetric("worker_tuple_execution_time_ms", unless=SLOWNESS),
    HealthMetric("worker_inbound_queuing_time_ms", 100.0, unless=SLOWNESS),
)
"""Time for the tuples that a worker was given, in the last batch and in one that is late. Where that is not known, time
per tuple, and time before a tuple is taken up; these tell less, because a worker also waits for what a slow one has to
send it.
"""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How many times its reference a worker's metric is, and a description.

    `forecast` if only a forecast says so, `running` if it was seen in a batch that has not ended.
    """

    ratio: float
    description: str
    forecast: bool = False
    running: bool = False


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """Compares the workers in service by values up to `max_age` seconds old.

    Forecasts are compared `horizon` seconds ahead; None for no forecasts.
    """

    metrics: tuple[HealthMetric, ...]
    max_age: float
    horizon: float | None

    def suspicions(self, world: World, since: Mapping[str, float]) -> dict[str, Suspicion]:
        """The highest ratio of each worker in service; without those of which nothing newer than `since` is known."""
        found: dict[str, Suspicion] = {}
        for metric in self.metrics:
            max_age = self.max_age if metric.max_age is None else metric.max_age
            values = self._values(world, metric.metric, since, max_age)
            better = None if metric.unless is None else self._values(world, metric.unless, {}, max_age)
            if len(values) <= 1 or better:
                continue
            forecasts = self._forecasts(world, metric.metric, values)
            peers, peers_ahead = median_of_others(values), median_of_others({**values, **forecasts})
            for worker, value in values.items():
                compared = [
                    *_measured(world, metric, worker, value, peers[worker]),
                    *_ahead(metric, forecasts.get(worker), peers_ahead[worker]),
                ]
                for suspicion in compared:
                    if worker not in found or suspicion.ratio > found[worker].ratio:
                        found[worker] = suspicion
        return found

    def _values(self, world: World, metric: str, since: Mapping[str, float], max_age: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for worker in sorted(world.observed.in_service - world.observed.young):
            value, measured = world.snapshot.figures.get((metric, worker), (0.0, float("-inf")))
            if measured > since.get(worker, float("-inf")) and world.at - measured <= max_age:
                found[worker] = value
        return found

    def _forecasts(self, world: World, metric: str, values: Mapping[str, float]) -> dict[str, float]:
        if self.horizon is None:
            return {}
        ahead = {worker: world.forecasts.expected(metric, worker, self.horizon) for worker in values}
        return {worker: value for worker, value in ahead.items() if value is not None}


def _measured(world: World, metric: HealthMetric, worker: str, value: float, peers: float) -> Iterator[Suspicion]:
    """What is measured, compared with the peers and with what was forecast for now."""
    name, known = metric.metric, CATALOGUE[metric.metric]
    description = f"its {known.words} is {known.figure(value)}, that of its peers {known.figure(peers)}"
    yield Suspicion(_ratio(value, peers, metric.floor), description, running=name == RUNNING_SLOWNESS)
    forecast = world.forecast_for_now.get((name, worker))
    trusted = (name, worker) in world.forecasts.by_series
    if forecast is not None and trusted and value > _MIN_RATIO_TO_PEERS * peers:
        description = f"its {known.words} is {known.figure(value)} where {known.figure(forecast)} was forecast"
        yield Suspicion(_ratio(value, forecast, metric.floor), description)


def _ahead(metric: HealthMetric, forecast: float | None, peers: float) -> Iterator[Suspicion]:
    """What is forecast, compared with the forecasts of the peers."""
    if forecast is not None:
        known = CATALOGUE[metric.metric]
        ahead, of_peers = known.figure(forecast), known.figure(peers)
        description = f"its {known.words} is forecast at {ahead}, that of its peers at {of_peers}"
        yield Suspicion(_ratio(forecast, peers, metric.floor), description, forecast=True)


def _ratio(value: float, reference: float, floor: float) -> float:
    """How many times the reference, both raised by the floor; 1 where there is nothing to compare with."""
    return (value + floor) / (reference + floor) if reference + floor > 0 else 1.0
