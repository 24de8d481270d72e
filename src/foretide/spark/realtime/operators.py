"""Operators of a real-time query that have meters, and how they are connected."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from foretide.spark.realtime.branches import Branches
from foretide.topology.graph import Bolt, Native, Spout, Topology
from foretide.topology.groupings import All


@dataclass(frozen=True)
class MeteredOperator:
    """An operator with meters.

    Attributes:
        name: The spout or bolt.
        width: Its tasks, as its meters were told.
        edge: The edge that it reads; None for a spout, and for a bolt in the tasks of the one before.
        feeds: The one bolt that takes what is counted as emitted; None if there is none, or several.
        spout: Whether its tuples come from a source.
        sink: Whether what it emits goes to the sink, or its latency cannot be followed any further.
        sends_all: Whether both ends of the edge `feeds` are counted in the same query: each tuple once as emitted and
            once as taken.
        crossing: Whether an exchange of Spark's own is inside, so that it is metered by `meter_emitted` at its end.
        takes_ahead: Whether its tasks take tuples while they work on others: those that hand them to Python.
    """

    name: str
    width: int
    edge: str | None = None
    feeds: str | None = None
    spout: bool = False
    sink: bool = False
    sends_all: bool = False
    crossing: bool = False
    takes_ahead: bool = False


def metered_operators(
    topology: Topology,
    widths: Mapping[str, int],
    chained: AbstractSet[str] = frozenset(),
    crossing: AbstractSet[str] = frozenset(),
    untimed: AbstractSet[str] = frozenset(),
) -> tuple[MeteredOperator, ...]:
    """The operators of a topology that have meters.

    Args:
        topology: The topology.
        widths: Tasks of each operator that has meters.
        chained: Bolts that have no exchange: they run in the tasks of the operator before.
        crossing: Bolts with an exchange of Spark's own inside.
        untimed: Bolts that lose the timestamps of their tuples, such as aggregations.
    """
    flows = _Flows(Branches.of(topology), frozenset(widths), chained)
    found = []
    for part in topology.components:
        if part.id not in widths:
            continue
        bolt, readers = isinstance(part, Bolt), flows.readers(part.id)
        feeds = readers[0] if len(readers) == 1 else None
        found.append(
            MeteredOperator(
                part.id,
                widths[part.id],
                edge=part.id if bolt and part.id not in chained | crossing else None,
                feeds=None if feeds is None else feeds.id,
                spout=not bolt,
                sink=not readers or (feeds is not None and feeds.id in untimed),
                sends_all=feeds is not None and flows.counted(feeds),
                crossing=part.id in crossing,
                takes_ahead=flows.runs_python(part),
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class _Flows:
    """What goes from operator to operator in the branches in which they are metered."""

    branches: Branches
    metered: frozenset[str]
    chained: AbstractSet[str]

    def readers(self, component: str) -> list[Bolt]:
        """The bolts that take what an operator emits, behind those that run in its own tasks."""
        return [
            taker
            for bolt, _ in self.branches.readers(component)
            for taker in (self.readers(bolt.id) if bolt.id in self.chained else [bolt])
        ]

    def runs_python(self, part: Spout | Bolt) -> bool:
        """Whether a Python bolt runs in the tasks of an operator: itself, or one behind it without an exchange."""
        if isinstance(part, Bolt) and not isinstance(part.operator, Native):
            return True
        behind = (bolt for bolt, _ in self.branches.readers(part.id) if bolt.id in self.chained)
        return any(self.runs_python(bolt) for bolt in behind)

    def counted(self, bolt: Bolt) -> bool:
        """Whether all tuples that a bolt takes are counted in its own query when they are sent, and go there once."""
        return all(
            not source.feedback and not isinstance(source.grouping, All) and self._is_sender(source.component, bolt)
            for source in bolt.inputs
        )

    def _is_sender(self, component: str, bolt: Bolt) -> bool:
        """Whether a component's tuples are counted in the bolt's query, and all of those counted go to the bolt."""
        where = self.branches.metered_in
        if where.get(component) != where.get(bolt.id) or len(self.branches.readers(component)) != 1:
            return False
        part = self.branches.topology.component(component)
        if component in self.chained and isinstance(part, Bolt):
            return self._is_sender(part.inputs[0].component, bolt)
        return component in self.metered
