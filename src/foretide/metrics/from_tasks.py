"""What a worker's tasks tell about it: the features of the paper's hook (Table I), Spark's own counters, and slowness.

Time for a tuple says little about a worker by itself: one that happened to get the tasks of a heavy bolt looks slow
beside one that got those of a light one. Slowness compares the time that a worker's tasks took with the time that the
same tuples take on average over all workers, operator by operator: 1 is usual, 3 is three times as long. Short times
say little, so both are raised by a fifth of a second: a task of 5 ms that once took 50 is no reason to suspect anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from foretide.metrics.batch import TaskRun
from foretide.metrics.metric import Sample

SLOWNESS = "worker_slowness"
_PRIOR_MS = 200.0


def worker_samples(runs: Iterable[TaskRun], seconds: float, at: float) -> list[Sample]:
    """Samples for every worker that ran tasks in the last `seconds`, as of `at`."""
    by_worker: dict[str, list[TaskRun]] = {}
    for run in runs:
        by_worker.setdefault(run.worker, []).append(run)
    if seconds <= 0:
        return []
    return [
        Sample(metric, worker, at, value)
        for worker, mine in by_worker.items()
        for metric, value in _figures(mine, seconds).items()
        if value is not None
    ]


def _figures(runs: Sequence[TaskRun], seconds: float) -> dict[str, float | None]:
    """A worker's figures. What Storm calls an outbound batch is the output that one task leaves for the next stage."""
    tuples = sum(run.rows_in for run in runs)
    sending = [run for run in runs if run.bytes_written]
    return {
        "worker_tuple_execution_time_ms": _mean(sum(run.service_ms for run in runs if run.rows_in), tuples),
        "worker_inbound_tuples_per_second": tuples / seconds,
        "worker_inbound_queuing_time_ms": _mean(
            sum((run.waited_ms + run.fetch_wait_ms) * run.rows_in for run in runs), tuples
        ),
        "worker_outbound_batch_sending_time_ms": _mean(sum(run.write_ms for run in sending), len(sending)),
        "worker_outbound_batches_per_second": len(sending) / seconds,
        "worker_task_run_ms_per_second": sum(run.run_ms for run in runs) / seconds,
        "worker_task_cpu_ms_per_second": sum(run.cpu_ms for run in runs) / seconds,
        "worker_task_deserialize_ms_per_second": sum(run.deserialize_ms for run in runs) / seconds,
        "worker_task_gc_ms_per_second": sum(run.gc_ms for run in runs) / seconds,
        "worker_fetch_wait_ms_per_second": sum(run.fetch_wait_ms for run in runs) / seconds,
        "worker_shuffle_read_bytes_per_second": sum(run.bytes_read for run in runs) / seconds,
        "worker_shuffle_write_bytes_per_second": sum(run.bytes_written for run in runs) / seconds,
        "worker_shuffle_write_ms_per_second": sum(run.write_ms for run in runs) / seconds,
        "worker_spilled_bytes_per_second": sum(run.spilled_bytes for run in runs) / seconds,
        "worker_tasks_per_second": len(runs) / seconds,
        "worker_failed_tasks_per_second": sum(1 for run in runs if run.failed) / seconds,
    }


def _mean(amount: float, count: int) -> float | None:
    """A mean; None without anything to take it over."""
    return amount / count if count else None


def slowness(runs: Iterable[TaskRun]) -> dict[str, float]:
    """The slowness of every worker whose tasks had tuples to work on."""
    useful = [run for run in runs if run.rows_in and not run.failed]
    time: defaultdict[str | None, float] = defaultdict(float)
    rows: defaultdict[str | None, int] = defaultdict(int)
    for run in useful:
        time[run.operator] += run.service_ms
        rows[run.operator] += run.rows_in
    took: defaultdict[str, float] = defaultdict(float)
    usual: defaultdict[str, float] = defaultdict(float)
    for run in useful:
        took[run.worker] += run.service_ms
        usual[run.worker] += run.rows_in * time[run.operator] / rows[run.operator]
    return {worker: (took[worker] + _PRIOR_MS) / (usual[worker] + _PRIOR_MS) for worker in took}


def slowness_samples(runs: Iterable[TaskRun], at: float) -> list[Sample]:
    """The slowness of every worker in a batch that ended at a time."""
    return [Sample(SLOWNESS, worker, at, value) for worker, value in slowness(runs).items()]
