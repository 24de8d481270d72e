"""What went over each edge in a batch and what each task did, from Spark's REST interface: free in the data path.

Each task is given to the operator and replica that it was. A stage that unites several streams runs their tasks one
stream after the other. So the tasks of a part stand in a row, and together they read what the part's exchange counted.
Where that leaves more than one answer, it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from foretide.metrics.batch import EdgeFlow, TaskRun
from foretide.spark.progress.plan_graph import Exchange, PlanGraph, Scan, SparkStage, StageId
from foretide.topology.shape import SHARED, PlanShape

if TYPE_CHECKING:
    from foretide.spark.rest import SparkRest


_BATCH = re.compile(r"runId = (\S+)\s+batch = (\d+)")


@dataclass(frozen=True)
class Flows:
    """What went over each edge in a batch, and its tasks; None when Spark did not count them."""

    edges: Mapping[str, EdgeFlow] | None
    retried: bool = False
    tasks: tuple[TaskRun, ...] | None = None


@dataclass
class _Seen:
    """What the executions of one batch have shown so far. Spark runs a batch as one execution inside another."""

    worked: Mapping[str, Any] | None = None
    jobs: list[int] = field(default_factory=list)
    complete: bool = False


class Executions:
    """Walks the executions of one run of a query in the order of their ids, each once."""

    def __init__(self, rest: SparkRest, run_id: str, shape: PlanShape | None = None) -> None:
        self._rest = rest
        self._run_id = run_id
        self._shape = shape or PlanShape()
        self._next: int | None = None
        self._seen: dict[int, _Seen] = {}

    def flows(self, batch: int, *, per_task: bool = True) -> Flows | None:
        """What went over each edge in a batch; None when it is not to be had yet."""
        self._walk()
        seen = self._seen.get(batch, _Seen())
        if not seen.complete:
            return None
        self._seen = {number: later for number, later in self._seen.items() if number > batch}
        if seen.worked is None:  # the batch ran, but Spark counted nothing of it
            return Flows(None)
        numbers = self._stages_of(max(seen.jobs)) if per_task else []
        graph = PlanGraph(seen.worked["nodes"], seen.worked["edges"], numbers)
        tasks = tuple(self._tasks(graph, numbers)) if per_task else None
        edges = {each.edge: each for each in graph.exchanges.values() if each.edge is not None}
        if tasks is None:
            flows = {name: each.flow for name, each in edges.items()}
        else:
            flows = {name: with_tasks(each.flow, name, each.pool, tasks) for name, each in edges.items()}
        differ = any(flow.read != flow.written * flow.readers for flow in flows.values())
        return Flows(flows or None, differ and self._was_retried(seen), tasks)

    def _walk(self) -> None:
        """Look at every execution that is there, up to one of ours that still runs."""
        if self._next is None:
            self._next = self._first()
        while execution := self._rest.get(f"sql/{self._next}?details=true&planDescription=false"):
            batch = self._batch_of(execution)
            if batch is not None:
                if execution["status"] == "RUNNING":
                    break
                self._note(self._seen.setdefault(batch, _Seen()), execution)
            self._next += 1

    def _note(self, seen: _Seen, execution: dict[str, Any]) -> None:
        """An outer execution ends after the inner one that did the work, so once it has ended the batch is complete."""
        jobs = execution.get("successJobIds") or []
        seen.jobs += jobs
        if jobs:
            seen.worked = execution
        seen.complete |= execution["id"] == execution["rootExecutionId"]

    def _first(self) -> int:
        """The id to begin with: the oldest execution of this run that Spark still has."""
        listed = self._rest.get("sql?details=false&planDescription=false&offset=0&length=100000") or []
        ours = [entry["id"] for entry in listed if self._run_id in entry["description"]]
        return min(ours, default=max((entry["id"] for entry in listed), default=-1) + 1)

    def _batch_of(self, execution: dict[str, Any]) -> int | None:
        found = _BATCH.search(execution["description"])
        return int(found.group(2)) if found and found.group(1) == self._run_id else None

    # ---- tasks

    def _stages_of(self, job: int) -> list[int]:
        return (self._rest.get(f"jobs/{job}") or {}).get("stageIds") or []

    def _tasks(self, graph: PlanGraph, numbers: Sequence[int]) -> list[TaskRun]:
        """Every task of the batch's stages with its operator: those that succeeded in order, then those that failed."""
        stages = graph.stages(_last_stage(graph, numbers))
        listed = [(stage, self._runs_of(stage.id)) for stage in stages]
        done = attribute([(stage, runs) for stage, (runs, _) in listed], self._shape)
        failed, sizes = [failed for _, (_, failed) in listed], [len(runs) for _, (runs, _) in listed]
        return [*done, *failed_attempts(done, failed, sizes)]

    def _runs_of(self, stage: StageId) -> tuple[list[TaskRun], dict[int, TaskRun]]:
        """The tasks of a stage that succeeded, in order, and attempts that failed, by the number of the task."""
        found = self._rest.get(f"stages/{stage[0]}/{stage[1]}?details=true&withSummaries=false") or {}
        submitted = found.get("submissionTime")
        since = seconds(submitted) if submitted else None
        tasks = sorted((found.get("tasks") or {}).values(), key=lambda task: task["index"])
        done = [read_task(task, since) for task in tasks if task["status"] == "SUCCESS"]
        return done, {task["index"]: read_task(task, since) for task in tasks if task["status"] == "FAILED"}

    def _was_retried(self, seen: _Seen) -> bool:
        return any(
            stage["attemptId"] > 0 or stage["numFailedTasks"] or stage["numKilledTasks"]
            for job in seen.jobs
            for number in self._stages_of(job)
            for stage in self._rest.get(f"stages/{number}") or []
        )


