"""The edges that spouts feed directly: there, records can be compared with what the sources say they handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.metrics.audit import FirstEdge
from foretide.topology.graph import Bolt, Spout, Topology
from foretide.topology.groupings import All
from foretide.topology.shape import SHARED

if TYPE_CHECKING:
    from collections.abc import Sequence


def first_edges(topology: Topology) -> dict[str, FirstEdge]:
    """Each such edge with its spouts. A spout with several readers has one exchange of its own, `<spout>.out`."""
    shared = {f"{spout.id}{SHARED}": FirstEdge((spout.id,)) for spout in topology.spouts if _shared(topology, spout)}
    spouts = {spout.id for spout in topology.spouts}
    direct = {
        bolt.id: FirstEdge(tuple(source.component for source in bolt.inputs), _copies(bolt))
        for bolt in topology.bolts
        if _fed_by(bolt, spouts) and len({isinstance(s.grouping, All) for s in bolt.inputs}) == 1
    }
    return shared | direct


def _shared(topology: Topology, spout: Spout) -> bool:
    return len(topology.readers(spout.id, "default")) > 1


def _fed_by(bolt: Bolt, spouts: set[str]) -> bool:
    return all(source.component in spouts and not source.feedback for source in bolt.inputs)


def _copies(bolt: Bolt) -> int:
    inputs: Sequence[object] = [source.grouping for source in bolt.inputs]
    return bolt.pool_size if all(isinstance(grouping, All) for grouping in inputs) else 1


def sole_sources(topology: Topology) -> dict[str, str]:
    """Bolts that get every tuple of one spout, once, and no other: they see the spout's own arrivals."""
    spouts = {spout.id for spout in topology.spouts}
    return {
        bolt.id: bolt.inputs[0].component
        for bolt in topology.bolts
        if len(bolt.inputs) == 1 and _fed_by(bolt, spouts) and not isinstance(bolt.inputs[0].grouping, All)
    }
