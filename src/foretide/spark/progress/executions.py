"""What went over each edge in a batch and what each task did, from Spark's REST interface: free in the data path.

The executions of a session are read once for all queries that are followed. Spark keeps the last ones only
(`spark.sql.ui.retainedExecutions`): a batch whose executions it has dropped is given up as soon as that is known.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from foretide.metrics.batch import EdgeFlow, TaskRun
from foretide.spark.progress.descriptions import PlanDescriptions, ask_driver
from foretide.spark.progress.plan_graph import PlanGraph, StageId
from foretide.spark.progress.tasks import attribute, failed_attempts, read_task, seconds, with_tasks
from foretide.spark.rest import RestUnavailableError, SparkRest
from foretide.topology.shape import PlanShape

if TYPE_CHECKING:
    from pyspark import SparkContext

_BATCH = re.compile(r"runId = (\S+)\s+batch = (\d+)")
_ALL = "sql?details=false&planDescription=false&offset=0&length=100000"
_LIST_AFTER_SECONDS = 1.0
"""A batch that finished so long ago and is not found is looked for in the list of all executions: an expensive one."""

_LIST_PERIOD_SECONDS = 1.0
_LOCK_SECONDS = 30.0


@dataclass(frozen=True)
class Flows:
    """What went over each edge in a batch, and its tasks; None when Spark did not count them.

    `counted` is False when no execution was found that did the batch's work.
    """

    edges: Mapping[str, EdgeFlow] | None
    retried: bool = False
    tasks: tuple[TaskRun, ...] | None = None
    counted: bool = True


@dataclass
class _Batch:
    """What the executions of one batch have shown so far. Some sinks run a batch as one execution inside another.

    It has `ended` with its outer execution, which has the lower number; `alone` means that it did the work itself.
    """

    worked: Mapping[str, Any] | None = None
    jobs: list[int] = field(default_factory=list)
    ended: bool = False
    alone: bool = False
    read: set[int] = field(default_factory=set)
    unread: set[int] = field(default_factory=set)

    def note(self, execution: Mapping[str, Any]) -> None:
        """Take in an execution. An outer one ends after all inner ones."""
        number = execution["id"]
        if execution["status"] == "RUNNING":
            self.unread.add(number)
            return
        self.unread.discard(number)
        self.read.add(number)
        jobs = execution.get("successJobIds") or []
        self.jobs += jobs
        if jobs:
            self.worked = execution
        if number == execution["rootExecutionId"]:
            self.ended, self.alone = True, bool(jobs)


@dataclass
class _Run:
    """One run of a query: its batches that were not taken yet, the last one that was, and the last in Spark's list."""

    batches: dict[int, _Batch] = field(default_factory=dict)
    taken: int = -1
    listed: int = -1

    def batch(self, number: int) -> _Batch:
        return self.batches.setdefault(number, _Batch())

    def take(self, number: int) -> None:
        self.taken = max(self.taken, number)
        self.batches = {later: each for later, each in self.batches.items() if later > self.taken}


