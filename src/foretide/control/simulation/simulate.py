"""The control loop on a simulated query: hours of load in seconds.

```python
report = simulate_control(Control((Replicas(),)), scenario, Load(rates))
report.latency(0.99), report.replica_seconds, report.actions
```
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretide.control.decisions.decision import Decision
from foretide.control.simulation.query import SimulatedBatch, SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.step import Control, step
from foretide.control.world.forecasts import Forecast, ForecastPoint, Forecasts
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.simulation.fluid import Load

Predictor = Callable[[Sequence[float], int], float]
"""From the rates of all intervals so far (at least one), the rate a number of intervals ahead."""

ForecastFunction = Callable[[World], Forecasts]
"""Forecasts of anything, from what is measured."""

_POINTS = 32
"""Latencies that stand for the rows of a batch, from the newest to the oldest."""


@dataclass(frozen=True)
class ControlReport:
    """The result of a simulation under control.

    Attributes:
        load: Rows that fell due.
        batches: Every batch.
        decisions: Those in which an action was chosen.
        interval: Seconds of the intervals that predictions are made for.
        predictions: Pairs of the rate predicted for an interval and the rate that came.
    """

    load: Load
    batches: tuple[SimulatedBatch, ...]
    decisions: tuple[Decision, ...]
    interval: float
    predictions: tuple[tuple[float, float], ...] = ()

    @property
    def actions(self) -> int:
        """How many actions were chosen."""
        return sum(len(decision.chosen) for decision in self.decisions)

    @property
    def processed(self) -> float:
        """Rows that were committed before the load ended."""
        return math.fsum(batch.rows for batch in self.batches if batch.run.commit <= self.load.seconds)

    @property
    def replica_seconds(self) -> float:
        """Active replicas times seconds, over all bolts."""
        return math.fsum(batch.replicas * seconds for batch, seconds in self._intervals())

    @property
    def executor_seconds(self) -> float:
        """Executors times seconds."""
        return math.fsum(batch.executors * seconds for batch, seconds in self._intervals())

    def _intervals(self) -> list[tuple[SimulatedBatch, float]]:
        """Each batch, and the seconds until the next one started."""
        starts = [batch.run.start for batch in self.batches]
        ends = [*starts[1:], self.load.seconds]
        return [(batch, end - start) for batch, start, end in zip(self.batches, starts, ends, strict=True)]

    def latencies(self, start: float = 0.0, end: float = math.inf) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latencies of rows committed within a time, and how many rows each stands for."""
        batches = [batch for batch in self.batches if start <= batch.run.commit < end]
        low, high = np.array([batch.latencies for batch in batches]).reshape(-1, 2).T
        rows = np.array([batch.rows for batch in batches])
        points = (np.arange(_POINTS) + 0.5) / _POINTS
        return (low[:, None] + (high - low)[:, None] * points).ravel(), np.repeat(rows / _POINTS, _POINTS)

    def latency(self, quantile: float, start: float = 0.0, end: float = math.inf) -> float:
        """Seconds from due to commit that this share of the rows did not exceed; nan if none was committed."""
        values, weights = self.latencies(start, end)
        if not len(values):
            return math.nan
        order = np.argsort(values)
        reached = np.cumsum(weights[order])
        return float(values[order][np.searchsorted(reached, quantile * reached[-1])])

    @property
    def mean_latency(self) -> float:
        """Seconds from due to commit, on average; nan if nothing was committed."""
        values, weights = self.latencies()
        return float(np.average(values, weights=weights)) if len(values) else math.nan

    @property
    def throughput_degradation(self) -> float:
        """pa-sps: how far what comes out in an interval is from what goes in, on average."""
        edges = np.arange(0.0, self.load.seconds + self.interval / 2, self.interval)
        commits, rows = [batch.run.commit for batch in self.batches], [batch.rows for batch in self.batches]
        out, _ = np.histogram(commits, bins=edges, weights=rows)
        into = np.diff([self.load.due(float(edge)) for edge in edges])
        busy = into > 0
        return float(np.mean(np.abs(into[busy] - out[busy]) / into[busy]))

    @property
    def input_error(self) -> float | None:
        """pa-sps: mean absolute percentage error of the predicted input; None without predictions."""
        errors = [abs(rate - predicted) / rate for predicted, rate in self.predictions if rate > 0]
        return math.fsum(errors) / len(errors) if errors else None

    def replica_error(self, needed: Callable[[float], int]) -> float:
        """pa-sps: mean absolute percentage error of the active replicas against those that the input needed."""
        ends = np.arange(self.interval, self.load.seconds + self.interval / 2, self.interval)
        starts = np.array([batch.run.start for batch in self.batches])
        errors = []
        for end in ends:
            middle = end - self.interval / 2
            active = self.batches[max(int(np.searchsorted(starts, middle, side="right")) - 1, 0)].replicas
            right = needed(self.load.mean(end - self.interval, min(end, self.load.seconds)))
            errors.append(abs(active - right) / right)
        return math.fsum(errors) / len(errors)


