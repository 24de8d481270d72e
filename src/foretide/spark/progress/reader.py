"""What a running query did, batch by batch, as values."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from foretide.metrics.batch import BatchReport, BoltTimes, EventTimes, StateSize, TupleIds
from foretide.spark.compile.timing import EVENT_TIMES, read_event_times
from foretide.spark.edges import OBSERVATION, RECEIVED, SENT
from foretide.spark.joins.statistics import JOIN_OPERATOR, joins_seen
from foretide.spark.progress.executions import Executions, Flows, SparkExecutions
from foretide.spark.rest import RestUnavailableError
from foretide.spark.sources.registry import source_range

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from foretide.spark.compile.timing import Timers
    from foretide.topology.shape import PlanShape

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class QueryState:
    """Whether a query is active, whether a batch is under way, the error it failed with, and its last batch.

    `last_batch` is -1 before the first one has ended, or where it is not known.
    """

    active: bool
    busy: bool
    error: str | None
    last_batch: int = -1


def last_batch(query: Any) -> int:
    """The last batch of a query that has ended: a cheap question, as fetching the whole progress is expensive."""
    java_query: Any = getattr(query, "_jsq", None)
    latest = None if java_query is None else java_query.lastProgress()
    return -1 if latest is None else int(latest.batchId())


class QueryReader:
    """Turns the progress of one run of a query into reports, each batch once, in order.

    Reports come a little after the batch: Spark's metrics of an execution arrive by its event queue. A batch whose
    metrics are not there `patience` seconds after it finished is reported without them.
    """

    def __init__(
        self,
        query: StreamingQuery,
        shape: PlanShape | None = None,
        timers: Timers | None = None,
        *,
        per_task_every: float = 0.0,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        self._query = query
        self._shape = shape
        self._timers = timers
        self._last = -1
        self._waiting: deque[tuple[float, StreamingQueryProgress]] = deque()
        self._per_task_every, self._patience = per_task_every, patience
        self._next_per_task = 0.0
        self._executions: Executions | None = None
        self.unavailable: str | None = None

    def state(self) -> QueryState:
        """How the query is at this moment."""
        active = bool(self._query.isActive)
        busy = active and bool(self._query.status.get("isTriggerActive"))
        failed = None if active else self._query.exception()
        return QueryState(active, busy, str(failed) if failed else None, last_batch(self._query))

    def reports(self) -> list[BatchReport]:
        """The batches that finished since the last call."""
        now = time.monotonic()
        self._waiting.extend((now - _age(progress), progress) for progress in self._new_progress())
        reports = []
        while self._waiting:
            since, progress = self._waiting[0]
            flows = self._flows(progress.batchId, since, _finished(progress), suspicious=_ids_differ(progress))
            if flows is None and self.unavailable is None and now - since < self._patience:
                break
            self._waiting.popleft()
            report = read_report(progress, flows, self._timers.since_last() if self._timers else {}, self._shape)
            missed = flows is None or (not flows.counted and report.input_rows > 0)
            reports.append(replace(report, unaudited=missed and self.unavailable is None))
        return reports

    def _new_progress(self) -> list[StreamingQueryProgress]:
        if not self._may_have_finished():
            return []
        latest = self._query.lastProgress
        if latest is None or latest.batchId <= self._last:
            return []
        recent = [latest] if latest.batchId == self._last + 1 else self._query.recentProgress
        new = [progress for progress in recent if progress.batchId > self._last and "addBatch" in progress.durationMs]
        if new:
            self._last = new[-1].batchId
        return new

    def _may_have_finished(self) -> bool:
        """Whether there may be a batch to report."""
        return not hasattr(self._query, "_jsq") or last_batch(self._query) > self._last

    def prepare(self) -> None:
        """Connect before the first batch ends: Spark's REST interface takes seconds to answer for the first time."""
        self._flows(-1, time.monotonic(), time.time())

    def _flows(self, batch: int, since: float, finished: float, *, suspicious: bool = False) -> Flows | None:
        per_task = time.monotonic() >= self._next_per_task
        try:
            if self._executions is None:
                executions = SparkExecutions.of(SparkContext.getOrCreate())
                self._executions = Executions(executions, str(self._query.runId), self._shape)
            flows = self._executions.flows(batch, since, finished, per_task=per_task, suspicious=suspicious)
        except RestUnavailableError as error:
            self.unavailable = str(error)
            return None
        self.unavailable = None
        if per_task and flows is not None:
            self._next_per_task = time.monotonic() + self._per_task_every
        return flows

    @property
    def waiting(self) -> bool:
        """Whether batches have finished that were not reported yet."""
        return bool(self._waiting)

    def close(self) -> None:
        """Follow the query no longer; the last one closes the connection to Spark's REST interface."""
        executions, self._executions = self._executions, None
        if executions is not None:
            executions.close()


