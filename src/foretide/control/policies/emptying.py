"""Splits that keep every tuple away from some workers, and give their tasks what they had before."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from foretide.control.actions.registry import SetSplit
from foretide.control.policies.worker_shares import split_without
from foretide.control.world.setup import Weights
from foretide.control.world.world import World


def splits_away(
    world: World, workers: AbstractSet[str], before: Mapping[str, Weights]
) -> tuple[dict[str, Weights], list[SetSplit]]:
    """The weights to give back later, and the splits that are wanted now.

    Tasks of the pool on other workers take the place of those that get nothing. An edge whose tasks are all on these
    workers keeps its split.

    Args:
        world: With placements.
        workers: Those to be kept empty.
        before: Of edges that were split away from workers, the weights from before that.
    """
    kept: dict[str, Weights] = {}
    splits: list[SetSplit] = []
    for edge, places in world.observed.placements.items():
        now, usual = world.observed.routes.get(edge, ()), before.get(edge, ())
        if edge not in world.setup.by_edge or not now:
            continue
        known = len(usual) == len(now)  # or it was restarted with another pool
        emptied = workers & set(places)
        if emptied:
            kept[edge] = usual if known else now
            away = split_without(world, edge, dict.fromkeys(emptied, 0.0), 0.0, kept[edge])
            splits += [] if away is None else [SetSplit(edge, away)]
        elif known:
            splits.append(SetSplit(edge, usual))
    return kept, splits
