"""More or fewer replicas of an edge while some of its tasks are kept from tuples on purpose."""

from __future__ import annotations

from foretide.control.actions.registry import SetReplicas, SetSplit
from foretide.control.world.setup import full_tasks
from foretide.control.world.world import World


def scale(world: World, edge: str, replicas: int) -> SetReplicas | SetSplit | None:
    """The action that gives an edge so many replicas; None to leave it as it is.

    In a pipeline a task may get next to nothing because its worker is slow. It keeps that share and does not count:
    other tasks of the pool take its place. As long as that lasts, no replica is given back.
    """
    part, weights = world.setup.by_edge[edge], world.observed.routes.get(edge, ())
    wanted = min(replicas, part.pool)
    full = full_tasks(weights)
    if world.setup.mode != "pipeline" or len(full) == len(weights) - weights.count(0):
        return SetReplicas(edge, wanted)
    places = world.observed.placements.get(edge, (None,) * len(weights))
    slow = {places[task] for task, weight in enumerate(weights) if weight > 0 and task not in full}
    spare = [task for task, weight in enumerate(weights) if weight == 0 and places[task] not in slow]
    more = spare[: max(wanted - len(full), 0)]
    if not more:
        return None
    usual = sum(weights[task] for task in full) / len(full)
    return SetSplit(edge, tuple(usual if task in more else weight for task, weight in enumerate(weights)))
