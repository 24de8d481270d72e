"""What each stage of a query costs in a batch, learnt from the tasks of the last batches.

A task costs something whether it has rows or not: Spark plans, sends and reports it, and a stateful one loads and
commits its part of the state. The time between two tasks on a core, and how the time of tasks grows with their rows,
tell this fixed cost from the work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport, JoinBatch, TaskRun

WARM_UP_BATCHES = 3
MIN_BATCHES = 4
_MAX_BATCHES = 40
_SECOND_MS = 1000.0
_FEW = 3


@dataclass(frozen=True, slots=True)
class StageCost:
    """One stage, by the median over batches. Times are in seconds, those of several tasks together in core-seconds.

    Attributes:
        operator: What the stage does.
        tasks: Tasks that it has.
        cores: Tasks of it that run at the same time.
        span: From the first task's start to the last one's end.
        busy: Time of all tasks together.
        longest: The longest task.
        task_cost: What a task costs without rows.
        last_start: When the last task was started, after the stage was ready.
        largest_share: The share of the stage's rows that its largest task had.
        shuffled: Whether it reads an exchange of Spark's own, so that `spark.sql.shuffle.partitions` sets its tasks.
        routed: Whether it reads an edge.
        bytes: What it read from the exchange.
    """

    operator: str
    tasks: int
    cores: int
    span: float
    busy: float
    longest: float
    task_cost: float
    last_start: float = 0.0
    largest_share: float = 0.0
    shuffled: bool = False
    routed: bool = False
    bytes: float = 0.0

    @property
    def work(self) -> float:
        """Core-seconds that its rows take."""
        return max(0.0, self.busy - self.task_cost * self.tasks)

    @property
    def balanced(self) -> float:
        """Seconds it would take with the same tasks if all cores were busy to the end."""
        return max(self.busy / max(1, min(self.cores, self.tasks)), 0.0)

    def seconds(self, tasks: int) -> float:
        """Seconds it takes with so many tasks of equal size."""
        return (self.task_cost * tasks + self.work) / max(1, min(self.cores, tasks))


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """The last batches of a query. Durations are in seconds, the oldest first, and so are `rows`.

    Attributes:
        stages: What its stages cost.
        state_bytes: Memory of the state; None without state.
        gc: Core-seconds of garbage collection a batch.
        hot_keys: By `ft.join`, its most frequent key and the share of its side's rows; None where keys are not counted.
    """

    durations: tuple[float, ...]
    rows: tuple[int, ...]
    stages: tuple[StageCost, ...]
    state_bytes: int | None = None
    gc: float = 0.0
    hot_keys: Mapping[str, tuple[str, float] | None] = field(default_factory=dict)

    @property
    def duration(self) -> float:
        """The median batch."""
        return median(self.durations)


def measure(reports: Iterable[BatchReport], cores: int) -> MeasuredQuery | None:
    """Learn from the last batches; None while there are too few, or their tasks are not known in full."""
    usual = [each for each in reports if each.input_rows and each.batch >= WARM_UP_BATCHES][-_MAX_BATCHES:]
    timed = [each for each in usual if each.tasks and all(run.known == "all" for run in each.tasks)]
    if len(timed) < MIN_BATCHES:
        return None
    found: defaultdict[tuple[str, bool], list[StageCost]] = defaultdict(list)
    for report in timed:
        for (operator, shuffled), runs in _by_stage(report.tasks or ()).items():
            found[operator, shuffled].append(stage_cost(operator, runs, cores, shuffled=shuffled))
    last = usual[-1]
    return MeasuredQuery(
        tuple(each.duration for each in usual),
        tuple(each.input_rows for each in usual),
        tuple(_typical(costs) for costs in found.values() if 2 * len(costs) >= len(timed)),
        None if last.state is None else last.state.bytes,
        median(sum(run.gc_ms for run in each.tasks or ()) for each in timed) / _SECOND_MS,
        {name: _hot_key(join) for name, join in last.joins.items()},
    )


def _by_stage(runs: Iterable[TaskRun]) -> dict[tuple[str, bool], list[TaskRun]]:
    found: defaultdict[tuple[str, bool], list[TaskRun]] = defaultdict(list)
    for run in runs:
        if run.operator is not None and not run.failed and not run.passing:
            found[run.operator, run.shuffled].append(run)
    return found


def stage_cost(operator: str, runs: Sequence[TaskRun], cores: int, *, shuffled: bool) -> StageCost:
    """What the tasks of one stage in one batch tell."""
    took = np.array([run.run_ms + run.deserialize_ms for run in runs]) / _SECOND_MS
    starts = np.array([run.waited_ms for run in runs]) / _SECOND_MS
    rows = np.array([run.rows_in for run in runs], dtype=float)
    return StageCost(
        operator,
        len(runs),
        cores,
        float((starts + took).max() - starts.min()),
        float(took.sum()),
        float(took.max()),
        _without_rows(took, rows) + _between(took, starts, cores),
        float(starts.max()),
        float(rows.max() / rows.sum()) if rows.sum() else 0.0,
        shuffled,
        any(run.edge is not None for run in runs),
        float(sum(run.bytes_read for run in runs)),
    )


def _without_rows(took: np.ndarray, rows: np.ndarray) -> float:
    """What a task of no rows takes: of those without any, or by the line through all; 0 where that cannot be told."""
    empty = took[rows == 0]
    if len(empty) >= _FEW:
        return float(np.median(empty))
    if len(took) < _FEW or rows.std() == 0:
        return 0.0
    slope, start = np.polyfit(rows, took, 1)
    return float(np.clip(start if slope > 0 else took.mean(), 0.0, took.mean()))


def _between(took: np.ndarray, starts: np.ndarray, cores: int) -> float:
    """Seconds that a core is idle between two tasks, because the driver has to send the next one."""
    order = np.argsort(starts)
    started = len(took) - cores
    if started < cores:
        return 0.0
    turn = (starts.max() - starts.min()) * cores / started
    return max(0.0, float(turn - took[order][:started].mean()))


def _typical(costs: Sequence[StageCost]) -> StageCost:
    """The medians of several batches."""
    last = costs[-1]
    return StageCost(
        last.operator,
        last.tasks,
        last.cores,
        median(each.span for each in costs),
        median(each.busy for each in costs),
        median(each.longest for each in costs),
        median(each.task_cost for each in costs),
        median(each.last_start for each in costs),
        median(each.largest_share for each in costs),
        last.shuffled,
        last.routed,
        median(each.bytes for each in costs),
    )


def _hot_key(join: JoinBatch) -> tuple[str, float] | None:
    """The most frequent key of a join by name, and its share of the rows of its side."""
    sides = [side for side in (join.left, join.right) if side is not None and side.keys and side.rows]
    found = [
        (side.names[key], count / side.rows)
        for side in sides
        for key, count in (side.keys or {}).items()
        if key in side.names
    ]
    return max(found, key=lambda each: each[1], default=None)
