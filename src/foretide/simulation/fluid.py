"""Rows of micro-batches as amounts: nothing is left to chance, and a batch costs the same however many rows it has."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import ModelError, Problem
from foretide.simulation.batches import Intake, StageRun, stage_order, work_scale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foretide.queueing.model import BatchCosts
    from foretide.queueing.network import Network
    from foretide.simulation.variation import Floats

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
