"""Predictors of the input rate for simulated queries, and the measures of pa-sps (Tables 2 to 8)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from foretide.control.simulation.scenario import ControlScenario
from foretide.control.simulation.simulate import ControlReport
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, World
from foretide.simulation.batches import RowLoad

Predictor = Callable[[Sequence[float], int], float]
"""From the rates of all intervals so far (at least one), the rate a number of intervals ahead."""


class Predictions:
    """Asks a predictor once an interval for the rate of the next, as the `forecast` of a simulation."""

    def __init__(
        self, predictor: Predictor | None, load: RowLoad, scenario: ControlScenario, interval: float = 30.0
    ) -> None:
        self._load, self._predictor, self._interval = load, predictor, interval
        self._shares = scenario.spout_shares
        self._history: list[float] = []
        self._predicted: dict[int, float] = {}

    def __call__(self, world: World) -> Forecasts:
        whole = min(int(world.at / self._interval), int(self._load.seconds / self._interval))
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

    def _rate(self, index: int) -> float:
        return self._load.mean(index * self._interval, (index + 1) * self._interval)

    @property
    def error(self) -> float | None:
        """Mean absolute percentage error of the predicted input; None without predictions."""
        whole = int(self._load.seconds / self._interval)
        pairs = [(rate, self._rate(index)) for index, rate in self._predicted.items() if index < whole]
        errors = [abs(rate - predicted) / rate for predicted, rate in pairs if rate > 0]
        return math.fsum(errors) / len(errors) if errors else None


def throughput_degradation(report: ControlReport, interval: float = 30.0) -> float:
    """How far what comes out in an interval is from what goes in, on average."""
    edges = np.arange(0.0, report.load.seconds + interval / 2, interval)
    commits, rows = [batch.run.commit for batch in report.batches], [batch.rows for batch in report.batches]
    out, _ = np.histogram(commits, bins=edges, weights=rows)
    into = np.diff([report.load.due(float(edge)) for edge in edges])
    busy = into > 0
    return float(np.mean(np.abs(into[busy] - out[busy]) / into[busy]))


def replica_error(report: ControlReport, needed: Callable[[float], int], interval: float = 30.0) -> float:
    """Mean absolute percentage error of the active replicas against those that the input needed."""
    ends = np.arange(interval, report.load.seconds + interval / 2, interval)
    starts = np.array([batch.run.start for batch in report.batches])
    errors = []
    for end in ends:
        middle = end - interval / 2
        active = report.batches[max(int(np.searchsorted(starts, middle, side="right")) - 1, 0)].replicas
        right = needed(report.load.mean(end - interval, min(end, report.load.seconds)))
        errors.append(abs(active - right) / right)
    return math.fsum(errors) / len(errors)


def last_value(history: Sequence[float], horizon: int) -> float:  # noqa: ARG001
    """Predicts the last rate: Basic in pa-sps."""
    return history[-1]


def moving_average(history: Sequence[float], horizon: int, size: int = 5) -> float:  # noqa: ARG001
    """Predicts the mean of the last few rates."""
    recent = history[-size:]
    return sum(recent) / len(recent)


def perfect(load: RowLoad, interval: float = 30.0) -> Predictor:
    """Knows the load: what no predictor can beat."""

    def predict(history: Sequence[float], horizon: int) -> float:
        start = (len(history) + horizon - 1) * interval
        end = min(start + interval, load.seconds)
        return load.mean(start, end) if end > start else history[-1]

    return predict