class SparkExecutions:
    """The executions of one application, each read once for all queries that are followed, from any thread."""

    _shared: ClassVar[WeakValueDictionary[str, SparkExecutions]] = WeakValueDictionary()
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        rest: SparkRest,
        clock: Callable[[], float] = time.monotonic,
        describe: Callable[[int], Mapping[int, str]] = lambda _: {},
    ) -> None:
        """`describe` gives the descriptions of an execution's operators, where Spark's answers have none."""
        self.rest, self._clock, self.describe = rest, clock, describe
        self._runs: dict[str, _Run] = {}
        self._next = 0
        self._listed_at = -_LIST_PERIOD_SECONDS
        self._newest_listed = 0.0
        self._lock = threading.Lock()

    @classmethod
    def of(cls, context: SparkContext) -> SparkExecutions:
        """The executions of a context: one reading, as long as somebody follows a query."""
        with cls._sharing:
            new = cls(SparkRest.of(context), describe=partial(ask_driver, context))
            return cls._shared.setdefault(context.applicationId, new)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=_LOCK_SECONDS):
            raise RestUnavailableError(f"another request has not been answered for {_LOCK_SECONDS:g} s")
        try:
            yield
        finally:
            self._lock.release()

    def follow(self, run_id: str) -> None:
        """Keep what the executions of a run show, from the oldest on that Spark still has."""
        with self._locked():
            self._runs[run_id] = _Run()
            try:
                self._list()
            except RestUnavailableError:
                del self._runs[run_id]
                raise

    def forget(self, run_id: str) -> None:
        """Keep nothing more of a run; close the connection when it was the last one."""
        with self._locked():
            self._runs.pop(run_id, None)
            unused = not self._runs
        if unused:
            self.rest.close()

    def take(self, run_id: str, batch: int, since: float, finished: float) -> _Batch | None:
        """What is known of a batch that is over, once; None while there may be more to come.

        Args:
            run_id: The run of the query.
            batch: The batch; earlier ones cannot be asked for any more.
            since: When the batch finished, by the clock of this object.
            finished: The same in seconds since 1970.
        """
        with self._locked():
            run = self._runs[run_id]
            found = run.batch(batch)
            self._read_unread(found)
            while not found.alone and self._read_next():
                pass
            if found.ended or self._is_gone(run, batch, since, finished):
                run.take(batch)
                return found
            return None

    def _read_unread(self, batch: _Batch) -> None:
        """Read executions that were still running, or are only known from the list."""
        for number in sorted(batch.unread):
            execution = self._execution(number)
            if execution is None:
                batch.unread.discard(number)
            else:
                batch.note(execution)

    def _read_next(self) -> bool:
        """Read the next execution; False when there is none yet."""
        execution = self._execution(self._next)
        if execution is None:
            return False
        self._next += 1
        run, number = self._run_of(execution)
        if run is not None:
            run.batch(number).note(execution)
        return True

    def _is_gone(self, run: _Run, number: int, since: float, finished: float) -> bool:
        """Whether Spark has nothing more of a batch: a list made after the batch has later executions, but not its own.

        Spark takes in what happens to executions in order, so that later ones are listed only after all of the batch.
        """
        now, batch = self._clock(), run.batch(number)
        if now - since >= _LIST_AFTER_SECONDS and now - self._listed_at >= _LIST_PERIOD_SECONDS:
            self._list()
            self._read_unread(batch)
        passed = self._listed_at >= since and (run.listed > number or self._newest_listed > finished)
        return batch.ended or (passed and not batch.unread)

    def _list(self) -> None:
        """Find all executions of the runs that are followed, also those that Spark lists late or out of order."""
        self._listed_at = self._clock()
        for entry in self.rest.get(_ALL) or []:
            self._next = max(self._next, entry["id"] + 1)
            self._newest_listed = max(self._newest_listed, seconds(entry["submissionTime"]))
            run, number = self._run_of(entry)
            if run is not None:
                run.listed = max(run.listed, number)
                batch = run.batch(number)
                batch.unread |= {entry["id"]} - batch.read

    def _execution(self, number: int) -> Any:
        return self.rest.get(f"sql/{number}?details=true&planDescription=false")

    def _run_of(self, execution: Mapping[str, Any]) -> tuple[_Run | None, int]:
        """The run and the batch that an execution belongs to; no run if nobody will ask for it."""
        found = _BATCH.search(execution["description"])
        run = self._runs.get(found.group(1)) if found else None
        number = int(found.group(2)) if found else -1
        return (None, number) if run is None or number <= run.taken else (run, number)


