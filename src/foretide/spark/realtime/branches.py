"""Branches of a topology in real-time mode, and the one branch in which each operator is metered.

Each bolt that writes to the sink ends a branch, which has all that leads to the bolt. So an operator may run in several
branches. It is metered in the one with the longest path to the sink: then all operators from it to the end of that path
are metered in the same branch, and so in the same query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from foretide.graphs import reachable
from foretide.topology.graph import DEFAULT_STREAM, Bolt, From, Native, Topology


@dataclass(frozen=True)
class Branches:
    """The branches of a topology.

    Attributes:
        topology: The topology.
        members: The components of each branch, by the bolt that ends it.
        metered_in: The branch in which each component is metered, by the bolt that ends the branch.
    """

    topology: Topology
    members: Mapping[str, frozenset[str]]
    metered_in: Mapping[str, str]

    @classmethod
    def of(cls, topology: Topology) -> Self:
        """The branches of a topology; what sits on a cycle is left out."""
        inputs = _inputs(topology)
        ends = [bolt.id for bolt in topology.in_order() if writes_to_sink(topology, bolt)]
        members = {end: frozenset(reachable(inputs, [end])) for end in ends}
        depths = _depths(topology)
        having = {part: [end for end in ends if part in members[end]] for part in frozenset().union(*members.values())}
        return cls(topology, members, {part: max(found, key=depths.__getitem__) for part, found in having.items()})

    def readers(self, component: str) -> list[tuple[Bolt, From]]:
        """The bolts that read a component in the branch in which it is metered, each with the input that does."""
        members = self.members.get(self.metered_in.get(component, ""), frozenset())
        return [
            (bolt, source)
            for bolt in self.topology.bolts
            for source in bolt.inputs
            if source.component == component and not source.feedback and bolt.id in members
        ]


def writes_to_sink(topology: Topology, bolt: Bolt) -> bool:
    """Whether the sink reads a bolt: a stream, or dead letters."""
    dead = not isinstance(bolt.operator, Native) and bolt.on_error == "dead_letter"
    return dead or bolt.streams != (DEFAULT_STREAM,) or bool(sink_streams(topology, bolt))


def sink_streams(topology: Topology, bolt: Bolt) -> list[str]:
    """The streams of a bolt that go to the sink, dead letters aside."""
    return [stream for made, stream in topology.outputs() if made.id == bolt.id]


def _inputs(topology: Topology) -> dict[str, list[str]]:
    return {bolt.id: [source.component for source in bolt.inputs if not source.feedback] for bolt in topology.bolts}


def _depths(topology: Topology) -> dict[str, int]:
    """The bolts on the longest path from a spout to each component, itself included."""
    depths = {spout.id: 0 for spout in topology.spouts}
    inputs = _inputs(topology)
    for bolt in topology.in_order():
        depths[bolt.id] = 1 + max((depths.get(component, 0) for component in inputs[bolt.id]), default=0)
    return depths
