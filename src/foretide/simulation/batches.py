"""Micro-batches: one driver, for rows simulated one by one (`rows`) and for rows as amounts (`FluidRows`).

A batch starts when the one before has committed, the trigger allows, and there is a row to take. It takes the rows
that have arrived by then, oldest first, up to the limit. It first pays its fixed cost; then each stage pays for every
task of its pool, active or not, and runs: the rows' work falls to tasks by the route in force when the batch
started, the next task goes to the first free core, and the stage ends when its slowest task has. A task lost with
its core is run again. Rows that flow back (a loop) are read by the next batch. All rows commit when the last stage
has ended. Between two batches, routes, cores and the limit may be changed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from foretide.errors import ModelError, Problem
from foretide.graphs import in_order
from foretide.simulation.workers import SharedStation, UnevenStation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foretide.queueing.model import BatchCosts
    from foretide.queueing.network import Network
    from foretide.simulation.variation import Floats, Integers


@dataclass(frozen=True, slots=True)
class Intake:
    """What a batch takes in from outside: rows, those left for later (`lag`), and when oldest and newest arrived."""

    rows: float
    lag: float
    oldest: float
    newest: float


@dataclass(frozen=True, slots=True, eq=False)
class StageRun:
    """A stage of a batch. The arrays hold one entry for each attempt to run a task.

    Attributes:
        start: When the stage started, its tasks not launched yet.
        work: Core-seconds of the task at full speed.
        ends: When the attempt ended, or was lost with its core.
        cores: Who ran it; None if all cores are alike.
        lost: Attempts that were lost.
    """

    start: float
    end: float
    work: Floats
    starts: Floats
    ends: Floats
    cores: Integers | None = None
    lost: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class BatchRun:
    """A batch: when it started and committed, what it took in, and its stages by the operator's position."""

    start: float
    commit: float
    intake: Intake
    stages: Mapping[int, StageRun]


B = TypeVar("B")
Cores = SharedStation | UnevenStation


class RowSource(Protocol[B]):
    """The rows of a query: which wait, which a batch takes, and the work that they bring to each operator."""

    def ready(self, earliest: float) -> float:
        """When a batch that may start at `earliest` has a row to take; infinite if none will come."""
        ...

    def take(self, start: float, limit: float) -> tuple[B, Intake]:
        """The rows of a batch that starts now: what flowed back, and from outside as many as the limit allows."""
        ...

    def work(self, operator: int, batch: B) -> Floats:
        """Core-seconds of each of the operator's tasks that has rows."""
        ...

    def stage_ended(self, operator: int, batch: B, run: StageRun) -> None:
        """The operator has processed its rows; what it emits goes to those after it."""
        ...

    def committed(self, batch: B, commit: float) -> None:
        """The batch has committed."""
        ...

    def route(self, operator: int, weights: Sequence[float]) -> None:
        """Split the operator's rows over its tasks in proportion to these weights, from the next batch on."""
        ...


class MicroBatches(Generic[B]):
    """Runs batches one after the other.

    Attributes:
        now: When the last batch committed; the next one starts no earlier.
        limit: Most rows that a batch takes in from outside.
        cores: The cores as each operator's stage meets them. They are idle whenever a stage starts, so each stage
            may keep its own record of them.
    """

    def __init__(
        self,
        network: Network,
        pools: Mapping[str, int],
        costs: BatchCosts,
        rows: RowSource[B],
        cores: Mapping[int, Cores],
    ) -> None:
        self.now, self.limit, self.cores = 0.0, math.inf, cores
        self._costs, self._rows = costs, rows
        self._order, _ = stage_order(network)
        self._launch = [pools[name] * costs.task_cost for name in network.names]
        self._allowed = 0.0

    def next_start(self) -> float:
        """When the next batch starts; infinite if there is nothing left to do."""
        return self._rows.ready(max(self.now, self._allowed))

    def run(self, until: float = math.inf) -> BatchRun | None:
        """Run the next batch; None if it would not start before `until`."""
        start = self.next_start()
        if start >= until:
            return None
        batch, intake = self._rows.take(start, self.limit)
        now = start + self._costs.fixed_cost
        stages: dict[int, StageRun] = {}
        for operator in self._order:
            stages[operator] = run = self._run_stage(operator, now, self._rows.work(operator, batch))
            self._rows.stage_ended(operator, batch, run)
            now = run.end
        self._rows.committed(batch, now)
        self.now, self._allowed = now, start + self._costs.trigger
        return BatchRun(start, now, intake, stages)

    def _run_stage(self, operator: int, start: float, work: Floats) -> StageRun:
        cores, launched = self.cores[operator], start + self._launch[operator]
        if isinstance(cores, UnevenStation):
            return _with_replays(cores, start, launched, work)
        starts = cores.serve(np.full(len(work), launched), work)
        ends = starts + work
        return StageRun(start, float(ends.max(initial=launched)), work, starts, ends)


def _with_replays(cores: UnevenStation, start: float, launched: float, work: Floats) -> StageRun:
    queue = [(launched, task, seconds) for task, seconds in enumerate(work.tolist())]
    heapify(queue)
    attempts: list[tuple[float, float, float, int, bool]] = []
    while queue:
        time, task, seconds = heappop(queue)
        begun, end, lost, core = cores.assign(time, seconds)
        attempts.append((seconds, begun, end, core, lost))
        if lost:
            heappush(queue, (end, task, seconds))
    tried, starts, ends, used, lost_ones = np.array(attempts, dtype=np.float64).reshape(-1, 5).T
    end = float(ends.max(initial=launched))
    return StageRun(start, end, tried, starts, ends, used.astype(np.int64), int(lost_ones.sum()))


