"""Spark's default mode as it is: batches one after another, not a pipeline of queues.

A batch reads what arrived while the one before it ran, works through the operators stage by stage with all
cores, and commits. Its length is a fixed cost, plus a cost for each task of every POOL (empty tasks are
started too), plus the rows' work over the replicas that share it. The steady length is where a batch takes
just as long as the rows it brings took to arrive.

Operators do not compete for processors here, as each stage may use every core. What they compete with is their own
fixed cost, because every task of a pool costs time, busy or not. So the best number of replicas grows with the square
root of an operator's work, and idle times want fewer of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretide.errors import BatchOverloadError, IdleNetworkError, LatencyOutOfReachError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.queueing.model import BatchCosts
    from foretide.queueing.network import Network

_MAX_CORES = 1 << 20


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One operator's part of a batch.

    Attributes:
        work: Core-seconds it spends on each row that enters the network.
        active: Replicas that share the rows.
        pool: Tasks started in all, `active` or more.
    """

    operator: str
    work: float
    active: int
    pool: int


@dataclass(frozen=True, slots=True)
class SteadyBatches:
    """What batches settle down to.

    Attributes:
        length: Seconds from a batch's start to its commit.
        interval: Seconds between the starts of two batches: the length, or the trigger if that is longer.
        rows: Rows in a batch.
        utilization: Share of the stability limit that arrives; at 1 the length has no end.
    """

    length: float
    interval: float
    rows: float
    utilization: float

    @property
    def mean_latency(self) -> float:
        """Seconds from a row's arrival to its commit, on average: half an interval and a batch."""
        return self.latency(0.5)

    def latency(self, quantile: float) -> float:
        """The latency that this share of rows does not exceed, arriving evenly over the interval."""
        return quantile * self.interval + self.length


@dataclass(frozen=True, slots=True)
class BatchModel:
    """A micro-batch query: what a batch costs and how its stages share the work.

    >>> from foretide.queueing.model import BatchCosts
    >>> costs = BatchCosts(cores=4, fixed_cost=0.2, task_cost=0.01)
    >>> query = BatchModel(costs, (StagePlan("parse", 1e-3, 4, 10),))
    >>> steady = query.steady(rate=2000.0)
    >>> round(steady.length, 6), round(steady.mean_latency, 6), query.highest_rate
    (0.6, 0.9, 4000.0)
    """

    costs: BatchCosts
    stages: tuple[StagePlan, ...]

    @property
    def overhead(self) -> float:
        """Seconds a batch takes without rows; grows with the pools, not with the active replicas."""
        return self.costs.fixed_cost + self.costs.task_cost * sum(stage.pool for stage in self.stages)

    @property
    def seconds_per_row(self) -> float:
        """Seconds each row adds to the batch. Replicas beyond the cores take turns: 6 on 4 cores need two."""
        return math.fsum(map(self._share, self.stages))

    def _share(self, stage: StagePlan) -> float:
        """Seconds a row adds to one stage: as many turns of one replica's part as the cores make necessary."""
        return stage.work * math.ceil(stage.active / self.costs.cores) / stage.active

    @property
    def highest_rate(self) -> float:
        """The stability limit, in rows a second: from here on each batch is longer than the last."""
        return 1 / self.seconds_per_row if self.seconds_per_row > 0 else math.inf

    def length(self, rows: float) -> float:
        """Seconds that a batch of that many rows takes."""
        return self.overhead + rows * self.seconds_per_row

    def steady(self, rate: float) -> SteadyBatches:
        """What batches settle down to at a rate, in rows a second.

        Raises:
            BatchOverloadError: The rate reaches the stability limit.
        """
        utilization = rate * self.seconds_per_row
        if utilization >= 1:
            heaviest = max(self.stages, key=self._share)
            raise BatchOverloadError(rate, self.highest_rate, (heaviest.operator,))
        interval = max(self.costs.trigger, self.overhead / (1 - utilization))
        rows = rate * interval
        return SteadyBatches(self.length(rows), interval, rows, utilization)


