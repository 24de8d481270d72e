"""How slow each worker is at what it was given, whatever that was.

Time for a tuple says little of a worker by itself: one that happened to get the tasks of a heavy bolt looks slow beside
one that got those of a light one. Slowness holds the time that a worker's tasks took against the time that the same
tuples take on average over all workers, operator by operator: 1 is usual, 3 is three times as long. Short times say
little, so both are raised by a fifth of a second: a task of 5 ms that once took 50 is no reason to suspect anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from foretide.metrics.batch import TaskRun
from foretide.metrics.metric import Sample

SLOWNESS = "worker_slowness"
"""Its name in the catalogue."""

_PRIOR_MS = 200.0


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