def simulate_control(
    control: Control,
    scenario: ControlScenario,
    load: Load,
    *,
    period: float = 0.0,
    target: Target | None = None,
    predictor: Predictor | None = None,
    interval: float = 30.0,
    forecast: ForecastFunction | None = None,
    rng: np.random.Generator | None = None,
    progress: Callable[[float], None] | None = None,
) -> ControlReport:
    """Run a load through a simulated query under control.

    Args:
        control: Policies and guards.
        scenario: The query and its cluster.
        load: Rows that fall due.
        period: Least seconds between two control cycles; each follows a commit, so 0 is one after every batch.
        target: What the loop is to hold.
        predictor: Predicts the rate of the next interval from those so far.
        interval: Seconds of such an interval.
        forecast: Forecasts anything else, from what is measured.
        rng: With one, rows are simulated one by one, at random; without, they are amounts and nothing is random.
        progress: Called with the share of the load's time that has passed, 0 to 1.
    """
    query, state, setup = SimulatedQuery(scenario, load, rng), control.start(), scenario.setup()
    predictions = _Predictions(load, predictor, interval, scenario)
    batches: list[SimulatedBatch] = []
    decisions: list[Decision] = []
    next_cycle = 0.0
    while (batch := query.run()) is not None:
        batches.append(batch)
        if progress is not None:
            progress(min(query.now / load.seconds, 1.0))
        if query.now < next_cycle:
            continue
        next_cycle = query.now + period - 1e-9
        world = World(setup, query.snapshot(), query.observed(), predictions.at(query.now), target or Target())
        if forecast is not None:
            both = {**world.forecasts.by_series, **forecast(world).by_series}
            world = replace(world, forecasts=Forecasts(both))
        state, decision = step(control, state, world)
        if decision.chosen:
            decisions.append(decision)
        if control.mode == "act":
            for action in decision.actions:
                query.perform(action)
    return ControlReport(load, tuple(batches), tuple(decisions), interval, predictions.compared())


class _Predictions:
    """Asks a predictor once an interval, and keeps its answers."""

    def __init__(self, load: Load, predictor: Predictor | None, interval: float, scenario: ControlScenario) -> None:
        self._load, self._predictor, self._interval = load, predictor, interval
        self._shares = scenario.spout_shares
        self._history: list[float] = []
        self._predicted: dict[int, float] = {}

    def _rate(self, index: int) -> float:
        return self._load.mean(index * self._interval, (index + 1) * self._interval)

    def at(self, now: float) -> Forecasts:
        whole = min(int(now / self._interval), int(self._load.seconds / self._interval))
        self._history += [self._rate(index) for index in range(len(self._history), whole)]
        if self._predictor is None or not self._history:
            return Forecasts()
        if whole not in self._predicted:
            self._predicted[whole] = max(0.0, self._predictor(self._history, 1))
        return Forecasts(
            {
                ("arrival_rate", spout): Forecast(
                    "predictor", (ForecastPoint(self._interval, self._predicted[whole] * share),)
                )
                for spout, share in self._shares.items()
            }
        )

    def compared(self) -> tuple[tuple[float, float], ...]:
        """Each prediction whose interval is over, and the rate that came."""
        whole = int(self._load.seconds / self._interval)
        return tuple((rate, self._rate(index)) for index, rate in sorted(self._predicted.items()) if index < whole)


def last_value(history: Sequence[float], horizon: int) -> float:  # noqa: ARG001
    """Predicts the last rate: Basic in pa-sps."""
    return history[-1]


def moving_average(history: Sequence[float], horizon: int, size: int = 5) -> float:  # noqa: ARG001
    """Predicts the mean of the last few rates."""
    recent = history[-size:]
    return sum(recent) / len(recent)


def perfect(load: Load, interval: float = 30.0) -> Predictor:
    """Knows the load: what no predictor can beat."""

    def predict(history: Sequence[float], horizon: int) -> float:
        start = (len(history) + horizon - 1) * interval
        end = min(start + interval, load.seconds)
        return load.mean(start, end) if end > start else history[-1]

    return predict