def stage_work(network: Network, costs: BatchCosts) -> dict[str, float]:
    """Core-seconds each operator spends on a row that enters: visits over service rate.

    A measured `work_per_row` sets the sum, and the operators share it in proportion.
    """
    visits = network.visits
    work = {operator.name: visits[operator.name] / operator.service_rate for operator in network.operators}
    total = math.fsum(work.values())
    if costs.work_per_row is None or total == 0:
        return work
    return {name: share * costs.work_per_row / total for name, share in work.items()}


def batch_model(
    network: Network, costs: BatchCosts, active: Mapping[str, int], pools: Mapping[str, int] | None = None
) -> BatchModel:
    """The micro-batch query of a network; an operator without a pool has one of just its active replicas."""
    known = pools or {}
    stages = (
        StagePlan(name, work, active[name], max(known.get(name, 0), active[name]))
        for name, work in stage_work(network, costs).items()
    )
    return BatchModel(costs, tuple(stages))


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Replicas for each operator and what batches settle down to with them."""

    cores: int
    replicas: Mapping[str, int]
    model: BatchModel
    steady: SteadyBatches


def plan_batches(network: Network, costs: BatchCosts, pools: Mapping[str, int] | None = None) -> BatchPlan:
    """Choose the replicas that make the steady batch shortest.

    Where a pool is given its tasks are paid for anyway, so all that fit the cores are used; elsewhere the
    pool is chosen along with the replicas.

    Raises:
        IdleNetworkError: Nothing enters the network.
        BatchOverloadError: The cores cannot carry the rate, however many replicas there are.
    """
    if network.external_rate == 0:
        raise IdleNetworkError
    known = pools or {}
    most = {name: min(known.get(name, costs.cores), costs.cores) for name in network.names}
    plan = _plan(network, costs, most, known)
    while True:  # each round shortens the batch, and the number of plans is finite
        better = _plan(network, costs, _best_replicas(plan, known), known)
        if better.steady.length >= plan.steady.length:
            return plan
        plan = better


def min_cores(network: Network, costs: BatchCosts, latency: float, pools: Mapping[str, int] | None = None) -> BatchPlan:
    """The fewest cores with which the mean latency (arrival to commit) meets a bound, with replicas.

    Raises:
        LatencyOutOfReachError: No number of cores meets the bound; carries the best there is.
    """
    low = _keeping_up(network, costs, pools or {})
    best = plan_batches(network, replace(costs, cores=_MAX_CORES), pools)
    if low > _MAX_CORES or best.steady.mean_latency > latency:
        raise LatencyOutOfReachError(latency, best.steady.mean_latency)
    high = _MAX_CORES
    while low < high:
        middle = (low + high) // 2
        if plan_batches(network, replace(costs, cores=middle), pools).steady.mean_latency <= latency:
            high = middle
        else:
            low = middle + 1
    return plan_batches(network, replace(costs, cores=low), pools)


def _plan(network: Network, costs: BatchCosts, replicas: Mapping[str, int], pools: Mapping[str, int]) -> BatchPlan:
    model = batch_model(network, costs, replicas, pools)
    return BatchPlan(costs.cores, replicas, model, model.steady(network.external_rate))


def _best_replicas(plan: BatchPlan, pools: Mapping[str, int]) -> dict[str, int]:
    """The best replicas for batches of the size that the plan leads to."""
    return {
        stage.operator: stage.active
        if stage.operator in pools
        else _best_count(plan.steady.rows * stage.work, plan.model.costs)
        for stage in plan.model.stages
    }


def _best_count(work: float, costs: BatchCosts) -> int:
    """The r of 1..cores with the least task_cost * r + work / r."""
    if work >= costs.task_cost * costs.cores**2:
        return costs.cores
    guess = max(math.floor(math.sqrt(work / costs.task_cost)), 1)
    choices = (guess, min(guess + 1, costs.cores))
    return min(choices, key=lambda r: costs.task_cost * r + work / r)


def _keeping_up(network: Network, costs: BatchCosts, pools: Mapping[str, int]) -> int:
    """The fewest cores that carry the rate at all, whatever the latency."""
    work = stage_work(network, costs)

    def carries(cores: int) -> bool:
        shares = (w / min(pools.get(name, cores), cores) for name, w in work.items())
        return network.external_rate * math.fsum(shares) < 1

    low, high = 1, _MAX_CORES
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if carries(middle) else (middle + 1, high)
    return low
