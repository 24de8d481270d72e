"""What went over each edge in a batch, from Spark's SQL metrics and task lists: no cost in the data path.

Each edge's exchange is found by the column that carries its tasks (`_ft_<edge>`), in the graph that Spark keeps of
every batch it has run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from foretide.metrics.batch import EdgeFlow
from foretide.spark.edge import TASK_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from foretide.spark.rest import SparkRest

_GLOBAL_EDGE = re.compile(rf"AS {TASK_PREFIX}(.+?)#\d+")
_EDGE = re.compile(rf"direct_shuffle_partition_id\(`?{TASK_PREFIX}(.+?)`?#\d+L?\), (\d+)\)")
_STAGE = re.compile(r"\(stage (\d+)\.(\d+): task \d+\)")
_BATCH = re.compile(r"runId = (\S+)\s+batch = (\d+)")


@dataclass(frozen=True)
class Exchange:
    """An edge's exchange in one execution: where it stands, what it counted, and which stage read it."""

    edge: str
    pool: int
    node: int
    flow: EdgeFlow
    stage: tuple[int, int] | None


@dataclass(frozen=True)
class Flows:
    """What went over each edge in a batch (None when Spark did not count it), and whether tasks were retried."""

    edges: Mapping[str, EdgeFlow] | None
    retried: bool = False


@dataclass
class _Seen:
    """What the executions of one batch have shown so far. Spark runs a batch as one execution inside another."""

    exchanges: list[Exchange] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    complete: bool = False


class Executions:
    """Walks the executions of one run of a query in the order of their ids, each once."""

    def __init__(self, rest: SparkRest, run_id: str) -> None:
        self._rest = rest
        self._run_id = run_id
        self._next: int | None = None
        self._seen: dict[int, _Seen] = {}

    def flows(self, batch: int, *, per_task: bool = True) -> Flows | None:
        """What went over each edge in a batch; None when it is not to be had yet."""
        self._walk()
        seen = self._seen.get(batch, _Seen())
        if not seen.complete:
            return None
        self._seen = {number: later for number, later in self._seen.items() if number > batch}
        if not seen.exchanges:  # the batch ran, but Spark counted no exchange of it
            return Flows(None)
        edges = {exchange.edge: exchange.flow for exchange in seen.exchanges}
        if any(flow.read != flow.written * flow.readers for flow in edges.values()) and self._was_retried(seen):
            return Flows(edges, retried=True)
        return Flows(edges | self._per_task(seen.exchanges) if per_task else edges)

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
        if jobs and (found := find_exchanges(execution["nodes"], execution["edges"])):
            seen.exchanges = found
        seen.complete |= execution["id"] == execution["rootExecutionId"]

    def _first(self) -> int:
        """The id to begin with: the oldest execution of this run that Spark still has."""
        listed = self._rest.get("sql?details=false&planDescription=false&offset=0&length=100000") or []
        ours = [entry["id"] for entry in listed if self._run_id in entry["description"]]
        return min(ours, default=max((entry["id"] for entry in listed), default=-1) + 1)

    def _batch_of(self, execution: dict[str, Any]) -> int | None:
        found = _BATCH.search(execution["description"])
        return int(found.group(2)) if found and found.group(1) == self._run_id else None

    def _was_retried(self, seen: _Seen) -> bool:
        return any(
            stage["attemptId"] > 0 or stage["numFailedTasks"] or stage["numKilledTasks"]
            for job in seen.jobs
            for number in (self._rest.get(f"jobs/{job}") or {}).get("stageIds", [])
            for stage in self._rest.get(f"stages/{number}") or []
        )

    def _per_task(self, exchanges: list[Exchange]) -> dict[str, EdgeFlow]:
        by_stage: dict[tuple[int, int], list[Exchange]] = defaultdict(list)
        flows = {}
        for exchange in exchanges:
            if exchange.pool == 1 and exchange.flow.readers == 1:
                flows[exchange.edge] = replace(exchange.flow, per_task=(exchange.flow.read,))
            elif exchange.stage is not None and exchange.flow.readers == 1:
                by_stage[exchange.stage].append(exchange)
        for (stage, attempt), read_here in by_stage.items():
            tasks = self._rest.get(f"stages/{stage}/{attempt}/taskList?length=100000") or []
            flows |= attribute_tasks(read_here, tasks)
        return flows