def read_report(
    progress: StreamingQueryProgress,
    flows: Flows | None = None,
    python: dict[str, BoltTimes] | None = None,
    shape: PlanShape | None = None,
) -> BatchReport:
    """The report of a batch from the query's progress, Spark's REST interface (`flows`) and the Python bolts."""
    observed = progress.observedMetrics
    routes = observed.get(OBSERVATION)
    return BatchReport(
        batch=progress.batchId,
        finished=_finished(progress),
        duration=_duration(progress),
        input_rows=progress.numInputRows,
        route_version=None if routes is None else routes["version"],
        edges=None if flows is None else flows.edges,
        sources=tuple(
            source_range(
                _offset(source.startOffset),
                _offset(source.endOffset),
                _offset(source.latestOffset),
                source.numInputRows,
                source.description,
                {} if shape is None else shape.topics,
            )
            for source in progress.sources
        ),
        ids=_ids(observed),
        retried=_ids_differ(progress) if flows is None or not flows.counted else flows.retried,
        stateful=bool(progress.stateOperators),
        tasks=None if flows is None else flows.tasks,
        phases=dict(progress.durationMs),
        python=python or {},
        event_times=_event_times(observed),
        state=_state(progress.stateOperators),
        watermark=_watermark(progress.eventTime),
        watermark_times=_watermark_times(progress.eventTime, progress.numInputRows),
        joins=joins_seen(observed),
    )


def _finished(progress: StreamingQueryProgress) -> float:
    return datetime.fromisoformat(progress.timestamp).timestamp() + _duration(progress)


def _age(progress: StreamingQueryProgress) -> float:
    """Seconds since a batch finished."""
    return max(0.0, time.time() - _finished(progress))


def _duration(progress: StreamingQueryProgress) -> float:
    return progress.durationMs.get("triggerExecution", 0) / 1000


def _event_times(observed: Any) -> dict[str, EventTimes]:
    names = [name for name in observed if name.startswith(EVENT_TIMES)]
    read = {name.removeprefix(EVENT_TIMES): read_event_times(observed[name]) for name in names}
    return {spout: times for spout, times in read.items() if times is not None}


def _state(operators: Any) -> StateSize | None:
    if not operators:
        return None
    joins = [each for each in operators if each.operatorName == JOIN_OPERATOR]
    return StateSize(
        sum(each.numRowsTotal for each in operators),
        sum(each.memoryUsedBytes for each in operators),
        sum(each.numRowsDroppedByWatermark for each in operators),
        max(each.numShufflePartitions for each in operators),
        sum(each.numRowsTotal for each in joins),
        sum(each.memoryUsedBytes for each in joins),
    )


def _watermark(event_time: Any) -> float | None:
    stamp = (event_time or {}).get("watermark")
    seconds = datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
    return seconds or None  # 1970: no watermark yet


def _watermark_times(event_time: Any, rows: int) -> EventTimes | None:
    """Mean and earliest event time, which stands in for all low levels."""
    found = event_time or {}
    if not rows or "min" not in found or "avg" not in found:
        return None
    mean = datetime.fromisoformat(found["avg"]).timestamp()
    return EventTimes(rows, mean, {0.0: datetime.fromisoformat(found["min"]).timestamp(), 0.5: mean})


def _offset(text: Any) -> dict[str, Any]:
    """An offset as a mapping; a plain number is one with the key `offset`."""
    value = json.loads(text) if isinstance(text, str) and text.startswith("{") else text
    if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
        return {"offset": int(value)}
    return value if isinstance(value, dict) else {}


def _ids_differ(progress: StreamingQueryProgress) -> bool:
    return any(not ids.agree for ids in _ids(progress.observedMetrics).values())


def _ids(observed: Any) -> dict[str, TupleIds]:
    edges = [name.removeprefix(SENT) for name in observed if name.startswith(SENT)]
    return {
        edge: TupleIds(sent["rows"], sent["ids"], received["rows"], received["ids"])
        for edge in edges
        if (sent := observed[f"{SENT}{edge}"]) and (received := observed.get(f"{RECEIVED}{edge}"))
    }
