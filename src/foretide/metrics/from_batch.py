"""A batch as samples: query, operators, edges, tasks and workers. What cannot be known gives no sample."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from foretide.metrics.batch import BatchReport, BoltTimes, EdgeFlow, TaskRun
from foretide.metrics.metric import Sample

_SECOND = 1000.0
_PHASES = {
    "batch_duration_ms": ("triggerExecution",),
    "add_batch_ms": ("addBatch",),
    "query_planning_ms": ("queryPlanning",),
    "latest_offset_ms": ("latestOffset",),
    "commit_ms": ("walCommit", "commitOffsets"),
}
SLOWNESS = "worker_slowness"
_PRIOR_MS = 200.0
_TIMED_TO_VARY = 2
"""Tuples that must have been timed before their variation can be told."""


@dataclass(frozen=True, slots=True)
class SpoutFigures:
    """What a source tells about a batch: rate and variation of arrivals, mean latency of its tuples in seconds.

    `partitions` has the mean latency and its 99th percentile by partition, for sources that have them.
    """

    arrival_rate: float | None = None
    arrival_scv: float | None = None
    mean_latency: float | None = None
    tuples: int = 0
    partitions: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What a report does not hold: time since the commit before, the spouts' figures, latency of all tuples.

    `sole_source` names the spout whose tuples, all of them and no others, a bolt gets: they share the arrivals.
    """

    interval: float
    query: str
    spouts: Mapping[str, SpoutFigures] = field(default_factory=dict)
    latency: Mapping[str, float] = field(default_factory=dict)
    sole_source: Mapping[str, str] = field(default_factory=dict)


def stream_samples(report: BatchReport, context: BatchContext) -> list[Sample]:
    """Everything that one batch showed."""
    samples = _BatchSamples(report, context)
    return [*samples.of_query(), *samples.of_operators(), *samples.of_edges(), *samples.of_tasks()]