def find_exchanges(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> list[Exchange]:
    """The exchanges of edges in Spark's graph of one execution."""
    exchanges = []
    for node in nodes:
        if node["nodeName"] == "Exchange":
            name, pool = _edge_of(node, nodes, edges)
            if name:
                exchanges.append(_exchange(node, pool, name, _readers(node["nodeId"], edges)))
    return exchanges


def _edge_of(node: dict[str, Any], nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> tuple[str | None, int]:
    """Name and pool of an exchange's edge. To a single task Spark drops the column, which is then named below."""
    if found := _EDGE.search(node["desc"]):
        return found.group(1), int(found.group(2))
    if "SinglePartition" in node["desc"] and "REPARTITION_BY_NUM" in node["desc"]:
        return _named_below(node["nodeId"], {other["nodeId"]: other for other in nodes}, edges), 1
    return None, 0


def _named_below(node: int, nodes: dict[int, dict[str, Any]], edges: list[dict[str, Any]]) -> str | None:
    """The edge that the nearest node below, this side of the next exchange, makes the column for."""
    for below in (nodes[link["fromId"]] for link in edges if link["toId"] == node):
        if found := _GLOBAL_EDGE.search(below["desc"]):
            return found.group(1)
        if below["nodeName"] != "Exchange" and (name := _named_below(below["nodeId"], nodes, edges)):
            return name
    return None


def _readers(node: int, edges: list[dict[str, Any]]) -> int:
    return sum(1 for link in edges if link["fromId"] == node)


def _exchange(node: dict[str, Any], pool: int, edge: str, readers: int) -> Exchange:
    metrics = {metric["name"]: metric["value"] for metric in node["metrics"]}
    flow = EdgeFlow(_number(metrics, "shuffle records written"), _number(metrics, "records read"), readers)
    reading = (metrics.get(name, "") for name in ("fetch wait time", "local bytes read", "remote bytes read"))
    stage = next((found for text in reading if (found := _STAGE.search(text))), None)
    return Exchange(edge, pool, node["nodeId"], flow, (int(stage.group(1)), int(stage.group(2))) if stage else None)


def _number(metrics: Mapping[str, str], name: str) -> int:
    return int(metrics.get(name, "0").replace(",", ""))


def attribute_tasks(exchanges: list[Exchange], tasks: list[dict[str, Any]]) -> dict[str, EdgeFlow]:
    """Rows and busy time of each task of a stage, given to the edges that the stage reads.

    A stage that unites several streams runs their tasks one stream after the other. So the tasks of an edge stand in a
    row, and together they read what the edge counted. Where that leaves more than one answer, it is not known.
    """
    done = sorted((task for task in tasks if task["status"] == "SUCCESS"), key=lambda task: task["index"])
    rows = [task["taskMetrics"]["shuffleReadMetrics"]["recordsRead"] for task in done]
    busy = [task["taskMetrics"]["executorRunTime"] for task in done]
    flows = {}
    for exchange, first in _places(sorted(exchanges, key=lambda exchange: exchange.node), rows):
        mine = slice(first, first + exchange.pool)
        flows[exchange.edge] = replace(exchange.flow, per_task=tuple(rows[mine]), busy_ms=tuple(busy[mine]))
    return flows


def _places(exchanges: list[Exchange], rows: list[int]) -> Iterator[tuple[Exchange, int]]:
    """Where the tasks of each exchange begin, for those where that is certain."""
    all_of_them = sum(exchange.pool for exchange in exchanges) == len(rows)
    begin = 0
    for exchange in exchanges:
        if all_of_them:
            fitting = [begin] if sum(rows[begin : begin + exchange.pool]) == exchange.flow.read else []
        else:
            last = len(rows) - exchange.pool
            fitting = [at for at in range(last + 1) if sum(rows[at : at + exchange.pool]) == exchange.flow.read]
        if len(fitting) == 1:
            yield exchange, fitting[0]
        begin += exchange.pool
