"""A rehearsal: the control loop against a query that exists in numbers only. A day takes seconds.

```python
report = rehearse(Control((Replicas(),)), rig, Load(rates))
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
from foretide.control.rehearsal_plant import BatchRun, Plant
from foretide.control.rehearsal_rig import Load, Rig
from foretide.control.step import Control, step
from foretide.control.world.forecasts import Forecast, ForecastPoint, Forecasts
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.metrics.snapshot import Key

Predictor = Callable[[Sequence[float], int], float]
"""From the rates of whole intervals so far (never empty), the rate so many intervals ahead."""

Foresee = Callable[[World], Forecasts]
"""What is foreseen in a world, in place of a predictor."""


@dataclass(frozen=True)
class Report:
    """What came of a rehearsal.

    Attributes:
        load: What fell due.
        batches: Every batch that was run.
        decisions: Those in which something was done.
        interval: Seconds of the intervals that predictions speak of.
        predictions: Pairs of the rate foreseen for an interval and the one that came.
    """

    load: Load
    batches: tuple[BatchRun, ...]
    decisions: tuple[Decision, ...]
    interval: float
    predictions: tuple[tuple[float, float], ...] = ()

    @property
    def actions(self) -> int:
        """How many actions were taken."""
        return sum(len(decision.chosen) for decision in self.decisions)

    @property
    def received(self) -> float:
        """Rows that fell due."""
        return self.load.rows

    @property
    def processed(self) -> float:
        """Rows that were committed before the load ended."""
        return math.fsum(run.rows for run in self.batches if run.committed <= self.load.seconds)

    @property
    def replica_seconds(self) -> float:
        """Active replicas times seconds, over all operators that can be steered."""
        return math.fsum(run.replicas * length for run, length in self._spans())

    @property
    def executor_seconds(self) -> float:
        """Executors times seconds."""
        return math.fsum(run.executors * length for run, length in self._spans())

    def _spans(self) -> list[tuple[BatchRun, float]]:
        """Each batch, and the time until the next one started."""
        starts = [run.started for run in self.batches[1:]]
        return [(run, end - run.started) for run, end in zip(self.batches, [*starts, self.load.seconds], strict=True)]

    def latencies(self, start: float = 0.0, end: float = math.inf) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latencies of rows committed within a time, and how many rows each stands for."""
        points = (np.arange(32) + 0.5) / 32
        runs = [run for run in self.batches if start <= run.committed < end]
        low = np.array([run.latencies[0] for run in runs])
        high = np.array([run.latencies[1] for run in runs])
        rows = np.array([run.rows for run in runs])
        return (low[:, None] + (high - low)[:, None] * points).ravel(), np.repeat(rows / 32, 32)

    def latency(self, quantile: float, start: float = 0.0, end: float = math.inf) -> float:
        """Seconds that this share of the rows did not exceed from due to commit."""
        values, weights = self.latencies(start, end)
        order = np.argsort(values)
        reached = np.cumsum(weights[order])
        return float(values[order][np.searchsorted(reached, quantile * reached[-1])])

    @property
    def mean_latency(self) -> float:
        """Seconds from due to commit, on average."""
        values, weights = self.latencies()
        return float(np.average(values, weights=weights))

    @property
    def throughput_degradation(self) -> float:
        """pa-sps: how far what comes out in an interval is from what goes in, on average."""
        edges = np.arange(0.0, self.load.seconds + self.interval / 2, self.interval)
        out, _ = np.histogram(
            [run.committed for run in self.batches], bins=edges, weights=[run.rows for run in self.batches]
        )
        into = np.diff([self.load.due(float(edge)) for edge in edges])
        busy = into > 0
        return float(np.mean(np.abs(into[busy] - out[busy]) / into[busy]))

    @property
    def input_error(self) -> float | None:
        """pa-sps: mean absolute percentage error of the predicted input; None where nothing was predicted."""
        errors = [abs(came - told) / came for told, came in self.predictions if came > 0]
        return math.fsum(errors) / len(errors) if errors else None

    def replica_error(self, needed: Callable[[float], int]) -> float:
        """pa-sps: mean absolute percentage error of the active replicas against those that the input needed."""
        ends = np.arange(self.interval, self.load.seconds + self.interval / 2, self.interval)
        starts = np.array([run.started for run in self.batches])
        errors = []
        for end in ends:
            middle = end - self.interval / 2
            active = self.batches[max(int(np.searchsorted(starts, middle, side="right")) - 1, 0)].replicas
            right = needed(self.load.mean(end - self.interval, min(end, self.load.seconds)))
            errors.append(abs(active - right) / right)
        return math.fsum(errors) / len(errors)


