"""Admits joins to their control folders when their query starts, before it plans its first batch.

Spark calls listeners of starts synchronously. A join is found in the plan of the query that starts by the metric that
it reports, and checked by `foretide.control_folder.claim`. If it is refused, the query fails with the reason before its
first batch. A query whose start nobody has seen fails, too: the plan in the folder has not got the token of its join.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.java_gateway import ensure_callback_server_started

from foretide.control_folder import holds
from foretide.control_folder.claim import Claim, admit
from foretide.errors import ForetideError, JoinError, Problem
from foretide.spark.joins.statistics import left_observation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder

_METRICS = "CollectMetrics"
_Metric = tuple[str, int]
log = logging.getLogger("foretide")


@dataclass(frozen=True, slots=True)
class BuiltJoin:
    """A join in a DataFrame, with the token under which its batches may use the plan."""

    folder: ControlFolder
    name: str
    token: str


def check_unused(folder: ControlFolder, name: str) -> None:
    """Refuse to build a join with the control folder of a query that runs."""
    user = holds.running_query(folder.location)
    if user is not None:
        problem = f"its control folder '{folder.location}' is used by {user}"
        raise JoinError([Problem(f"join '{name}'", problem, "Stop that query, or give this one a folder of its own")])


def admit_at_start(joined: DataFrame, join: BuiltJoin) -> None:
    """Have a join admitted when a query of this DataFrame starts."""
    if not hasattr(joined, "_jdf"):
        remedy = "Use a session that is not remote"
        raise JoinError([Problem(f"join '{join.name}'", "cannot be admitted over Spark Connect", remedy)])
    listener = _listener(joined.sparkSession)
    for metric in _metrics(joined._jdf.queryExecution().analyzed()):  # noqa: SLF001 - PySpark shows no plans
        if metric[0] == left_observation(join.name):
            listener.joins[metric] = join


_listeners: WeakKeyDictionary[SparkSession, _StartListener] = WeakKeyDictionary()


def _listener(spark: SparkSession) -> _StartListener:
    """The listener of a session; Spark removes one that is interrupted, so it may have to be added again."""
    listener = _listeners.get(spark)
    if listener is None:
        listener = _listeners[spark] = _StartListener(spark)
    listener.ensure_added()
    return listener


def folder_of_join(metric: _Metric) -> str | None:
    """The control folder of the join that reports this metric in a logical plan."""
    found = (listener.joins.get(metric) for listener in list(_listeners.values()))
    return next((join.folder.location for join in found if join is not None), None)


class _StartListener:
    """Implements Spark's Java interface itself: PySpark's own base class copies every progress, which costs time."""

    class Java:
        """Read by Py4J."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)

    def __init__(self, spark: SparkSession) -> None:
        self.joins: dict[_Metric, BuiltJoin] = {}
        context: Any = spark.sparkContext
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as PySpark
        self._jvm = context._jvm  # noqa: SLF001
        self._streams: Any = spark._jsparkSession.streams()  # noqa: SLF001
        self._in_java = self._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self)

    def ensure_added(self) -> None:
        if not any(self._in_java.equals(other) for other in self._streams.listListeners()):
            self._streams.addListener(self._in_java)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - the names are Spark's
        """Admit the joins of a query, or make it fail before its first batch."""
        query = self._streams.get(event.id())
        execution = None if query is None else query.streamingQuery()
        if execution is None:
            return
        try:
            self._admit(execution)
        except Exception as error:
            if not isinstance(error, ForetideError):
                log.exception("a join could not be checked")
            failure = self._jvm.java.lang.IllegalStateException(f"FORETIDE-REFUSED: {error}")
            execution.errorNotifier().markError(failure)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Let others use the control folder."""
        holds.end_run(str(event.runId()))

    def _admit(self, execution: Any) -> None:
        found = (self.joins[metric] for metric in _metrics(execution.analyzedPlan()) if metric in self.joins)
        folders: dict[str, list[BuiltJoin]] = defaultdict(list)
        for join in found:
            folders[join.folder.location].append(join)
        query, run_id = str(execution.id()), str(execution.runId())
        for location, joins in folders.items():
            holds.take_for_run(location, execution.name() or query, holds.Run(query, run_id, _activity(execution)))
            claim = Claim(query, str(execution.resolvedCheckpointRoot()), {join.name: join.token for join in joins})
            admit(joins[0].folder, claim, fresh=execution.offsetLog().getLatestBatchId().isEmpty())


def _activity(execution: Any) -> Any:
    def is_active() -> bool:
        try:
            return bool(execution.isActive())
        except Exception:  # noqa: BLE001 - Spark has ended, and its queries with it
            return False

    return is_active


def _metrics(plan: Any) -> Iterator[_Metric]:
    """Name and DataFrame of every metric that a logical plan reports."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if node.nodeName() == _METRICS:
            yield node.name(), node.dataframeId()
        children = node.children()
        waiting += [children.apply(place) for place in range(children.size())]
