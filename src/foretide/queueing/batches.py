"""Spark's default mode as it is: batches one after another, not a pipeline of queues.

A batch reads what arrived while the one before it ran, works through the operators stage by stage with all cores, and
commits. Its length is a fixed cost, plus a cost for each task of every POOL (empty tasks are started too), plus, for
each stage, its LONGEST task: rows differ in their work and are not split evenly, so the longest of many tasks takes
more than its share. The steady length is where a batch takes just as long as the rows it brings took to arrive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import BatchOverloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from foretide.queueing.model import BatchCosts
    from foretide.queueing.network import Network

_NODES = 32
_CLOSE = 1e-9
_MAX_STEPS = 200


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One operator's part of a batch.

    Attributes:
        work: Core-seconds it spends on each row that enters the network.
        active: Replicas that share the rows.
        pool: Tasks started in all, `active` or more.
        visits: Rows it gets for each one that enters.
        scv: Squared variation coefficient of a task's work, for each of its rows: that of the service times, and 1 more
            if rows are split by a hash, as Spark does. 0 if all tasks are alike.
        task_seconds: Seconds that each active task takes whatever its rows, such as a Python worker's start.
    """

    operator: str
    work: float
    active: int
    pool: int
    visits: float = 1.0
    scv: float = 0.0
    task_seconds: float = 0.0

    def longest_task(self, rows: float) -> tuple[float, float]:
        """Expected seconds of its longest task in a batch of that many entering rows, and their variance."""
        mean = rows * self.work / self.active
        own = rows * self.visits / self.active
        if not self.scv or self.active == 1 or not mean or not own:
            return self.task_seconds + mean, mean * mean * self.scv / own if own else 0.0
        longest, variance = longest_of(self.active, mean, self.scv / own)
        return self.task_seconds + longest, variance


def longest_of(count: int, mean: float, scv: float) -> tuple[float, float]:
    """Mean and variance of the largest of `count` gamma variables with a mean and a squared variation coefficient.

    >>> [round(value, 2) for value in longest_of(8, 10.0, 0.01)]  # nearly normal: 10 + 1.42 deviations of 1
    [11.47, 0.43]
    """
    spread = scv / 9
    values = mean * np.maximum(1 - spread + np.sqrt(spread) * _largest_normals(count), 0.0) ** 3
    return max(mean, float(values.mean())), float(values.var())


@lru_cache(maxsize=1024)
def _largest_normals(count: int) -> NDArray[np.float64]:
    """The largest of `count` standard normals at evenly spaced probabilities (Wilson and Hilferty's cube root)."""
    normal = NormalDist()
    levels = [((place + 0.5) / _NODES) ** (1 / count) for place in range(_NODES)]
    return np.array([normal.inv_cdf(min(level, 1 - 1e-15)) for level in levels])


@dataclass(frozen=True, slots=True)
class SteadyBatches:
    """What batches settle down to.

    Attributes:
        length: Seconds from a batch's start to its commit.
        interval: Seconds between the starts of two batches: the length, or the trigger if that is longer.
        rows: Rows in a batch.
        utilization: Share of the stability limit that arrives; at 1 the length has no end.
        scv: Squared variation coefficient of the interval, from batch to batch.
    """

    length: float
    interval: float
    rows: float
    utilization: float
    scv: float = 0.0

    @property
    def mean_latency(self) -> float:
        """Seconds from a row's arrival to its commit, on average: half an interval and a batch.

        More rows arrive in long intervals than in short ones, and the batch that follows a long one is long.
        """
        return self.interval * (1 + self.scv) / 2 + self.length * (1 + self.scv * self.utilization)

    def latency(self, quantile: float) -> float:
        """The latency that this share of rows does not exceed, arriving evenly over the interval."""
        return quantile * self.interval + self.length


@dataclass(frozen=True)
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

    @cached_property
    def seconds_per_row(self) -> float:
        """Seconds each row adds to a large batch. Replicas beyond the cores take turns: 6 on 4 cores need two."""
        return self.costs.row_cost + math.fsum(map(self._share, self.stages))

    def _turns(self, stage: StagePlan) -> int:
        return math.ceil(stage.active / self.costs.cores)

    def _share(self, stage: StagePlan) -> float:
        """Seconds a row adds to one stage: as many turns of one replica's part as the cores make necessary."""
        return stage.work * self._turns(stage) / stage.active

    @property
    def highest_rate(self) -> float:
        """The stability limit, in rows a second: from here on each batch is longer than the last."""
        return 1 / self.seconds_per_row if self.seconds_per_row > 0 else math.inf

    def stage_seconds(self, stage: StagePlan, rows: float) -> float:
        """Seconds that a stage takes: its longest task, or as many turns as the cores make necessary.

        Where tasks take turns a free core takes the next one, which evens them out.
        """
        turns, even = self._turns(stage), stage.task_seconds + rows * stage.work / stage.active
        longest, _ = stage.longest_task(rows)
        return turns * even + (longest - even) / turns

    def length(self, rows: float) -> float:
        """Expected seconds of a batch of that many rows."""
        stages = math.fsum(self.stage_seconds(stage, rows) for stage in self.stages)
        return self.overhead + self.costs.row_cost * rows + stages

    def rows_within(self, seconds: float) -> float:
        """The most rows that a batch of that length can have; 0 if it takes longer without any."""
        if self.length(0.0) >= seconds or not self.seconds_per_row:
            return 0.0 if self.length(0.0) >= seconds else math.inf
        high = (seconds - self.length(0.0)) / self.seconds_per_row
        return _root(lambda rows: seconds - self.length(rows), 0.0, high)

    def steady(self, rate: float) -> SteadyBatches:
        """What batches settle down to at a rate, in rows a second.

        Raises:
            BatchOverloadError: The rate reaches the stability limit.
        """
        utilization = rate * self.seconds_per_row
        if utilization >= 1:
            heaviest = max(self.stages, key=self._share)
            raise BatchOverloadError(rate, self.highest_rate, (heaviest.operator,))
        rows = self._steady_rows(rate, utilization)
        length = self.length(rows)
        interval = max(self.costs.trigger, length)
        variance = sum(stage.longest_task(rows)[1] for stage in self.stages) if length >= self.costs.trigger else 0.0
        scv = variance / (interval * interval * (1 - utilization * utilization)) if interval > 0 else 0.0
        return SteadyBatches(length, interval, rows, utilization, scv)

    def _steady_rows(self, rate: float, utilization: float) -> float:
        """The rows of a batch that takes as long as they took to arrive."""
        even = max(self.costs.trigger, self.length(0.0) / (1 - utilization)) * rate
        if not any(stage.scv for stage in self.stages):
            return even

        def missing(rows: float) -> float:
            return rate * max(self.costs.trigger, self.length(rows)) - rows

        high = even
        while missing(high) > 0:
            high *= 2
        return _root(missing, even if missing(even) > 0 else 0.0, high)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function passes 0, between a place where it is at least 0 and one where it is at most 0."""
    for _ in range(_MAX_STEPS):
        middle = (low + high) / 2
        if high - low <= _CLOSE * high:
            break
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


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
    known, visits = pools or {}, network.visits
    stages = (
        StagePlan(
            name,
            work,
            active[name],
            max(known.get(name, 0), active[name]),
            visits[name],
            network.operator(name).service_scv,
        )
        for name, work in stage_work(network, costs).items()
    )
    return BatchModel(costs, tuple(stages))
