"""What a pipeline says of itself in its control folder, so that orders that do not fit it are refused at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from foretide.control_folder.facts import PipelineFacts
from foretide.runtime.threads import guarded
from foretide.topology.validate import find_problems

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.topology.graph import Bolt, Topology


def publish_facts(folder: ControlFolder, facts: PipelineFacts) -> None:
    """Write what a pipeline is made of. A failure is logged: the query runs without."""
    guarded(lambda: folder.status.write(facts), f"describing '{facts.name}' in its control folder")


def facts_of(
    topology: Topology, state_repartition: str | None, stateful: Collection[str] = frozenset()
) -> PipelineFacts:
    """What a topology is made of. `state_repartition` says why the number of state partitions cannot be changed.

    `stateful` bolts have the partitions of Spark's state instead of a pool.
    """
    resizable = [bolt for bolt in topology.bolts if bolt.id not in stateful and _can_resize(topology, bolt)]
    return PipelineFacts(
        topology.name,
        spouts={spout.id: spout.source.live_admission for spout in topology.spouts},
        pools={bolt.id: bolt.pool_size for bolt in resizable},
        state_repartition=state_repartition,
        restart_limits=frozenset(spout.id for spout in topology.spouts if spout.source.restart_admission),
    )


def _can_resize(topology: Topology, bolt: Bolt) -> bool:
    """Whether the bolt may have another pool: not if its ratio is fixed, or it has no exchange of its own."""
    other = replace(bolt, pool=bolt.pool_size + 1, replicas=None)
    bolts = [other if each is bolt else each for each in topology.bolts]
    return not find_problems(replace(topology, bolts=bolts))
