"""What a running query did, batch by batch, as values."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from foretide.metrics.batch import BatchReport, BoltTimes, EventTimes, StateSize, TupleIds
from foretide.spark.compile.timing import EVENT_TIMES, read_event_times
from foretide.spark.edges import OBSERVATION, RECEIVED, SENT
from foretide.spark.joins.statistics import joins_seen
from foretide.spark.progress.executions import Executions, Flows
from foretide.spark.rest import RestUnavailableError, SparkRest
from foretide.spark.sources.registry import source_range

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from foretide.spark.compile.timing import Timers
    from foretide.topology.shape import PlanShape

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class QueryState:
    """Whether a query is active, whether a batch is under way, and the error it failed with."""

    active: bool
    busy: bool
    error: str | None


class QueryReader:
    """Turns the progress of one run of a query into reports, each batch once, in order.

    Reports come a little after the batch: Spark's metrics of an execution arrive by its event queue. A batch whose
    metrics do not come within `patience` seconds is reported without them.
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
        self._rest: SparkRest | None = None
        self._executions: Executions | None = None
        self.unavailable: str | None = None

    def state(self) -> QueryState:
        """How the query is at this moment."""
        failed = self._query.exception()
        busy = bool(self._query.status.get("isTriggerActive"))
        return QueryState(self._query.isActive, busy, str(failed) if failed else None)

    def reports(self) -> list[BatchReport]:
        """The batches that finished since the last call."""
        now = time.monotonic()
        self._waiting.extend((now, progress) for progress in self._new_progress())
        reports = []
        while self._waiting:
            since, progress = self._waiting[0]
            flows = self._flows(progress.batchId)
            if flows is None and self.unavailable is None and now - since < self._patience:
                break
            self._waiting.popleft()
            reports.append(read_report(progress, flows, self._timers.since_last() if self._timers else {}))
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
        """Whether there may be a batch to report: a cheap question, as fetching the whole progress is expensive."""
        java_query: Any = getattr(self._query, "_jsq", None)
        latest = None if java_query is None else java_query.lastProgress()
        return java_query is None or (latest is not None and latest.batchId() > self._last)

    def prepare(self) -> None:
        """Connect before the first batch ends: Spark's REST interface takes seconds to answer for the first time."""
        self._flows(batch=-1)

    def _flows(self, batch: int) -> Flows | None:
        per_task = time.monotonic() >= self._next_per_task
        try:
            if self._executions is None:
                self._rest = SparkRest.of(SparkContext.getOrCreate())
                self._executions = Executions(self._rest, str(self._query.runId), self._shape)
            flows = self._executions.flows(batch, per_task=per_task)
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
        """Close the connection to Spark's REST interface."""
        if self._rest is not None:
            self._rest.close()


def read_report(
    progress: StreamingQueryProgress, flows: Flows | None = None, python: dict[str, BoltTimes] | None = None
) -> BatchReport:
    """The report of a batch from the query's progress, Spark's REST interface (`flows`) and the Python bolts."""
    duration = progress.durationMs.get("triggerExecution", 0) / 1000
    observed = progress.observedMetrics
    routes = observed.get(OBSERVATION)
    return BatchReport(
        batch=progress.batchId,
        finished=datetime.fromisoformat(progress.timestamp).timestamp() + duration,
        duration=duration,
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
            )
            for source in progress.sources
        ),
        ids=_ids(observed),
        retried=flows is not None and flows.retried,
        stateful=bool(progress.stateOperators),
        tasks=None if flows is None else flows.tasks,
        phases=dict(progress.durationMs),
        python=python or {},
        event_times=_event_times(observed),
        state=_state(progress.stateOperators),
        watermark=_watermark(progress.eventTime),
        joins=joins_seen(observed),
    )


def _event_times(observed: Any) -> dict[str, EventTimes]:
    names = [name for name in observed if name.startswith(EVENT_TIMES)]
    read = {name.removeprefix(EVENT_TIMES): read_event_times(observed[name]) for name in names}
    return {spout: times for spout, times in read.items() if times is not None}


def _state(operators: Any) -> StateSize | None:
    if not operators:
        return None
    return StateSize(
        sum(each.numRowsTotal for each in operators),
        sum(each.memoryUsedBytes for each in operators),
        sum(each.numRowsDroppedByWatermark for each in operators),
        max(each.numShufflePartitions for each in operators),
    )


def _watermark(event_time: Any) -> float | None:
    stamp = (event_time or {}).get("watermark")
    seconds = datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
    return seconds or None  # 1970: no watermark yet


def _offset(text: Any) -> dict[str, Any]:
    value = json.loads(text) if isinstance(text, str) and text.startswith("{") else text
    return value if isinstance(value, dict) else {}


def _ids(observed: Any) -> dict[str, TupleIds]:
    edges = [name.removeprefix(SENT) for name in observed if name.startswith(SENT)]
    return {
        edge: TupleIds(sent["rows"], sent["ids"], received["rows"], received["ids"])
        for edge in edges
        if (sent := observed[f"{SENT}{edge}"]) and (received := observed.get(f"{RECEIVED}{edge}"))
    }
