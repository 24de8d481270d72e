"""The control loop on a simulated query: hours of load in seconds.

```python
report = simulate_control(Control((Replicas(),)), scenario, RowLoad(rates))
report.latency(0.99), report.replica_seconds, report.actions
```
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretide.control.decisions.decision import Decision
from foretide.control.simulation.query import SimulatedBatch, SimulatedQuery
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.step import Control, step
from foretide.control.world.setup import Target
from foretide.control.world.world import Forecasts, World
from foretide.simulation.batches import RowLoad

ForecastFunction = Callable[[World], Forecasts]
"""Forecasts of anything, from what is measured."""

_POINTS = 32
"""Latencies that stand for the rows of a batch, from the newest to the oldest."""


@dataclass(frozen=True)
class ControlReport:
    """The result of a simulation under control; of the decisions, those in which an action was chosen."""

    load: RowLoad
    batches: tuple[SimulatedBatch, ...]
    decisions: tuple[Decision, ...]

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

    def mean_latency(self, start: float = 0.0, end: float = math.inf) -> float:
        """Seconds from due to commit of rows committed within a time, on average; nan if none was."""
        values, weights = self.latencies(start, end)
        return float(np.average(values, weights=weights)) if len(values) else math.nan


def simulate_control(
    control: Control,
    scenario: ControlScenario,
    load: RowLoad,
    *,
    period: float = 0.0,
    target: Target | None = None,
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
        forecast: Forecasts anything, from what is measured.
        rng: With one, rows are simulated one by one, at random; without, they are amounts and nothing is random.
        progress: Called with the share of the load's time that has passed, 0 to 1.
    """
    query, state, setup = SimulatedQuery(scenario, load, rng), control.start(), scenario.setup()
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
        world = World(setup, query.snapshot(), query.observed(), target=target or Target())
        if forecast is not None:
            world = replace(world, forecasts=forecast(world))
        state, decision = step(control, state, world)
        if decision.chosen:
            decisions.append(decision)
        if control.mode == "act":
            for action in decision.actions:
                query.perform(action)
    return ControlReport(load, tuple(batches), tuple(decisions))