def rehearse(
    control: Control,
    rig: Rig,
    load: Load,
    *,
    period: float = 0.0,
    target: Target | None = None,
    predictor: Predictor | None = None,
    interval: float = 30.0,
    foresee: Foresee | None = None,
) -> Report:
    """Run a load through the rig under control.

    Args:
        control: Policies and guards.
        rig: The query and its cluster.
        load: What falls due when.
        period: Least seconds between two control cycles; each follows a commit, so 0 is one after every batch.
        target: What is to be held.
        predictor: Foresees the rate of the next interval from those so far.
        interval: Seconds of such an interval.
        foresee: Foresees anything else, from what is measured.
    """
    plant, state, setup = Plant(rig, load), control.start(), rig.setup()
    book = _Predictions(load, predictor, interval, rig)
    batches: list[BatchRun] = []
    decisions: list[Decision] = []
    next_cycle = 0.0
    while (run := plant.run()) is not None:
        batches.append(run)
        if run.committed < next_cycle:
            continue
        next_cycle = run.committed + period - 1e-9
        world = World(setup, plant.snapshot(), plant.observed(), book.at(run.committed), target or Target())
        world = world if foresee is None else replace(world, forecasts=_both(world.forecasts, foresee(world)))
        state, decision = step(control, state, world)
        if decision.chosen:
            decisions.append(decision)
        if control.mode == "act":
            for action in decision.actions:
                plant.perform(action)
    return Report(load, tuple(batches), tuple(decisions), interval, book.settled())


def _both(one: Forecasts, other: Forecasts) -> Forecasts:
    return Forecasts({**one.by_series, **other.by_series})


class _Predictions:
    """Asks a predictor once an interval, and remembers what it said."""

    def __init__(self, load: Load, predictor: Predictor | None, interval: float, rig: Rig) -> None:
        self._load, self._predictor, self._interval = load, predictor, interval
        self._history: list[float] = []
        self._told: dict[int, float] = {}
        entering = rig.network.external_rate
        self._shares = {name: rig.network.external.get(name, 0.0) / entering for name in rig.spouts}

    def at(self, now: float) -> Forecasts:
        whole = min(int(now / self._interval), int(self._load.seconds / self._interval))
        for index in range(len(self._history), whole):
            self._history.append(self._load.mean(index * self._interval, (index + 1) * self._interval))
        if self._predictor is None or not self._history:
            return Forecasts()
        if whole not in self._told:
            self._told[whole] = max(0.0, self._predictor(self._history, 1))
        ahead = ForecastPoint(self._interval, self._told[whole])
        looks: dict[Key, Forecast] = {
            ("arrival_rate", spout): Forecast("predictor", (replace(ahead, mean=ahead.mean * share),))
            for spout, share in self._shares.items()
        }
        return Forecasts(looks)

    def settled(self) -> tuple[tuple[float, float], ...]:
        ends = int(self._load.seconds / self._interval)
        return tuple(
            (told, self._load.mean(index * self._interval, (index + 1) * self._interval))
            for index, told in sorted(self._told.items())
            if index < ends
        )


def last_value(history: Sequence[float], horizon: int) -> float:  # noqa: ARG001
    """What was, will be: pa-sps's Basic."""
    return history[-1]


def moving_average(history: Sequence[float], horizon: int, size: int = 5) -> float:  # noqa: ARG001
    """The mean of the last few."""
    recent = history[-size:]
    return sum(recent) / len(recent)


def perfect(load: Load, interval: float = 30.0) -> Predictor:
    """Knows the future: what no predictor can beat."""

    def predict(history: Sequence[float], horizon: int) -> float:
        start = (len(history) + horizon - 1) * interval
        end = min(start + interval, load.seconds)
        return load.mean(start, end) if end > start else history[-1]

    return predict
