"""What the tasks of a running join cost: every batch whose tasks can be told apart teaches it.

Rows of a key are compared with all rows of it that the other side holds, or brings in the same batch. If a join holds h
times what a batch brings, a key with l and r rows in the batch makes about (2 h + 1) l r such pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.joins.plan import fill
from foretide.joins.task_costs import CostModel, JoinCost
from foretide.runtime.joins.key_windows import loads_of

if TYPE_CHECKING:
    from foretide.joins.plan import Home, JoinPlan
    from foretide.metrics.batch import BatchReport, JoinBatch, TaskRun

_AS_PLANNED = 0.25
_LEAST_BATCHES = 2


class JoinCosts:
    """Learns what tasks, rows and pairs of a join cost; `rows` are those that each partition took in last."""

    def __init__(self) -> None:
        self.rows: tuple[int, ...] | None = None
        self._model = CostModel()
        self._batches = 0
        self._state, self._meet = 0, 1.0

    def see(self, report: BatchReport, seen: JoinBatch | None, plan: JoinPlan, partitions: int, home: Home) -> None:
        """Take a batch in. Nothing is learnt from one whose rows are not yet, or no more, where the plan puts them."""
        held, self._state = self._state, report.state.rows if report.state is not None else 0
        tasks = _tasks(report, partitions)
        if tasks is None:
            return
        self.rows = tuple(task.rows_in for task in tasks)
        if seen is None or seen.left is None or seen.right is None or not sum(self.rows):
            return
        counts, taken = (seen.left.keys or {}, seen.right.keys or {}), (seen.left.rows, seen.right.rows)
        filling = fill(plan, *loads_of(*counts, taken, partitions), home)
        expected = [left + right for left, right in zip(filling.left, filling.right, strict=True)]
        if not _alike(self.rows, expected):
            return
        self._meet = 2 * held / sum(self.rows) + 1
        pairs = [self._meet * each for each in filling.pairs]
        self._model = self._model.learned(self.rows, pairs, [task.service_ms / 1000 for task in tasks])
        self._batches += 1

    def of_windows(self, batches: int) -> JoinCost | None:
        """What the tasks of a window of so many batches cost, by rows of the window; None before enough was seen.

        A window's pairs are products of its own rows: so many times those of a batch, squared, of which each batch
        compares its part.
        """
        if self._batches < _LEAST_BATCHES or not batches:
            return None
        cost = self._model.cost
        return JoinCost(cost.task * batches, cost.row, cost.pair * self._meet / batches)


def _tasks(report: BatchReport, partitions: int) -> list[TaskRun] | None:
    """The tasks of the join by partition, if one stage with so many of them reads Spark's own exchanges."""
    runs = [run for run in report.tasks or () if run.edge is None and run.task is not None and run.bytes_read]
    by_task = {run.task: run for run in runs if run.task is not None and not run.failed}
    return [by_task[task] for task in sorted(by_task)] if len(by_task) == partitions == len(runs) else None


def _alike(rows: tuple[int, ...], expected: list[float]) -> bool:
    """Whether rows are about where they were expected: the part that is elsewhere is small."""
    elsewhere = sum(abs(taken - wanted) for taken, wanted in zip(rows, expected, strict=True)) / 2
    return elsewhere <= _AS_PLANNED * sum(rows)
