"""Spark's graph of an executed batch: its exchanges, and its stages with what each of them reads.

Each edge's exchange is found by the column that carries its tasks (`_ft_<edge>`). Exchanges of Spark's own have no
name; they are kept, because stages read them too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from foretide.metrics.batch import EdgeFlow
from foretide.spark.edges import TASK_PREFIX

_GLOBAL_EDGE = re.compile(rf"AS {TASK_PREFIX}(.+?)#\d+")
_EDGE = re.compile(rf"direct_shuffle_partition_id\(`?{TASK_PREFIX}(.+?)`?#\d+L?\), (\d+)\)")
_STAGE = re.compile(r"\(stage (\d+)\.(\d+): task \d+\)")

_KINDS = {
    "Join": "join",
    "Deduplicate": "deduplicate",
    "WithState": "state",
    "Aggregate": "aggregate",
    "StateStore": "aggregate",
    "Window": "window",
}
"""Operators in Spark's plan for which rows are exchanged, by a part of their name."""

_OTHER = "shuffle"

Json = dict[str, Any]
StageId = tuple[int, int]


@dataclass(frozen=True)
class Exchange:
    """An exchange in one execution: its edge (None: Spark's own), what it counted, who wrote it, and one who read.

    `reader` is what Spark does with what it reads from an exchange of its own: `aggregate`, `join`, ...
    """

    edge: str | None
    pool: int
    node: int
    flow: EdgeFlow
    written_by: StageId | None
    read_by: StageId | None
    reader: str | None = None


@dataclass(frozen=True)
class Scan:
    """A source that a stage reads."""

    node: int


Parts = tuple[tuple[Exchange | Scan, ...], ...]


@dataclass(frozen=True)
class SparkStage:
    """A stage: its parts in the order of their tasks, the edge it writes to, or Spark's own exchange by its reader.

    A part is read by tasks of its own; several inputs in one part are read by the same tasks, as in a join.
    """

    id: StageId
    parts: Parts
    feeds: str | None
    own: bool = False
    reader: str | None = None


