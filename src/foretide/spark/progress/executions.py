"""What went over each edge in a batch and what each task did, from Spark's REST interface: free in the data path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from foretide.metrics.batch import EdgeFlow, TaskRun
from foretide.spark.progress.plan_graph import PlanGraph, StageId
from foretide.spark.progress.task_runs import attribute, failed_attempts, read_task, seconds, with_tasks
from foretide.topology.shape import PlanShape

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
        edges = {each.edge: each for each in graph.edges if each.edge is not None}
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
