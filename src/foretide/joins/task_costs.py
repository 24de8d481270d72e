"""What the tasks of a join cost, learnt from those that ran: by the rows they take in and the pairs they compare.

Aj-Stream's load |R| x dS (eq 1) counts pairs of rows whatever their keys are. Spark compares rows of one key only, and
each row costs something by itself, each copy as well. So balance by eq 1 is not yet balance of time, and a plan may
cost more in copies than it saves. Both can be judged once it is known what a row and a pair cost on this machine, for
this join: by the times that its tasks took.

Rows of a key are compared with all rows of it that the other side holds, or brings in the same batch. If a join holds h
times what a batch brings, a key with l and r rows in the batch makes about (2 h + 1) l r such pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from foretide.joins.plan import DefaultPartition, JoinCost, JoinerFigures, JoinPlan, fill, loads_of
from foretide.metrics.batch import BatchReport, JoinBatch, TaskRun

_DECAY = 0.8
_NOISE = 0.2
_PRIOR = (0.03, 25e-6, 0.2e-6)
_PRIOR_ERROR = (10.0, 0.3, 100.0)
"""Costs that were usual elsewhere (task, row, pair), and by what share they may be wrong. Rows and pairs can hardly be
distinguished before hot keys are split, so the cost of rows follows most slowly."""

_MAX_MISPLACED = 0.25
_MIN_BATCHES = 2


@dataclass(frozen=True, slots=True)
class CostModel:
    """A linear model of tasks that follows what they took, older ones counting ever less.

    `weights` and `moments` are a Bayesian regression's precision and precision-weighted mean. It begins with a prior
    that wears off with the first tasks that contradict it.
    """

    weights: tuple[tuple[float, ...], ...] = tuple(
        tuple((_PRIOR[row] * _PRIOR_ERROR[row]) ** -2 if row == column else 0.0 for column in range(3))
        for row in range(3)
    )
    moments: tuple[float, ...] = tuple(1 / (_PRIOR[place] * _PRIOR_ERROR[place] ** 2) for place in range(3))

    def learned(self, rows: Sequence[float], pairs: Sequence[float], seconds: Sequence[float]) -> CostModel:
        """The model with the tasks of one more batch."""
        tasks = np.column_stack([np.ones(len(rows)), rows, pairs])
        took = np.asarray(seconds, float)
        precision = 1 / max(_NOISE * float(took.mean()), 1e-6) ** 2
        prior = CostModel()
        weights = _decayed(self.weights, prior.weights) + precision * tasks.T @ tasks
        moments = _decayed(self.moments, prior.moments) + precision * tasks.T @ took
        return CostModel(tuple(map(tuple, weights.tolist())), tuple(moments.tolist()))

    @property
    def cost(self) -> JoinCost:
        """The most likely cost of which no part is below 0."""
        weights, moments = np.array(self.weights), np.array(self.moments)
        unit = 1 / np.sqrt(np.diag(weights))  # rows, pairs and tasks differ by many powers of ten
        scaled, moments = weights * np.outer(unit, unit), moments * unit
        kept = [0, 1, 2]
        while kept:
            found = np.linalg.lstsq(scaled[np.ix_(kept, kept)], moments[kept])[0] * unit[kept]
            if (found >= 0).all():
                break
            kept.pop(int((found / unit[kept]).argmin()))
        full = dict(zip(kept, found.tolist(), strict=True)) if kept else {}
        return JoinCost(*(full.get(place, 0.0) for place in range(3)))


def _decayed(values: object, prior: object) -> np.ndarray:
    """What was learnt, decayed a little towards the prior."""
    return _DECAY * np.array(values) + (1 - _DECAY) * np.array(prior)


@dataclass(frozen=True, slots=True)
class TaskCosts:
    """What was learnt of a running join's tasks so far.

    Attributes:
        rows: Rows that each partition took in last, where tasks could be told apart.
        model: The costs, by rows and pairs of a batch.
        batches: Batches that the model learnt from.
        state_rows: Rows that the join held after the last batch.
        pairs_per_product: Pairs that the last batch compared for each product l r of a key's rows in it.
        joiners: What the tasks of the last batch showed, by executor.
    """

    rows: tuple[int, ...] | None = None
    model: CostModel = CostModel()
    batches: int = 0
    state_rows: int = 0
    pairs_per_product: float = 1.0
    joiners: Mapping[str, JoinerFigures] = field(default_factory=dict)

    def learned(
        self,
        report: BatchReport,
        batch: JoinBatch | None,
        plan: JoinPlan,
        partitions: int,
        default_partition: DefaultPartition,
    ) -> TaskCosts:
        """With one more batch; one whose rows are not yet, or no more, where the plan puts them teaches nothing."""
        held, state_rows = self.state_rows, 0 if report.state is None else report.state.join_rows or report.state.rows
        tasks = _tasks(report, partitions)
        if tasks is None:
            return replace(self, state_rows=state_rows)
        rows = tuple(task.rows_in for task in tasks)
        seen = replace(self, rows=rows, state_rows=state_rows, joiners=_joiners(tasks, report.duration) or self.joiners)
        if batch is None or batch.left is None or batch.right is None or not sum(rows):
            return seen
        counts, totals = (batch.left.keys or {}, batch.right.keys or {}), (batch.left.rows, batch.right.rows)
        expected = fill(plan, *loads_of(*counts, totals, partitions), default_partition)
        if not _as_expected(rows, expected.partition_rows()):
            return seen
        factor = 2 * held / sum(rows) + 1
        seconds = [task.service_ms / 1000 for task in tasks]
        model = self.model.learned(rows, [factor * pairs for pairs in expected.pairs], seconds)
        return replace(seen, model=model, batches=self.batches + 1, pairs_per_product=factor)

    def of_window(self, batches: int) -> JoinCost | None:
        """What the tasks of a window of some batches cost, by rows of the window; None before enough was seen.

        Pairs of a window are products of its own rows, which grow with the square of its batches; each batch compares
        its part of them.
        """
        if self.batches < _MIN_BATCHES or not batches:
            return None
        cost = self.model.cost
        return JoinCost(cost.task * batches, cost.row, cost.pair * self.pairs_per_product / batches)


def _tasks(report: BatchReport, partitions: int) -> list[TaskRun] | None:
    """The tasks of the join by partition, if one stage with a task for each reads Spark's own exchanges."""
    runs = [run for run in report.tasks or () if run.edge is None and run.task is not None and run.bytes_read]
    by_task = {run.task: run for run in runs if run.task is not None and not run.failed}
    return [by_task[task] for task in sorted(by_task)] if len(by_task) == partitions == len(runs) else None


def _joiners(tasks: Sequence[TaskRun], seconds: float) -> dict[str, JoinerFigures]:
    """Rows of each executor, and the mean time from when a task could have begun until a row of it was processed."""
    found: dict[str, JoinerFigures] = {}
    for worker in {task.worker for task in tasks}:
        own = [task for task in tasks if task.worker == worker]
        rows = sum(task.rows_in for task in own)
        waited = sum((task.waited_ms + task.fetch_wait_ms) * task.rows_in + task.service_ms for task in own)
        if rows and seconds > 0:
            found[worker] = JoinerFigures(rows, waited / rows / 1000, seconds)
    return found


def _as_expected(rows: tuple[int, ...], expected: list[float]) -> bool:
    """Whether rows are about where they were expected: the part that is elsewhere is small."""
    misplaced = sum(abs(taken - wanted) for taken, wanted in zip(rows, expected, strict=True)) / 2
    return misplaced <= _MAX_MISPLACED * sum(rows)
