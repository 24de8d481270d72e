"""What Spark's plan tells of a running query that somebody else has started: its mode, its live edges, its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from foretide.metrics.task_meters import prefix_of
from foretide.spark.edges import TASK_PREFIX

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SERVERS = "kafka.bootstrap.servers"
_REAL_TIME_TRIGGER = "RealTimeTrigger"
_EXCHANGE, _FILTER, _SOURCE = "RepartitionByExpression", "Filter", "StreamingRelationV2"
_NAME = r"([A-Za-z][\w-]*)"
_TASK_COLUMN = re.compile(rf"\({TASK_PREFIX}{_NAME}#\d+")


@dataclass(frozen=True)
class LivePlan:
    """The live edges of a query.

    Attributes:
        tasks: The tasks behind each edge.
        flows: From edge to edge, by their names; the first is None for a source.
        source_options: Options of the first Kafka source, which may hold passwords; empty if there is none.
    """

    tasks: Mapping[str, int]
    flows: tuple[tuple[str | None, str], ...]
    source_options: Mapping[str, str] = field(repr=False)

    @property
    def first(self) -> frozenset[str]:
        """The edges that a source feeds."""
        return frozenset(edge for sender, edge in self.flows if sender is None)


def is_real_time(query: StreamingQuery) -> bool:
    """Whether a query has a real-time trigger; False where the driver's JVM cannot be asked, as in Spark Connect."""
    try:
        trigger = _execution(query).trigger().getClass().getSimpleName()
    except (AttributeError, Py4JError):
        return False
    return str(trigger) == _REAL_TIME_TRIGGER


def live_plan(query: StreamingQuery, key: str) -> LivePlan:
    """Find the edges of a query whose tasks follow live routes and count tuples under a key."""
    found = _Found(re.compile(rf"{re.escape(prefix_of(key))}{_NAME}\.\d+\)"))
    found.look(_execution(query).analyzedPlan(), None)
    tasks = {edge: tasks for edge, tasks in found.tasks.items() if edge in found.metered}
    flows = [(sender, edge) for sender, edge in found.flows if edge in tasks and (sender is None or sender in tasks)]
    return LivePlan(tasks, tuple(dict.fromkeys(flows)), found.source_options)


def active_session() -> SparkSession:
    """The session that queries are started in."""
    return SparkSession.active()


@dataclass
class _Found:
    meter: re.Pattern[str]
    metered: set[str] = field(default_factory=set)
    tasks: dict[str, int] = field(default_factory=dict)
    flows: list[tuple[str | None, str]] = field(default_factory=list)
    source_options: dict[str, str] = field(default_factory=dict)

    def look(self, node: Any, reader: str | None) -> None:
        """Look at a part of the plan, from the sink to the sources; `reader` is the edge that it feeds."""
        kind = node.getClass().getSimpleName()
        if kind == _FILTER:
            self.metered.update(self.meter.findall(node.condition().toString()))
        elif kind == _SOURCE:
            self._source(node, reader)
        elif kind == _EXCHANGE:
            reader = self._exchange(node, reader)
        children = node.children()
        for place in range(children.size()):
            self.look(children.apply(place), reader)

    def _exchange(self, node: Any, reader: str | None) -> str | None:
        """Note an exchange of an edge; the edge that what is before it feeds."""
        column = _TASK_COLUMN.search(node.partitionExpressions().mkString(","))
        if column is None:
            return reader
        edge = column[1]
        self.tasks[edge] = int(node.numPartitions())
        if reader is not None:
            self.flows.append((edge, reader))
        return edge

    def _source(self, node: Any, reader: str | None) -> None:
        if reader is not None:
            self.flows.append((None, reader))
        options = {str(name): str(value) for name, value in node.extraOptions().asCaseSensitiveMap().items()}
        named = {name.lower() if name.lower() == SERVERS else name: value for name, value in options.items()}
        if SERVERS in named and not self.source_options:
            self.source_options = named


def _execution(query: StreamingQuery) -> Any:
    """Spark's own object of a running query."""
    running: Any = query
    return running._jsq.streamingQuery()  # noqa: SLF001 - the way to the JVM
