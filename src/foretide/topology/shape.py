"""Which component does the work behind what a stage reads: how tasks find their operator.

A stage begins where an exchange is read or a source is scanned. An edge's exchange names its bolt; scans and Spark's
own exchanges have no name, and are told by what they feed or by what feeds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from foretide.topology.graph import Bolt, Spout, Topology
from foretide.topology.groupings import All
from foretide.topology.sources import KafkaSource

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

SHARED = ".out"
"""How the exchange is called that several readers of a component share: `<component>.out`."""


@dataclass(frozen=True)
class PlanShape:
    """The scans that feed each exchange, in the order of the plan, and the bolt behind Spark's own exchanges.

    `scans[None]` are those that reach the sink, or an exchange of Spark's own, without passing an edge. `topics` has
    the spout of each topic that one spout alone reads.
    """

    scans: Mapping[str | None, tuple[str, ...]] = field(default_factory=dict)
    behind: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)

    def scan(self, feeds: str | None, place: int, count: int) -> str | None:
        """The spout of the scan at a place among `count` scans of one stage, None when that is not certain."""
        known = self.scans.get(feeds, ())
        return known[place] if len(known) == count else None

    def after(self, operator: str | None, reader: str | None = None) -> str | None:  # noqa: ARG002 - for other shapes
        """The operator behind an exchange of Spark's own that `operator` writes to; `reader` is what it does."""
        return None if operator is None else self.behind.get(operator, operator)

    @classmethod
    def of(cls, topology: Topology, chained: AbstractSet[str], stateful: AbstractSet[str]) -> PlanShape:
        """The shape of a topology: `chained` bolts have no exchange, `stateful` ones are behind one of Spark's own."""
        return _ShapeBuilder(topology, chained, stateful).shape()


@dataclass(frozen=True)
class OneSource(PlanShape):
    """The shape of a query that was not made from a topology.

    Whatever it scans counts as one source, and what reads an exchange of Spark's own is called by what it does.
    """

    name: str = "source"

    def scan(self, feeds: str | None, place: int, count: int) -> str | None:  # noqa: ARG002 - all scans are alike
        """The one source."""
        return self.name

    def after(self, operator: str | None, reader: str | None = None) -> str | None:
        """What Spark does there."""
        return reader or operator


@dataclass(frozen=True)
class _ShapeBuilder:
    topology: Topology
    chained: AbstractSet[str]
    stateful: AbstractSet[str]

    def shape(self) -> PlanShape:
        scans: dict[str | None, tuple[str, ...]] = {
            f"{spout.id}{SHARED}": (spout.id,) for spout in self.topology.spouts if self._shared(spout.id)
        }
        loose: list[str] = []
        for bolt in self.topology.in_order():
            fed = tuple(spout for source in bolt.inputs for spout in self._scans_of(source.component))
            if bolt.id in self.stateful or (bolt.id in self.chained and not self._readers(bolt.id)):
                loose += fed
            elif bolt.id not in self.chained:
                scans[bolt.id] = fed
        return PlanShape({**scans, None: tuple(loose)}, self._behind(), topics_of(self.topology))

    def _readers(self, component: str) -> int:
        part = self.topology.component(component)
        streams = part.streams if isinstance(part, Bolt) else ("default",)
        return sum(len(self.topology.readers(component, stream)) for stream in streams)

    def _shared(self, component: str) -> bool:
        part = self.topology.component(component)
        return self.topology.is_shared(part) if isinstance(part, Spout) else self._readers(component) > 1

    def _scans_of(self, component: str) -> tuple[str, ...]:
        """The spouts that a component's own stage scans: itself, or those that a chained bolt sits on."""
        if self._shared(component):
            return ()
        part = self.topology.component(component)
        if isinstance(part, Spout):
            return (component,)
        if isinstance(part, Bolt) and component in self.chained:
            return tuple(spout for source in part.inputs for spout in self._scans_of(source.component))
        return ()

    def _operator(self, component: str) -> str:
        """The operator that a component's tasks are counted under: a chained bolt runs in its first input's tasks."""
        part = self.topology.component(component)
        if isinstance(part, Bolt) and component in self.chained and part.inputs:
            return self._operator(part.inputs[0].component)
        return component

    def _behind(self) -> dict[str, str]:
        found: dict[str, set[str]] = {}
        for bolt in self.topology.bolts:
            if bolt.id in self.stateful:
                for source in bolt.inputs:
                    found.setdefault(self._operator(source.component), set()).add(bolt.id)
        return {operator: next(iter(bolts)) for operator, bolts in found.items() if len(bolts) == 1}


def topics_of(topology: Topology) -> dict[str, str]:
    """The spout of each Kafka topic; a topic that several spouts read tells none of them."""
    read = [(spout.source.topic, spout.id) for spout in topology.spouts if isinstance(spout.source, KafkaSource)]
    names = Counter(topic for topic, _ in read)
    return {topic: spout for topic, spout in read if names[topic] == 1}


class FirstEdge(NamedTuple):
    """An edge that only spouts feed, so that its records can be compared with the offsets of their sources."""

    spouts: tuple[str, ...]
    copies: int = 1


def first_edges(topology: Topology) -> dict[str, FirstEdge]:
    """The edges that only spouts feed. A spout with several readers has one exchange of its own, `<spout>.out`."""
    shared = {f"{spout.id}{SHARED}": FirstEdge((spout.id,)) for spout in topology.spouts if topology.is_shared(spout)}
    direct = {
        bolt.id: FirstEdge(tuple(source.component for source in bolt.inputs), _copies(bolt))
        for bolt in topology.bolts
        if _only_spouts_feed(topology, bolt) and len({isinstance(s.grouping, All) for s in bolt.inputs}) == 1
    }
    return shared | direct


def sole_sources(topology: Topology) -> dict[str, str]:
    """Bolts that get every tuple of one spout, once, and no other: they see the spout's own arrivals."""
    return {
        bolt.id: bolt.inputs[0].component
        for bolt in topology.bolts
        if len(bolt.inputs) == 1 and _only_spouts_feed(topology, bolt) and not isinstance(bolt.inputs[0].grouping, All)
    }


def _only_spouts_feed(topology: Topology, bolt: Bolt) -> bool:
    spouts = {spout.id for spout in topology.spouts}
    return all(source.component in spouts and not source.feedback for source in bolt.inputs)


def _copies(bolt: Bolt) -> int:
    return bolt.pool_size if all(isinstance(source.grouping, All) for source in bolt.inputs) else 1
