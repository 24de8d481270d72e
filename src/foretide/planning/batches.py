"""Replicas and cores for micro-batches, by the model of `foretide.queueing.batches`.

Operators do not compete for processors here, as each stage may use every core. What they compete with is their own
fixed cost, because every task of a pool costs time, busy or not. So the best number of replicas grows with the square
root of an operator's work, and idle times want fewer of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretide.errors import IdleNetworkError, LatencyOutOfReachError
from foretide.queueing.batches import BatchModel, StagePlan, SteadyBatches, batch_model, stage_work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.queueing.model import BatchCosts
    from foretide.queueing.network import Network

_MAX_CORES = 1 << 20
_TRY_ALL = 64
"""Replicas that are all tried; of more, those around the best one for even tasks."""


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
        stage.operator: stage.active if stage.operator in pools else _best_count(plan, stage)
        for stage in plan.model.stages
    }


def _best_count(plan: BatchPlan, stage: StagePlan) -> int:
    """The r of 1..cores with which a stage and the start of its tasks take least."""
    costs, rows = plan.model.costs, plan.steady.rows

    def seconds(active: int) -> float:
        return costs.task_cost * active + plan.model.stage_seconds(replace(stage, active=active), rows)

    return min(_choices(rows * stage.work, costs), key=seconds)


def _choices(work: float, costs: BatchCosts) -> list[int]:
    if costs.cores <= _TRY_ALL:
        return list(range(1, costs.cores + 1))
    even = math.sqrt(work / costs.task_cost) if costs.task_cost else costs.cores
    near = (even * 2 ** (step / 8) for step in range(-16, 17))
    return sorted({1, costs.cores, *(min(max(round(count), 1), costs.cores) for count in near)})


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
