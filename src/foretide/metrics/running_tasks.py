"""Which worker holds up the batch that is under way, judged by its running tasks.

Tasks of one stage do the same work on different rows, so a task is compared with those of the same stage on other
workers: with what the rows that it has to work on take there, and with what whole tasks took there. A big task is
therefore not slow, and neither is anybody on a machine where all are slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import TypeVar

from foretide.metrics.batch import TaskRun
from foretide.metrics.metric import Sample

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

RUNNING_SLOWNESS, COPIED_TASKS = "worker_running_slowness", "worker_copied_tasks"
_PRIOR_SECONDS = 0.2
"""Added to both sides of a comparison: a task of 5 ms that takes 50 is no reason to suspect anybody."""

_HEARTBEATS = 2.0
"""Heartbeats that a running task must be old before the rows it has read can be compared with those of another one."""

_EVEN = 1.5
"""Tasks of a source have the same work if the biggest had at most this many times the rows of the smallest."""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One attempt of a task of a stage that has not ended: it runs, or has succeeded.

    Attributes:
        age: Seconds since it was started.
        seconds: Seconds that it has worked: without waiting for the blocks of other workers.
        rows: Rows that it has read; of a running task as of the last heartbeat of its worker.
        size: What it has to read in all, in any unit that is the same throughout the stage; None if nobody can tell.
    """

    stage: int
    task: int
    worker: str
    finished: bool
    age: float
    seconds: float
    rows: int
    size: float | None = None


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """The attempts of a batch under way, the usual seconds of a whole batch, and seconds between heartbeats."""

    attempts: tuple[TaskAttempt, ...]
    usual: float
    heartbeat: float

    def slowness(self) -> dict[str, float]:
        """How many times as long as on other workers the tasks of each worker take: 1 is usual, 3 is three times.

        The median over the tasks that run there, and those that began after the first of these and have ended: they
        show that the worker is well, and a task only has more work than others. Workers of which nothing runs, and
        whose running tasks cannot be compared yet, count as usual.
        """
        found: dict[str, float] = {}
        for attempts in _by(self.attempts, lambda each: each.stage).values():
            for worker, ratio in self._of_stage(attempts):
                found[worker] = max(ratio, found.get(worker, 0.0))
        return found

    def _of_stage(self, attempts: Sequence[TaskAttempt]) -> Iterator[tuple[str, float]]:
        workers = _by(attempts, lambda each: each.worker)
        for worker, mine in workers.items():
            others = [each for name, each in workers.items() if name != worker]
            oldest = max((each.age for each in mine if not each.finished), default=0.0)
            recent = [each for each in mine if not each.finished or each.age < oldest]
            ratios = [ratio for each in recent if (ratio := self._ratio(each, others)) is not None]
            yield worker, median(ratios) if ratios and oldest else 1.0

    def _ratio(self, attempt: TaskAttempt, others: Sequence[Sequence[TaskAttempt]]) -> float | None:
        """The time of an attempt over what it takes on others; None if there is nothing to compare it with."""
        done = [ended for each in others if (ended := [one for one in each if one.finished])]
        if not done:
            return self._ratio_by_rows(attempt, others)
        took = median(mean(one.seconds for one in each) for each in done)
        if attempt.size is not None:
            return _compared(attempt.seconds, max(took, _expected(attempt.size, done, lambda one: one.size)))
        stale = 0.0 if attempt.finished else self.heartbeat
        by_rows = _expected(attempt.rows, done, lambda one: one.rows)
        return _compared(attempt.seconds - stale, max(took, by_rows))

    def _ratio_by_rows(self, attempt: TaskAttempt, others: Sequence[Sequence[TaskAttempt]]) -> float | None:
        """While no other worker has ended a task of the stage: by the rows that they have read by now."""
        least = _HEARTBEATS * self.heartbeat
        reading = [old for each in others if (old := [one for one in each if one.seconds >= least and one.rows])]
        if not reading or attempt.seconds < least:
            return None
        by_rows = _expected(attempt.rows, reading, lambda one: one.rows)
        return _compared(attempt.seconds - self.heartbeat, max(self.usual, by_rows))

    def samples(self, at: float) -> list[Sample]:
        """The slowness of every worker with tasks in a stage under way."""
        return [Sample(RUNNING_SLOWNESS, worker, at, value) for worker, value in sorted(self.slowness().items())]


def even_sources(batches: Iterable[Sequence[TaskRun]], spouts: Iterable[str]) -> bool:
    """Whether all tasks of each spout had about the same rows in the last batches, so that it will be so again."""
    names = set(spouts)
    for runs in batches:
        reading = [run for run in runs if run.operator in names and run.edge is None and not run.failed]
        for tasks in _by(reading, lambda run: (run.operator, run.feeds)).values():
            rows = [run.rows_in for run in tasks]
            if max(rows) > _EVEN * min(rows):
                return False
    return True


def _expected(
    work: float, others: Sequence[Sequence[TaskAttempt]], amount: Callable[[TaskAttempt], float | None]
) -> float:
    """Seconds that an amount of work takes on other workers; 0 if they had none."""
    paces = []
    for attempts in others:
        done = sum(amount(each) or 0.0 for each in attempts)
        if done > 0:
            paces.append(sum(each.seconds for each in attempts) / done)
    return work * median(paces) if paces else 0.0


def _compared(seconds: float, expected: float) -> float:
    return (max(seconds, 0.0) + _PRIOR_SECONDS) / (expected + _PRIOR_SECONDS)


def _by(values: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for value in values:
        groups[key(value)].append(value)
    return dict(groups)
