"""The tasks of a batch: each is given to the operator and replica that it was.

A stage that unites several streams runs their tasks one stream after the other. So the tasks of a part stand in a row,
and together they read what the part's exchange counted. Where that leaves more than one answer, it is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Any

from foretide.metrics.batch import EdgeFlow, TaskRun
from foretide.spark.progress.plan_graph import Exchange, Scan, SparkStage
from foretide.topology.shape import SHARED, PlanShape


def read_task(task: Mapping[str, Any], submitted: float | None) -> TaskRun:
    """A task by itself, before its operator is known. `submitted` is when its stage was ready to run."""
    metrics = task.get("taskMetrics") or {}
    read, written = metrics.get("shuffleReadMetrics", {}), metrics.get("shuffleWriteMetrics", {})
    given, made = metrics.get("inputMetrics", {}), metrics.get("outputMetrics", {})
    waited = 0.0 if submitted is None else max(0.0, (seconds(task["launchTime"]) - submitted) * 1000)
    return TaskRun(
        operator=None,
        task=None,
        edge=None,
        feeds=None,
        passing=False,
        worker=task["executorId"],
        host=task["host"],
        waited_ms=waited,
        run_ms=metrics.get("executorRunTime", 0),
        cpu_ms=metrics.get("executorCpuTime", 0) / 1e6,
        deserialize_ms=metrics.get("executorDeserializeTime", 0),
        gc_ms=metrics.get("jvmGcTime", 0),
        fetch_wait_ms=read.get("fetchWaitTime", 0),
        write_ms=written.get("writeTime", 0) / 1e6,
        rows_in=read.get("recordsRead", 0) + given.get("recordsRead", 0),
        rows_out=written.get("recordsWritten", 0) + made.get("recordsWritten", 0),
        bytes_read=read.get("localBytesRead", 0) + read.get("remoteBytesRead", 0),
        bytes_written=written.get("bytesWritten", 0),
        spilled_bytes=metrics.get("diskBytesSpilled", 0),
        failed=task["status"] == "FAILED",
    )


def seconds(stamp: str) -> float:
    """Spark's way to write a time, in seconds since 1970.

    >>> seconds("1970-01-01T00:00:01.500GMT")
    1.5
    """
    return datetime.fromisoformat(stamp.replace("GMT", "+00:00")).timestamp()


def attribute(stages: Sequence[tuple[SparkStage, Sequence[TaskRun]]], shape: PlanShape) -> list[TaskRun]:
    """The tasks of all stages, in the order of their numbers, each with its operator as far as it can be told."""
    operators = _Operators([stage for stage, _ in stages], shape)
    return [run for stage, runs in stages for run in _of_stage(stage, runs, operators)]


def failed_attempts(
    done: Sequence[TaskRun], failed: Sequence[Mapping[int, TaskRun]], sizes: Sequence[int]
) -> Iterator[TaskRun]:
    """Attempts that failed, stage by stage, as what the attempts were that took their place, with their tuples."""
    begin = 0
    for attempts, size in zip(failed, sizes, strict=True):
        for number, attempt in attempts.items():
            other = done[begin + number] if number < size else attempt
            yield replace(attempt, operator=other.operator, task=other.task, edge=other.edge, rows_in=other.rows_in)
        begin += size


@dataclass(frozen=True)
class _Operators:
    """Who does the work behind what a stage reads."""

    stages: Sequence[SparkStage]
    shape: PlanShape

    def marks(self, stage: SparkStage, place: int) -> dict[str, Any]:
        """What the tasks of a part are: whose, from where, to where."""
        first, operator = stage.parts[place][0], self.of(stage, place)
        edge = first.edge if isinstance(first, Exchange) else None
        behind = self.shape.after(operator, stage.reader) if stage.own else None
        inside = stage.own and operator is not None and behind == operator
        own = isinstance(first, Exchange) and first.edge is None
        return {
            "operator": operator,
            "edge": edge,
            "feeds": stage.feeds or (None if inside else behind),
            "shuffled": own,
            "passing": edge is not None and edge.endswith(SHARED),
            "inner": inside,
            "later": own and operator is not None and isinstance(first, Exchange) and self._writer(first) == operator,
        }

    def of(self, stage: SparkStage, place: int) -> str | None:
        """The operator of the part at a place of a stage."""
        part = stage.parts[place]
        scans = [number for number, inputs in enumerate(stage.parts) if isinstance(inputs[0], Scan)]
        first = part[0]
        if isinstance(first, Scan):
            return self.shape.scan(stage.feeds, scans.index(place), len(scans))
        if first.edge is not None:
            return first.edge.removesuffix(SHARED)
        return self.shape.after(self._writer(first), first.reader)

    def _writer(self, exchange: Exchange) -> str | None:
        found = [
            operator
            for stage in self.stages
            if stage.id == exchange.written_by
            for place in range(len(stage.parts))
            if (operator := self.of(stage, place))
        ]
        return found[0] if found else None


def _of_stage(stage: SparkStage, runs: Sequence[TaskRun], operators: _Operators) -> Iterator[TaskRun]:
    where = dict(_places(stage, runs))
    marks = {place: operators.marks(stage, place) for place in where}
    for number, run in enumerate(runs):
        found = next(((place, begin) for place, (begin, end) in where.items() if begin <= number < end), None)
        if found is None:
            yield replace(run, feeds=stage.feeds)
            continue
        place, begin = found
        yield replace(run, task=number - begin, **marks[place])


def _places(stage: SparkStage, runs: Sequence[TaskRun]) -> Iterator[tuple[int, tuple[int, int]]]:
    """From which task to which each part of a stage goes, for those where that is certain."""
    sizes = [_size(part) for part in stage.parts]
    unknown = sizes.count(None)
    known = sum(size for size in sizes if size is not None)
    if unknown == 1 and known <= len(runs):
        sizes = [len(runs) - known if size is None else size for size in sizes]
    if None not in sizes and sum(size or 0 for size in sizes) == len(runs):
        yield from _in_a_row(stage, [size or 0 for size in sizes], runs)
    else:
        yield from _by_their_sums(stage, runs)


def _size(part: tuple[Exchange | Scan, ...]) -> int | None:
    return next((each.pool for each in part if isinstance(each, Exchange)), None)


def _in_a_row(stage: SparkStage, sizes: list[int], runs: Sequence[TaskRun]) -> Iterator[tuple[int, tuple[int, int]]]:
    begin, rows = 0, _rows_before(runs)
    for place, size in enumerate(sizes):
        if _agrees(stage.parts[place], rows[begin + size] - rows[begin]):
            yield place, (begin, begin + size)
        begin += size


def _by_their_sums(stage: SparkStage, runs: Sequence[TaskRun]) -> Iterator[tuple[int, tuple[int, int]]]:
    rows = _rows_before(runs)
    for place, part in enumerate(stage.parts):
        size = _size(part)
        if size is None:
            continue
        fitting = [at for at in range(len(runs) - size + 1) if _agrees(part, rows[at + size] - rows[at])]
        if len(fitting) == 1:
            yield place, (fitting[0], fitting[0] + size)


def _rows_before(runs: Sequence[TaskRun]) -> list[int]:
    """The rows that the tasks before each read, and at the end those of all."""
    return list(accumulate((run.rows_in for run in runs), initial=0))


def _agrees(part: tuple[Exchange | Scan, ...], rows: int) -> bool:
    """Whether so many rows are what the exchanges of a part counted; a scan, and a shared exchange, says nothing."""
    counted = [each.flow for each in part if isinstance(each, Exchange)]
    if len(counted) < len(part) or any(flow.readers > 1 for flow in counted):
        return True
    return rows == sum(flow.read for flow in counted)


def with_tasks(flow: EdgeFlow, edge: str, pool: int, runs: Sequence[TaskRun]) -> EdgeFlow:
    """An edge with rows and busy time of each of its tasks, where they are known."""
    mine = [run for run in runs if run.edge == edge and not run.passing and not run.failed]
    if len(mine) != pool:
        return replace(flow, per_task=(flow.read,)) if pool == 1 and flow.readers == 1 else flow
    return replace(flow, per_task=tuple(run.rows_in for run in mine), busy_ms=tuple(int(run.run_ms) for run in mine))
