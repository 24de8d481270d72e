"""Looks at the running tasks of a batch that is late, so that the control loop can act before the batch has ended.

While batches take their usual time, nothing is read from Spark: a look at the clock is all there is. Once a batch has
taken longer, the slowness of every worker by its running tasks is measured about every half second, and the loop gets a
cycle if somebody is slow. It decides as ever. The tasks that are stuck on a worker that was taken out are copied to
others, again at every look while the batch lasts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from foretide.metrics.metric import Sample
from foretide.metrics.running_tasks import COPIED_TASKS, RunningBatch, even_sources
from foretide.runtime.threads import Worker
from foretide.spark.running_tasks import RunningTasks, TasksUnavailableError, is_busy, may_copy_results, sink_of

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport
    from foretide.metrics.running_tasks import TaskAttempt
    from foretide.runtime.monitoring.monitor import Monitor
    from foretide.runtime.pipeline.follower import Follower
    from foretide.spark.executors import Executors

_CHECK_SECONDS = 0.2
_LATE = 1.5
"""A batch is late once it has taken this many times what a short one of the last batches took."""

_MIN_LATE_SECONDS = 0.3
_BATCHES = 10
_MIN_BATCHES = 3
_MAX_PAUSE_SECONDS = 1.0
_PAUSE = 0.5
"""Seconds between two looks for every second of a usual batch, within the two bounds above."""

_WORTH_A_CYCLE = 1.75
log = logging.getLogger("foretide")


class BatchWatch:
    """Watches the batches of one query in micro-batch mode. The constructor starts nothing."""

    def __init__(
        self,
        follower: Follower,
        executors: Executors,
        tasks: RunningTasks | None,
        monitor: Monitor,
    ) -> None:
        self._follower, self._executors, self._tasks, self._monitor = follower, executors, tasks, monitor
        self._wake: Callable[[], object] = lambda: None
        self._idle_at = self._next_look = 0.0
        self._worker = Worker("foretide-batch-watch", self._turn, _CHECK_SECONDS, what="a look at running tasks")

    @classmethod
    def of(cls, follower: Follower, executors: Executors, monitor: Monitor) -> BatchWatch:
        """A watch; where running tasks cannot be read, the limits of the executors say so, and nothing is watched."""
        tasks = None
        if executors.can_exclude and not follower.query.tasks_stay:
            try:
                tasks = RunningTasks.of_active()
            except TasksUnavailableError as error:
                executors.limits.append(f"{error}; a slow executor is taken out when the batch has ended")
        return cls(follower, executors, tasks, monitor)

    def start(self, wake: Callable[[], object]) -> None:
        """Start to watch; `wake()` is called when a worker is slow, after its samples were put."""
        self._wake = wake
        if self._tasks is not None:
            self._worker.start()

    def stop(self) -> None:
        """End the thread."""
        self._worker.stop()

    @property
    def problem(self) -> str | None:
        """What went wrong at the last look."""
        return self._worker.problem

    def copy_tasks(self, worker: str) -> None:
        """Start copies elsewhere of the tasks of the query that run on a worker that was taken out."""
        if self._tasks is None:
            return
        handle = self._follower.query.handle
        copied = self._executors.copy_tasks(worker, str(handle.runId), results=may_copy_results(sink_of(handle)))
        if copied:
            log.info("%s: %d running tasks of worker %s copied", self._follower.topology.name, copied, worker)
            self._monitor.put([Sample(COPIED_TASKS, worker, time.time(), float(copied))])

    # ---- the thread

    def _turn(self) -> None:
        now, reports = time.time(), list(self._follower.reports)[-_BATCHES:]
        working = [report for report in reports if report.input_rows]
        if len(working) < _MIN_BATCHES or now < self._next_look:
            return
        usual = sorted(report.duration for report in working)[len(working) // 4]  # the first batches take long
        patience = max(_LATE * usual, usual + _MIN_LATE_SECONDS)
        if now - reports[-1].finished < patience:
            return
        if not is_busy(self._follower.query.handle):
            self._idle_at = now
        elif now - max(reports[-1].finished, self._idle_at) >= patience:
            self._next_look = now + min(_PAUSE * usual, _MAX_PAUSE_SECONDS)
            self._monitor.hasten()
            self._look(working, usual)

    def _look(self, reports: list[BatchReport], usual: float) -> None:
        assert self._tasks is not None  # noqa: S101 - or the thread would not run
        spouts = [spout.id for spout in self._follower.query.topology.spouts]
        even = even_sources([report.tasks or () for report in reports], spouts)
        attempts = self._tasks.attempts(str(self._follower.query.handle.runId), even=even)
        for worker in sorted(self._executors.quarantined() & _running_on(attempts)):
            self.copy_tasks(worker)
        if self._executors.changed > reports[-1].finished - reports[-1].duration:
            return  # tasks were placed elsewhere than before, and load their state: times are not comparable
        samples = RunningBatch(attempts, usual, self._tasks.heartbeat).samples(time.time())
        self._monitor.put(samples)
        if any(sample.value >= _WORTH_A_CYCLE for sample in samples):
            self._wake()


def _running_on(attempts: tuple[TaskAttempt, ...]) -> frozenset[str]:
    return frozenset(attempt.worker for attempt in attempts if not attempt.finished)