def stage_order(network: Network) -> tuple[list[int], set[tuple[int, int]]]:
    """The order of the stages, and the flows that go back to the next batch, by position.

    Those are the flows of a loop that lead to an operator listed earlier, or to the same one.

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> operators = tuple(Operator(name, 1.0) for name in "abc")
    >>> stage_order(Network(operators, (Flow("b", "a"), Flow("b", "c", 0.5), Flow("c", "b", 0.5))))
    ([1, 0, 2], {(2, 1)})
    """
    flows = [(source, target) for source, targets in network.successors.items() for target in targets]
    feedback = {flow for flow in flows if flow[1] <= flow[0] and any(set(flow) <= set(loop) for loop in network.loops)}
    inputs = {
        index: [source for source, target in flows if target == index and (source, target) not in feedback]
        for index in network.successors
    }
    return in_order(inputs), feedback


def work_scale(network: Network, costs: BatchCosts, entering: Floats) -> float:
    """What service times are multiplied by so that a row costs, over all its visits, what the model says.

    `entering` are the rows that enter at each operator, in any unit.
    """
    if costs.work_per_row is None or not entering.sum():
        return 1.0
    visits = np.linalg.solve(np.eye(len(entering)) - network.gains.T, entering) / entering.sum()
    return costs.work_per_row / float((visits / network.service_array).sum())


_SOON = 1e-6
"""Seconds added to the moment a row is due, so that rounding cannot make it a moment too early."""


class RowLoad:
    """Rows that fall due: a rate for each step of equal length, evenly spread within it.

    >>> load = RowLoad([10.0, 0.0, 20.0], step=2.0)
    >>> load.rows, load.due(1.0), load.when(20.0), load.after(20.0)
    (60.0, 10.0, 2.0, 4.0)
    """

    def __init__(self, rates: Sequence[float], step: float = 1.0) -> None:
        if not rates or step <= 0 or min(rates) < 0 or not math.isfinite(math.fsum(rates)):
            raise ModelError([Problem("load", "needs rates of 0 or more", "Give at least one, and a step above 0.")])
        self.rates = [float(rate) for rate in rates]
        self.step = step
        self._before = [0.0, *accumulate(rate * step for rate in self.rates)]

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.rates) * self.step

    @property
    def rows(self) -> float:
        """All that falls due."""
        return self._before[-1]

    def due(self, at: float) -> float:
        """Rows due by a time."""
        index = int(at / self.step)
        if index >= len(self.rates):
            return self.rows
        return self._before[index] + self.rates[index] * (at - index * self.step)

    def when(self, row: float) -> float:
        """The first moment at which that many rows are due."""
        return self._moment(row, max(bisect_left(self._before, row), 1) - 1)

    def after(self, row: float) -> float:
        """The last moment at which no more than that many rows are due: when the next one begins to come."""
        return self._moment(row, min(bisect_right(self._before, row), len(self.rates)) - 1)

    def _moment(self, row: float, index: int) -> float:
        rate = self.rates[index]
        within = (row - self._before[index]) / rate if rate > 0 else 0.0
        return index * self.step + min(within, self.step)

    def mean(self, start: float, end: float) -> float:
        """Rows a second between two times."""
        return (self.due(end) - self.due(start)) / (end - start)


class FluidRows:
    """Rows as amounts. A batch is a list: the amount that each operator has to process, by position."""

    def __init__(
        self, network: Network, load: RowLoad, costs: BatchCosts, weights: Mapping[str, Sequence[float]]
    ) -> None:
        self._load, self._taken = load, 0.0
        self._shares = (network.external_array / network.external_rate).tolist()
        scale = work_scale(network, costs, network.external_array)
        self._seconds = (scale / network.service_array).tolist()
        _, feedback = stage_order(network)
        self._flows = [
            [(target, float(network.gains[source, target]), (source, target) in feedback) for target in targets]
            for source, targets in network.successors.items()
        ]
        self._split: list[Floats] = [np.empty(0)] * len(network.names)
        for name, each in weights.items():
            self.route(network.index[name], each)
        self._returned = self._nothing()

    def _nothing(self) -> list[float]:
        return [0.0] * len(self._shares)

    def ready(self, earliest: float) -> float:
        """When a whole row waits, counting what has flowed back."""
        wanted = 1 - sum(self._returned)
        if self._load.due(earliest) - self._taken >= wanted:
            return earliest
        if self._taken + wanted > self._load.rows:
            return math.inf
        return max(earliest, self._load.when(self._taken + wanted) + _SOON)

    def take(self, start: float, limit: float) -> tuple[list[float], Intake]:
        """All that is due, as far as the limit allows."""
        due = self._load.due(start)
        rows = min(due - self._taken, limit)
        taken = min(self._taken + rows, due)  # sums of floats may go past what was due
        oldest, newest = self._load.after(self._taken), self._load.when(taken)
        self._taken = taken
        batch = [rows * share + back for share, back in zip(self._shares, self._returned, strict=True)]
        self._returned = self._nothing()
        return batch, Intake(rows, due - taken, oldest, newest)

    def work(self, operator: int, batch: list[float]) -> Floats:
        """The work of the operator's rows, split over its active tasks."""
        seconds: Floats = batch[operator] * self._seconds[operator] * self._split[operator]
        return seconds

    def stage_ended(self, operator: int, batch: list[float], run: StageRun) -> None:  # noqa: ARG002
        """What the operator emits joins this batch, or the next."""
        for target, gain, back in self._flows[operator]:
            (self._returned if back else batch)[target] += batch[operator] * gain

    def committed(self, batch: list[float], commit: float) -> None:
        """Nothing is kept of a batch."""

    def route(self, operator: int, weights: Sequence[float]) -> None:
        """Split the rows over the tasks with a weight above 0."""
        active = np.array([weight for weight in weights if weight > 0])
        self._split[operator] = active / active.sum()