@dataclass(frozen=True)
class _BatchSamples:
    report: BatchReport
    context: BatchContext

    def _sample(self, metric: str, subject: str, value: float | None) -> Iterator[Sample]:
        if value is not None:
            yield Sample(metric, subject, self.report.finished, float(value))

    # ---- the query

    def of_query(self) -> Iterator[Sample]:
        report, name = self.report, self.context.query
        for metric, value in self._query_figures().items():
            yield from self._sample(metric, name, value)
        for metric, phases in _PHASES.items():
            known = [report.phases[phase] for phase in phases if phase in report.phases]
            yield from self._sample(metric, name, sum(known) if known else None)
        for metric, seconds in self.context.latency.items():
            yield from self._sample(metric, name, _latency_ms(seconds))

    def _query_figures(self) -> dict[str, float | None]:
        report = self.report
        lags = [*(source.backlog for source in report.sources), *(lag.records for lag in report.lag.values())]
        rate = _over(report.input_rows, self.context.interval)
        state, failed = report.state, [task for task in report.tasks or () if task.failed]
        return {
            "batch": report.batch,
            "input_rows": report.input_rows,
            "input_rows_per_second": rate,
            "processed_rows_per_second": _over(report.input_rows, report.duration),
            "sustainable_rows_per_second": self._sustainable(rate),
            "total_lag": None if None in lags or not lags else sum(lag or 0 for lag in lags),
            "route_version": report.route_version,
            "retried_tasks": None if report.tasks is None else len(failed),
            "missed_batches": report.unreported + report.unaudited,
            "state_rows": state.rows if state else None,
            "state_bytes": state.bytes if state else None,
            "late_rows": state.late_rows if state else None,
            "watermark_delay_ms": None if report.watermark is None else (report.finished - report.watermark) * _SECOND,
        }

    def _sustainable(self, rate: float | None) -> float | None:
        """The rate at which the busiest replica would be busy all the time; a batch without input cannot tell it."""
        busy = [run.run_ms for run in _timed(self.report.tasks or ()) if run.rows_in and not run.failed]
        return _over(rate * self.context.interval * _SECOND, max(busy)) if rate and busy else None

    # ---- operators

    def of_operators(self) -> Iterator[Sample]:
        yield from self._retried()
        for operator, runs in self._by_operator().items():
            work = [run for run in runs if not run.passing]
            for metric, value in self._operator_figures(operator, work, runs).items():
                yield from self._sample(metric, operator, value)
        for spout, figures in self.context.spouts.items():
            yield from self._sample("arrival_rate", spout, figures.arrival_rate)
            if spout not in self.report.arrival_scv:
                yield from self._sample("arrival_scv", spout, figures.arrival_scv)
            yield from self._sample("complete_latency_ms", spout, _latency_ms(figures.mean_latency))
            for partition, (mean, p99) in figures.partitions.items():
                subject = f"{spout}/{partition}"
                yield from self._sample("partition_latency_mean_ms", subject, _latency_ms(mean))
                yield from self._sample("partition_latency_p99_ms", subject, _latency_ms(p99))
        yield from self._lags()

    def _lags(self) -> Iterator[Sample]:
        taken = [(source.spout, source.backlog, source.partition_lag) for source in self.report.sources]
        measured = [(spout, lag.records, lag.partitions) for spout, lag in self.report.lag.items()]
        for spout, lag, partitions in [*taken, *measured]:
            if spout is not None:
                yield from self._sample("lag", spout, lag)
                for partition, records in partitions.items():
                    yield from self._sample("partition_lag", f"{spout}/{partition}", records)

    def _retried(self) -> Iterator[Sample]:
        again: dict[str, int] = {}
        for run in self.report.tasks or ():
            if run.operator is not None and not run.passing:
                again[run.operator] = again.get(run.operator, 0) + (run.rows_in if run.failed else 0)
        for operator, tuples in again.items():
            yield from self._sample("retried", operator, tuples)

    def _by_operator(self) -> dict[str, list[TaskRun]]:
        found: dict[str, list[TaskRun]] = {}
        for run in self.report.tasks or ():
            if run.operator is not None and not run.failed:
                found.setdefault(run.operator, []).append(run)
        for bolt in self.report.python:
            found.setdefault(bolt, [])
        return found

    def _operator_figures(self, operator: str, work: list[TaskRun], runs: list[TaskRun]) -> dict[str, float | None]:
        timed = self.report.python.get(operator)
        return {
            **(self._work_figures(operator, work, runs) if work else {}),
            **_timed_figures(timed),
            "arrival_scv": self.report.arrival_scv.get(operator, self._shared_scv(operator)),
        }

    def _work_figures(self, operator: str, work: list[TaskRun], runs: list[TaskRun]) -> dict[str, float | None]:
        given = [run for run in work if run.rows_in]
        entering = [run for run in given if not run.later]
        processed, active = sum(run.rows_in for run in entering), len(entering)
        emitted = sum(run.rows_out for run in work if not run.inner)
        busy = sum(run.run_ms for run in given)
        spent = self.context.interval * _SECOND
        spout = self.context.spouts.get(operator)
        known = spout is not None and spout.arrival_rate is not None
        tuples: dict[str, float | None] = {
            "arrival_rate": None if known else _over(processed, self.context.interval),
            "processed": processed,
            "acked": processed,
            "active_tasks": active,
        }
        if not any(run.known == "entries" for run in work):
            tuples |= {"emitted": emitted, "selectivity": _over(emitted, processed)}
        if len(_timed(given)) < len(given):
            return tuples
        work_done = {
            "service_time_ms": _over(sum(run.service_ms for run in given), processed),
            "execute_latency_ms": _over(busy, processed),
            "utilization": _over(busy, spent * active),
            "capacity": _over(max(run.run_ms for run in work), spent),
            "busy_time_ms_per_second": _over(busy, self.context.interval * active),
            "true_processing_rate": _over(processed * active * _SECOND, busy),
        }
        if any(run.known != "all" for run in work):
            return {**tuples, **work_done}
        return {
            **tuples,
            **work_done,
            "inbound_waiting_ms": sum(run.waited_ms + run.fetch_wait_ms for run in work) / len(work),
            "outbound_sending_ms": sum(run.write_ms for run in runs) / len(work),
        }

    def _shared_scv(self, bolt: str) -> float | None:
        """The variation of a spout's arrivals, for a bolt that gets just these."""
        figures = self.context.spouts.get(self.context.sole_source.get(bolt, ""))
        return figures.arrival_scv if figures else None

    # ---- edges and tasks

    def of_edges(self) -> Iterator[Sample]:
        for edge, flow in (self.report.edges or {}).items():
            yield from self._sample("rows_written", edge, flow.written)
            yield from self._sample("rows_read", edge, flow.read)
            yield from self._sample("skew", edge, _skew(flow))
        for edge, tuples_there in self.report.in_flight.items():
            yield from self._sample("in_flight", edge, tuples_there)
        processed: dict[str, int] = {}
        sent: dict[tuple[str, str], int] = {}
        for run in self.report.tasks or ():
            if run.operator is None or run.failed:
                continue
            if not run.passing and not run.later:
                processed[run.operator] = processed.get(run.operator, 0) + run.rows_in
            if run.feeds is not None and not run.feeds.startswith(f"{run.operator}."):
                pair = (run.operator, run.feeds)
                sent[pair] = sent.get(pair, 0) + run.rows_out
        for (source, target), rows in sent.items():
            yield from self._sample("flow_fraction", f"{source}->{target}", _over(rows, processed.get(source, 0)))

    def of_tasks(self) -> Iterator[Sample]:
        for run in self.report.tasks or ():
            if run.operator is None or run.task is None or run.passing or run.failed or run.later:
                continue
            subject = f"{run.operator}/{run.task}"
            yield from self._sample("task_rows", subject, run.rows_in)
            if not run.timed:
                continue
            yield from self._sample("task_busy_ms", subject, run.run_ms)
            yield from self._sample("task_service_time_ms", subject, _over(run.service_ms, run.rows_in))