class PlanGraph:
    """Nodes and links of one execution, as Spark's REST interface gives them."""

    def __init__(self, nodes: Sequence[Json], edges: Sequence[Json], stages: Sequence[int] = ()) -> None:
        """Take in what Spark answered; `stages` are the numbers of all stages of its last job, where they are known."""
        self._stages = tuple(sorted(stages))
        self._nodes = {node["nodeId"]: node for node in nodes}
        self._below: dict[int, list[int]] = {number: [] for number in self._nodes}
        self._readers: dict[int, int] = {}
        self._above: dict[int, int] = {}
        for link in edges:
            self._above.setdefault(link["fromId"], link["toId"])
            self._below.setdefault(link["toId"], []).append(link["fromId"])
            self._readers[link["fromId"]] = self._readers.get(link["fromId"], 0) + 1

    @cached_property
    def exchanges(self) -> dict[int, Exchange]:
        """Every exchange by its node."""
        named = self._named
        counted = {
            number: replace(each, written_by=each.written_by or _reader(self._parts_below(number, named)))
            for number, each in named.items()
        }
        return counted | self._by_elimination(counted)

    def _by_elimination(self, counted: Mapping[int, Exchange]) -> dict[int, Exchange]:
        """Exchanges whose writer Spark does not name, given the stages that are left, the lowest node first.

        Where one task writes and one task reads, Spark names neither stage. Stages are numbered from the sources on.
        """
        known = {each.written_by[0] for each in counted.values() if each.written_by is not None}
        left = [stage for stage in self._stages[:-1] if stage not in known]
        open_ones = sorted((number for number, each in counted.items() if each.written_by is None), reverse=True)
        if len(left) != len(open_ones):
            return {}
        return {
            number: replace(counted[number], written_by=(stage, 0))
            for number, stage in zip(open_ones, left, strict=True)
        }

    @cached_property
    def _named(self) -> dict[int, Exchange]:
        """Every exchange as its own figures tell it."""
        return {
            number: self._exchange(number, node)
            for number, node in self._nodes.items()
            if node["nodeName"] == "Exchange"
        }

    @property
    def edges(self) -> list[Exchange]:
        """The exchanges of edges."""
        return [exchange for exchange in self.exchanges.values() if exchange.edge is not None]

    def stages(self, last: StageId | None) -> list[SparkStage]:
        """Every stage whose number is known: those that write an exchange, and the `last`, which feeds the sink."""
        writing = [
            SparkStage(
                each.written_by,
                self._parts_below(number, self.exchanges),
                each.edge,
                own=each.edge is None,
                reader=each.reader,
            )
            for number, each in self.exchanges.items()
            if each.written_by is not None
        ]
        if last is None:
            return writing
        roots = [number for number in self._nodes if number not in self._readers and self._below[number]]
        return [*writing, *(SparkStage(last, self._parts(root, self.exchanges), None) for root in roots)]

    # ---- what a stage reads

    def _parts_below(self, number: int, exchanges: Mapping[int, Exchange]) -> Parts:
        return _united([self._parts(below, exchanges) for below in sorted(self._below[number])])

    def _parts(self, number: int, exchanges: Mapping[int, Exchange]) -> Parts:
        """What is read below a node, up to the next exchanges; what a union puts side by side is apart."""
        node = self._nodes[number]
        if node["nodeName"] == "Exchange":
            return ((exchanges[number],),)
        if node["nodeName"].startswith(("Subquery", "ReusedSubquery", "BroadcastExchange")):
            return ()
        below = [parts for child in sorted(self._below[number]) if (parts := self._parts(child, exchanges))]
        if not below:
            return ((Scan(number),),) if not self._below[number] else ()
        return _united(below) if node["nodeName"] == "Union" else _joined(below)

    # ---- exchanges

    def _exchange(self, number: int, node: Json) -> Exchange:
        metrics = {metric["name"]: metric["value"] for metric in node["metrics"]}
        edge, pool = self._edge_of(number, node)
        pool = pool or _number(metrics, "number of partitions")
        flow = EdgeFlow(
            _number(metrics, "shuffle records written"), _number(metrics, "records read"), self._readers.get(number, 0)
        )
        written = _stage(metrics, "data size", "shuffle bytes written", "shuffle write time")
        read = _stage(metrics, "fetch wait time", "local bytes read", "remote bytes read")
        return Exchange(edge, pool, number, flow, written, read, None if edge else self._reader_of(number))

    def _reader_of(self, number: int) -> str | None:
        """What the nearest operator above an exchange is; the second one of a kind, from the sources on, is `join-2`.

        Both sides of a join are read by the same one.
        """
        found = self._operator_above(number)
        if found is None:
            return _OTHER
        kind = _kind(self._nodes[found])
        alike = sorted({above for each in self._shuffles if (above := self._operator_above(each)) is not None})
        alike = [each for each in reversed(alike) if _kind(self._nodes[each]) == kind]
        place = alike.index(found)
        return kind if place == 0 else f"{kind}-{place + 1}"

    @cached_property
    def _shuffles(self) -> list[int]:
        return [number for number, node in self._nodes.items() if node["nodeName"] == "Exchange"]

    def _operator_above(self, number: int) -> int | None:
        above = self._above.get(number)
        while above is not None and above in self._nodes and self._nodes[above]["nodeName"] != "Exchange":
            if _kind(self._nodes[above]) is not None:
                return above
            above = self._above.get(above)
        return None

    def _edge_of(self, number: int, node: Json) -> tuple[str | None, int]:
        """Edge and pool of an exchange. To a single task Spark drops the column, which is then named below."""
        text = node["desc"]
        if found := _EDGE.search(text):
            return found.group(1), int(found.group(2))
        if "SinglePartition" in text:
            return (self._named_below(number) if "REPARTITION_BY_NUM" in text else None), 1
        return None, 0

    def _named_below(self, number: int) -> str | None:
        """The edge that the nearest node below, this side of the next exchange, makes the column for."""
        for below in self._below[number]:
            node = self._nodes[below]
            if found := _GLOBAL_EDGE.search(node["desc"]):
                return found.group(1)
            if node["nodeName"] != "Exchange" and (name := self._named_below(below)):
                return name
        return None


def _kind(node: Json) -> str | None:
    """What an operator does, None if that is not why there is an exchange."""
    return next((kind for name, kind in _KINDS.items() if name in node["nodeName"]), None)


def _reader(parts: Parts) -> StageId | None:
    """The stage that reads these parts, known from an exchange that nobody else reads.

    Spark names the stage that wrote an exchange only when more than one of its tasks wrote something.
    """
    alone = (each for part in parts for each in part if isinstance(each, Exchange) and each.flow.readers == 1)
    return next((each.read_by for each in alone if each.read_by is not None), None)


def _united(below: Sequence[Parts]) -> Parts:
    return tuple(part for parts in below for part in parts)


def _joined(below: Sequence[Parts]) -> Parts:
    """What the same tasks read: part by part where the sides have as many, else all in one."""
    if len({len(parts) for parts in below}) == 1:
        return tuple(tuple(each for part in side_by_side for each in part) for side_by_side in zip(*below, strict=True))
    return (tuple(each for parts in below for part in parts for each in part),)


def _stage(metrics: Mapping[str, str], *names: str) -> StageId | None:
    for name in names:
        if found := _STAGE.search(metrics.get(name, "")):
            return int(found.group(1)), int(found.group(2))
    return None


def _number(metrics: Mapping[str, str], name: str) -> int:
    return int(metrics.get(name, "0").replace(",", ""))
