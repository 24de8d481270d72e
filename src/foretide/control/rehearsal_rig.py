"""The test stand of a rehearsal: a micro-batch query in numbers, and the load that it gets. Values only."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from foretide.control.world.setup import OperatorSetup, Setup
from foretide.errors import ControlError
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Network


@dataclass(frozen=True, slots=True)
class Hog:
    """Something that makes a worker take `factor` times as long for everything from `start` to `end` (seconds)."""

    worker: str
    factor: float
    start: float = 0.0
    end: float = math.inf


@dataclass(frozen=True)
class Rig:
    """A query on a cluster.

    Attributes:
        network: Operators and flows. Those with arrivals from outside are spouts and cannot be steered; how much
            arrives is the load's business, only the shares between spouts are taken from here.
        pools: Tasks behind each operator.
        replicas: Active replicas at the start; those not named start with their whole pool.
        costs: What a batch costs. `cores` is not looked at: executors bring them.
        executors: At the start.
        cores_per_executor: Tasks that each runs at the same time.
        hosts: Machines that executors are spread over.
        range: Least and most executors; None if their number cannot be changed.
        hogs: Workers that are slow for a while.
        executor_delay: Seconds until an executor that was asked for is there.
        restart_seconds: Seconds that a restart takes.
        name: Of the query.
    """

    network: Network
    pools: Mapping[str, int]
    replicas: Mapping[str, int] = field(default_factory=dict)
    costs: BatchCosts = field(default_factory=lambda: BatchCosts(1, fixed_cost=0.2, task_cost=0.001))
    executors: int = 4
    cores_per_executor: int = 4
    hosts: int = 2
    range: tuple[int, int] | None = None
    hogs: tuple[Hog, ...] = ()
    executor_delay: float = 20.0
    restart_seconds: float = 30.0
    name: str = "rehearsal"

    def __post_init__(self) -> None:
        if not any(self.network.external.values()):
            raise ControlError("a rehearsal needs an operator that rows enter at: give the network arrivals")
        least = min(self.executors, self.cores_per_executor, self.hosts, *self.pools.values())
        if least < 1 or set(self.pools) != set(self.network.names):
            raise ControlError("a rehearsal needs a pool of 1 or more for each operator, executors, cores and hosts")

    @cached_property
    def spouts(self) -> tuple[str, ...]:
        """Operators that rows enter at."""
        return tuple(name for name in self.network.names if self.network.external.get(name, 0.0) > 0)

    @cached_property
    def steered(self) -> tuple[str, ...]:
        """Operators whose replicas can be changed."""
        return tuple(name for name in self.network.names if name not in self.spouts)

    @cached_property
    def visits(self) -> dict[str, float]:
        """Tuples that each operator handles for a row that enters anywhere."""
        return self.network.visits

    @cached_property
    def work(self) -> dict[str, float]:
        """Seconds of work that a row entering anywhere brings to each operator."""
        return {part.name: self.visits[part.name] / part.service_rate for part in self.network.operators}

    def setup(self) -> Setup:
        """What a control loop is told of it."""
        parts = tuple(
            OperatorSetup(name, self.pools[name], None if name in self.spouts else name, name in self.spouts)
            for name in self.network.names
        )
        flows = tuple((flow.source, flow.target) for flow in self.network.flows)
        return Setup(
            self.name,
            parts,
            flows,
            cores_per_executor=self.cores_per_executor,
            executors=self.range,
            trigger=self.costs.trigger,
            can_admit=frozenset(self.spouts),
        )


class Load:
    """Rows that fall due: so many a second in each step of equal length, evenly within it."""

    def __init__(self, rates: Sequence[float], step: float = 1.0) -> None:
        if not rates or step <= 0 or min(rates) < 0 or not math.isfinite(math.fsum(rates)):
            raise ControlError("a load needs rates of 0 or more for steps longer than 0")
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
        """The first moment at which so many rows are due."""
        return self._moment(row, max(bisect_left(self._before, row), 1) - 1)

    def after(self, row: float) -> float:
        """The last moment at which no more than so many rows are due: when the next one begins to come."""
        return self._moment(row, min(bisect_right(self._before, row), len(self.rates)) - 1)

    def _moment(self, row: float, index: int) -> float:
        rate = self.rates[index]
        within = (row - self._before[index]) / rate if rate > 0 else 0.0
        return index * self.step + min(within, self.step)

    def mean(self, start: float, end: float) -> float:
        """Rows a second between two times."""
        return (self.due(end) - self.due(start)) / (end - start)