def _timed(runs: Iterable[TaskRun]) -> list[TaskRun]:
    """The tasks whose work was measured."""
    return [run for run in runs if run.timed]


def _timed_figures(timed: BoltTimes | None) -> dict[str, float | None]:
    """What a Python bolt measured of itself goes before what its tasks imply."""
    if timed is None or not timed.timed:
        return {} if timed is None else {"failed": timed.dead}
    mean = timed.seconds / timed.timed
    return {"service_time_ms": mean * _SECOND, "service_scv": service_scv(timed), "failed": timed.dead}


def service_scv(timed: BoltTimes) -> float | None:
    """Variance over squared mean of the times of single tuples; None when they were not timed one by one."""
    if timed.squares is None or timed.timed < _TIMED_TO_VARY:
        return None
    mean = timed.seconds / timed.timed
    variance = (timed.squares - timed.timed * mean * mean) / (timed.timed - 1)
    return _over(max(0.0, variance), mean * mean)


def _latency_ms(seconds: float | None) -> float | None:
    """A latency below 0 is none: whoever stamped the tuples has a clock that runs ahead."""
    return None if seconds is None or seconds < 0 else seconds * _SECOND


def _skew(flow: EdgeFlow) -> float | None:
    if flow.per_task is None:
        return None
    active = [rows for rows in flow.per_task if rows]
    return max(active) * len(active) / sum(active) if active else None


def _over(amount: float, by: float) -> float | None:
    """A quotient; not known when there is nothing to divide by, as after a clock that stood still or jumped back."""
    quotient = amount / by if by > 0 else math.inf
    return quotient if math.isfinite(quotient) else None


# ---- workers: the features of the paper's hook (Table I), Spark's own counters, and slowness


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
    timed = _timed(runs)
    worked = sum(run.rows_in for run in timed)
    in_real_time = {
        "worker_tuple_execution_time_ms": _over(sum(run.service_ms for run in runs if run.rows_in), worked),
        "worker_inbound_tuples_per_second": tuples / seconds,
        "worker_task_run_ms_per_second": sum(run.run_ms for run in timed) / seconds if timed else None,
    }
    if any(run.known != "all" for run in runs):
        return in_real_time
    return {
        **in_real_time,
        "worker_inbound_queuing_time_ms": _over(
            sum((run.waited_ms + run.fetch_wait_ms) * run.rows_in for run in runs), tuples
        ),
        "worker_outbound_batch_sending_time_ms": _over(sum(run.write_ms for run in sending), len(sending)),
        "worker_outbound_batches_per_second": len(sending) / seconds,
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


def slowness(runs: Iterable[TaskRun]) -> dict[str, float]:
    """The slowness of every worker whose tasks had tuples to work on: 1 is usual, 3 is three times as long.

    Time for a tuple says little about a worker: one that got the tasks of a heavy bolt would look slow. So the time
    that its tasks took is compared with what the same tuples take on average over all workers, operator by operator.
    Both are raised by a fifth of a second: a task of 5 ms that once took 50 is no reason to suspect anybody.
    """
    useful = [run for run in _timed(runs) if run.rows_in and not run.failed]
    return relative_times([(run.worker, run.operator, run.service_ms, run.rows_in) for run in useful])


def relative_times(tasks: Sequence[tuple[str, str | None, float, float]]) -> dict[str, float]:
    """Slowness from tasks: the worker, the operator, how long it took (ms), and how much it had to do.

    >>> relative_times([("1", "parse", 3000.0, 100), ("2", "parse", 1000.0, 100)])
    {'1': 1.4545454545454546, '2': 0.5454545454545454}
    """
    time: defaultdict[str | None, float] = defaultdict(float)
    amounts: defaultdict[str | None, float] = defaultdict(float)
    for _, operator, ms, amount in tasks:
        time[operator] += ms
        amounts[operator] += amount
    took: defaultdict[str, float] = defaultdict(float)
    usual: defaultdict[str, float] = defaultdict(float)
    for worker, operator, ms, amount in tasks:
        took[worker] += ms
        usual[worker] += amount * time[operator] / amounts[operator]
    return {worker: (took[worker] + _PRIOR_MS) / (usual[worker] + _PRIOR_MS) for worker in took}


def slowness_samples(runs: Iterable[TaskRun], at: float) -> list[Sample]:
    """The slowness of every worker in a batch that ended at a time."""
    return [Sample(SLOWNESS, worker, at, value) for worker, value in slowness(runs).items()]