def _last_stage(graph: PlanGraph, numbers: Sequence[int]) -> StageId | None:
    """The stage that wrote to the sink: the last one of the last job."""
    if not numbers:
        return None
    last = max(numbers)
    attempts = [each.read_by[1] for each in graph.exchanges.values() if each.read_by and each.read_by[0] == last]
    return last, max(attempts, default=0)


# ---- tasks and their operators


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
        behind = self.shape.after(operator) if stage.own else None
        inside = stage.own and operator is not None and behind == operator
        own = isinstance(first, Exchange) and first.edge is None
        return {
            "operator": operator,
            "edge": edge,
            "feeds": stage.feeds or (None if inside else behind),
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
        return self.shape.after(self._writer(first))

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
    for number, run in enumerate(runs):
        found = next(((place, begin) for place, (begin, end) in where.items() if begin <= number < end), None)
        if found is None:
            yield replace(run, feeds=stage.feeds)
            continue
        place, begin = found
        yield replace(run, task=number - begin, **operators.marks(stage, place))


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
    begin = 0
    for place, size in enumerate(sizes):
        if _agrees(stage.parts[place], runs[begin : begin + size]):
            yield place, (begin, begin + size)
        begin += size


def _by_their_sums(stage: SparkStage, runs: Sequence[TaskRun]) -> Iterator[tuple[int, tuple[int, int]]]:
    for place, part in enumerate(stage.parts):
        size = _size(part)
        if size is None:
            continue
        fitting = [at for at in range(len(runs) - size + 1) if _agrees(part, runs[at : at + size])]
        if len(fitting) == 1:
            yield place, (fitting[0], fitting[0] + size)


def _agrees(part: tuple[Exchange | Scan, ...], runs: Sequence[TaskRun]) -> bool:
    """Whether tasks together read what the exchanges of a part counted; a scan, and a shared exchange, says nothing."""
    counted = [each.flow for each in part if isinstance(each, Exchange)]
    if len(counted) < len(part) or any(flow.readers > 1 for flow in counted):
        return True
    return sum(run.rows_in for run in runs) == sum(flow.read for flow in counted)


def with_tasks(flow: EdgeFlow, edge: str, pool: int, runs: Sequence[TaskRun]) -> EdgeFlow:
    """An edge with rows and busy time of each of its tasks, where they are known."""
    mine = [run for run in runs if run.edge == edge and not run.passing and not run.failed]
    if len(mine) != pool:
        return replace(flow, per_task=(flow.read,)) if pool == 1 and flow.readers == 1 else flow
    return replace(flow, per_task=tuple(run.rows_in for run in mine), busy_ms=tuple(int(run.run_ms) for run in mine))