class Executions:
    """The executions of one run of a query, batch by batch."""

    def __init__(self, executions: SparkExecutions, run_id: str, shape: PlanShape | None = None) -> None:
        self._executions, self._rest, self._run_id = executions, executions.rest, run_id
        self._shape = shape or PlanShape()
        self._descriptions = PlanDescriptions(executions.describe)
        executions.follow(run_id)

    def close(self) -> None:
        """Follow the run no longer."""
        self._executions.forget(self._run_id)

    def flows(
        self,
        batch: int,
        since: float = 0.0,
        finished: float = 0.0,
        *,
        per_task: bool = True,
        suspicious: bool = False,
    ) -> Flows | None:
        """What went over each edge in a batch; None when it is not to be had yet.

        Args:
            batch: The batch; earlier ones cannot be asked for any more.
            since: When the batch finished (monotonic).
            finished: The same in seconds since 1970.
            per_task: Whether to read its tasks too.
            suspicious: Whether to look for retried tasks even if Spark's counts agree.
        """
        seen = self._executions.take(self._run_id, batch, since, finished)
        if seen is None:
            return None
        if seen.worked is None:
            return Flows(None, counted=False)
        numbers = self._stages_of(max(seen.jobs)) or [] if per_task else []
        graph = PlanGraph(self._descriptions.of(seen.worked), seen.worked["edges"], numbers)
        tasks = self._tasks(graph, numbers) if per_task else None
        edges = {each.edge: each for each in graph.exchanges.values() if each.edge is not None}
        if tasks is None:
            flows = {name: each.flow for name, each in edges.items()}
        else:
            flows = {name: with_tasks(each.flow, name, each.pool, tasks) for name, each in edges.items()}
        differ = any(flow.read != flow.written * flow.readers for flow in flows.values())
        return Flows(flows or None, (differ or suspicious) and self._may_be_retried(seen), tasks)

    # ---- tasks

    def _stages_of(self, job: int) -> list[int] | None:
        found = self._rest.get(f"jobs/{job}")
        return None if found is None else found.get("stageIds") or []

    def _tasks(self, graph: PlanGraph, numbers: Sequence[int]) -> tuple[TaskRun, ...] | None:
        """Every task of the batch's stages with its operator: those that succeeded in order, then those that failed.

        None when Spark has dropped all stages.
        """
        found = [(stage, self._runs_of(stage.id)) for stage in graph.stages(_last_stage(graph, numbers))]
        if all(runs is None for _, runs in found):
            return None
        listed = [(stage, runs or ([], {})) for stage, runs in found]
        done = attribute([(stage, runs) for stage, (runs, _) in listed], self._shape)
        failed, sizes = [failed for _, (_, failed) in listed], [len(runs) for _, (runs, _) in listed]
        return (*done, *failed_attempts(done, failed, sizes))

    def _runs_of(self, stage: StageId) -> tuple[list[TaskRun], dict[int, TaskRun]] | None:
        """The tasks of a stage that succeeded, in order, and attempts that failed, by the number of the task."""
        found = self._rest.get(f"stages/{stage[0]}/{stage[1]}?details=true&withSummaries=false")
        if found is None:
            return None
        submitted = found.get("submissionTime")
        since = seconds(submitted) if submitted else None
        tasks = sorted((found.get("tasks") or {}).values(), key=lambda task: task["index"])
        done = [read_task(task, since) for task in tasks if task["status"] == "SUCCESS"]
        return done, {task["index"]: read_task(task, since) for task in tasks if task["status"] == "FAILED"}

    def _may_be_retried(self, seen: _Batch) -> bool:
        """Whether tasks were retried, or Spark has dropped the stages, so that nobody can tell."""
        stages = [self._stages_of(job) for job in seen.jobs]
        attempts = [self._rest.get(f"stages/{number}") for numbers in stages for number in numbers or ()]
        return not (all(stages) and all(attempts)) or any(
            each["attemptId"] > 0 or each["numFailedTasks"] or each["numKilledTasks"]
            for stage in attempts
            for each in stage
        )


def _last_stage(graph: PlanGraph, numbers: Sequence[int]) -> StageId | None:
    """The stage that wrote to the sink: the last one of the last job."""
    if not numbers:
        return None
    last = max(numbers)
    attempts = [each.read_by[1] for each in graph.exchanges.values() if each.read_by and each.read_by[0] == last]
    return last, max(attempts, default=0)
