"""What the driver knows of a StreamingQuery that runs: its checkpoint, sources, sink, trigger and control folders.

It is read once, from the objects behind PySpark's own. Over Spark Connect these are out of reach, and nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from foretide.planning.advice import (
    LOCALITY_WAIT,
    SHUFFLE_PARTITIONS,
    STATE_PROVIDER,
    STATELESS_AQE,
    QueryEnvironment,
)
from foretide.spark.edges import folder_of_routes
from foretide.spark.joins.admission import folder_of_join

_TEMPORARY = re.compile(r"/temporary-[0-9a-f]{8}-[0-9a-f-]{27}/?$")
_METRICS, _WATERMARK = "CollectMetrics", "EventTimeWatermark"
_SOURCES = frozenset({"StreamingRelation", "StreamingRelationV2"})
_PYTHON = re.compile("EvalPython|InPandas|InArrow|PythonMap")
_LIMITS = {"kafka": "maxOffsetsPerTrigger"}
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_PATH = re.compile(r"\[(.*)\]$")


@dataclass(frozen=True)
class QuerySource:
    """A source of a query: Spark's name of its kind (`kafka`, `rate`, `FileSource`, ...), and its options.

    Options may hold passwords, and are never shown.
    """

    kind: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_file(self) -> bool:
        """Whether it reads new files in a folder."""
        return self.kind.startswith("FileSource")

    @property
    def missing_limit(self) -> str | None:
        """The option that would limit what a batch takes; None if it is given, or there is none."""
        option = "maxFilesPerTrigger" if self.is_file else _LIMITS.get(self.kind)
        return None if option is None or option.lower() in self.options else option

    @property
    def label(self) -> str:
        """A word for it: the topic, the last part of the path, or its kind."""
        topic = self.options.get("subscribe") or self.options.get("subscribepattern")
        path = _PATH.search(self.kind)
        return topic or (_last_part(path[1]) if path else self.kind)


@dataclass(frozen=True)
class RunningQuery:
    """What is known of a query; None or empty where that is not.

    Attributes:
        checkpoint: Its checkpoint.
        sink: What Spark calls its sink.
        trigger: Seconds between two batches, 0 for one batch after the other.
        sources: Its sources, in the order in which Spark reports them.
        event_time: The column of its watermark.
        folders: The control folders that its edges and joins were given.
    """

    checkpoint: str | None = None
    sink: str = ""
    trigger: float | None = None
    sources: tuple[QuerySource, ...] = ()
    event_time: str | None = None
    folders: tuple[str, ...] = ()

    @property
    def is_temporary(self) -> bool:
        """Whether Spark removes the checkpoint when the query ends, because none was given."""
        return self.checkpoint is not None and _TEMPORARY.search(self.checkpoint) is not None

    @property
    def label(self) -> str:
        """A word for what it does: where it writes to, or else what it reads."""
        path = _PATH.search(self.sink)
        if path and self.sink.startswith("FileSink"):
            return _last_part(path[1])
        return "-".join(dict.fromkeys(source.label for source in self.sources))


def read_query(query: Any) -> RunningQuery:
    """Ask the driver's JVM about a query; what it does not answer stays unknown."""
    java_query: Any = getattr(query, "_jsq", None)
    if java_query is None:
        return RunningQuery()
    try:
        execution = java_query.streamingQuery()
        found = _Plan()
        found.look(execution.analyzedPlan())
        return RunningQuery(
            str(execution.resolvedCheckpointRoot()),
            str(execution.sink().toString()),
            _interval(execution),
            tuple(found.sources),
            found.event_time,
            tuple(dict.fromkeys(found.folders)),
        )
    except (AttributeError, Py4JError):  # another version of Spark
        return RunningQuery()


def application_name() -> str:
    """The name of the running application, without the suffix of a script."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - PySpark has no other way to ask
    return "" if context is None else str(context.appName).removesuffix(".py")


def read_environment(query: Any, executors: int) -> QueryEnvironment:
    """What is set for a query that runs, as far as it bears on advice."""
    known, context = read_query(query), SparkContext._active_spark_context  # noqa: SLF001
    if context is None or not known.sources:
        return QueryEnvironment(executors)
    conf = dict(context.getConf().getAll())
    set_at_start = {name: conf[name] for name in (LOCALITY_WAIT,) if name in conf}
    return QueryEnvironment(
        executors,
        known.trigger,
        {**set_at_start, **_session_settings(query)},
        tuple(option for source in known.sources if (option := source.missing_limit) is not None),
        python=_runs_python(query),
        heap_bytes=_heap(context, conf, executors),
    )


def _session_settings(query: Any) -> dict[str, str]:
    """Settings of the session as the query was started with them."""
    found = {}
    for name in (SHUFFLE_PARTITIONS, STATELESS_AQE, STATE_PROVIDER):
        with suppress(AttributeError, Py4JError):
            found[name] = str(query._jsq.streamingQuery().sparkSession().conf().get(name))  # noqa: SLF001
    return found


def _runs_python(query: Any) -> bool:
    """Whether the stage that reads the sources runs Python, in the last batch."""
    with suppress(AttributeError, Py4JError):
        plan = str(query._jsq.streamingQuery().lastExecution().executedPlan().treeString())  # noqa: SLF001
        return _PYTHON.search(plan, max(0, plan.rfind("Exchange"))) is not None
    return False


def _heap(context: Any, conf: Mapping[str, str], executors: int) -> float | None:
    with suppress(AttributeError, Py4JError, ValueError):
        if (context.master or "").startswith("local["):
            return float(context._jvm.java.lang.Runtime.getRuntime().maxMemory())  # noqa: SLF001
        text = conf.get("spark.executor.memory", "1g").lower().removesuffix("b")
        return float(text[:-1]) * _UNITS[text[-1:]] * executors if text[-1:] in _UNITS else None
    return None


def _interval(execution: Any) -> float | None:
    with suppress(AttributeError, Py4JError):
        return float(execution.trigger().intervalMs()) / 1000
    return None


@dataclass
class _Plan:
    """What a logical plan tells, from the sink to the sources."""

    sources: list[QuerySource] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    event_time: str | None = None

    def look(self, node: Any) -> None:
        kind = str(node.nodeName())
        if kind == _METRICS:
            metric = (str(node.name()), int(node.dataframeId()))
            folder = folder_of_routes(metric) or folder_of_join(metric)
            self.folders += [] if folder is None else [folder]
        elif kind == _WATERMARK:
            self.event_time = str(node.eventTime().name())
        elif kind in _SOURCES:
            self.sources.append(_source(node))
        for below in (*_each(node.subqueries()), *_each(node.children())):
            self.look(below)


def _source(node: Any) -> QuerySource:
    name = str(node.sourceName())
    options: Any = {}
    with suppress(AttributeError, Py4JError):
        options = node.extraOptions().asCaseSensitiveMap()
    if not options:
        with suppress(AttributeError, Py4JError):
            pairs = _each(node.dataSource().options().toSeq())
            options = {pair._1(): pair._2() for pair in pairs}  # noqa: SLF001 - Scala's names
    return QuerySource(name, {str(key).lower(): str(value) for key, value in dict(options).items()})


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.size()))


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
