"""Micro-batches: one driver, for rows simulated one by one (`rows`) and for rows as amounts (`fluid`).

A batch starts when the one before has committed, the trigger allows, and there is a row to take. It takes the rows
that have arrived by then, oldest first, up to the limit. It first pays its fixed cost; then each stage pays for every
task of its pool, active or not, and runs: the rows' work falls to tasks by the route in force when the batch
started, the next task goes to the first free core, and the stage ends when its slowest task has. A task lost with
its core is run again. Rows that flow back (a loop) are read by the next batch. All rows commit when the last stage
has ended. Between two batches, routes, cores and the limit may be changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from foretide.graphs import in_order
from foretide.simulation.workers import SharedStation, UnevenStation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foretide.queueing.model import BatchCosts
    from foretide.queueing.network import Network
    from foretide.simulation.variation import Floats, Integers


@dataclass(frozen=True, slots=True)
class Intake:
    """What a batch takes in from outside.

    Attributes:
        rows: How many.
        lag: Rows that have arrived and are left for later batches.
        oldest: When the oldest row taken arrived.
        newest: When the newest did.
    """

    rows: float
    lag: float
    oldest: float
    newest: float


@dataclass(frozen=True, slots=True, eq=False)
class StageRun:
    """A stage of a batch. The arrays hold one entry for each attempt to run a task.

    Attributes:
        start: When the stage started, its tasks not launched yet.
        end: When its slowest task ended.
        work: Core-seconds of the task at full speed.
        starts: When the attempt started.
        ends: When it ended, or was lost with its core.
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

    Args:
        network: Operators and flows.
        costs: With the work of a row, if it was measured.
        entering: Rows that enter at each operator, in any unit.
    """
    if costs.work_per_row is None or not entering.sum():
        return 1.0
    visits = np.linalg.solve(np.eye(len(entering)) - network.gains.T, entering) / entering.sum()
    return costs.work_per_row / float((visits / network.service_array).sum())
