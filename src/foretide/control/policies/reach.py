"""Whether a pipeline can reach its latency target with the slots and pools that there are, and what it would take."""

from __future__ import annotations

from foretide.control.policies.allocation import Present, Replicas, as_sums, expected_mean
from foretide.control.world.world import World
from foretide.errors import PlanningError
from foretide.formatting import format_duration
from foretide.planning.processors import assign_processors
from foretide.planning.reallocation import Goals, fewest_for
from foretide.queueing.network import Network
from foretide.queueing.sojourn import expected_tuple_latency

_MOST = 1024
"""Processors of an operator up to which it is said how many would be needed."""


def out_of_reach(steered: Network, now: Present, goals: Goals, world: World, budget: int | None) -> str | None:
    """That T_max is missed and no allowed allocation is expected to meet it, in words; None if one is.

    Args:
        steered: The operators whose replicas can be changed.
        now: The present allocation.
        goals: With T_max as a latency of the mean.
        world: The rest.
        budget: K_max for these operators: processors that they may have; None for no limit but the pools.
    """
    if goals.t_max is None or now.latency <= goals.t_max:
        return None
    current = {name: world.replicas(name) for name in steered.names}
    pools = {name: world.setup.by_name[name].pool for name in steered.names}
    allowed = _fewest(steered, current, now, goals, pools)
    if allowed is not None and (budget is None or sum(allowed.values()) <= budget):
        return None
    target = world.target
    said = f"{target.quantile} latency of {format_duration(target.latency or 0.0)} is out of reach"
    reached = _reached(steered, current, now, _best(steered, pools, budget))
    return f"{said}: {reached}; {_needed(steered, current, now, goals, pools, budget)}"


def _fewest(steered: Network, current: Replicas, now: Present, goals: Goals, pools: Replicas | None) -> Replicas | None:
    """The fewest processors that meet T_max; None if none do."""
    total = as_sums(steered, current, now)
    t_max, measured = total.of(goals).t_max or 0.0, total.of_latency(now.latency)
    try:
        return fewest_for(steered, current, t_max, measured, pools).processors
    except PlanningError:
        return None


def _best(steered: Network, pools: Replicas, budget: int | None) -> Replicas | None:
    """The best that is allowed; None if that does not keep up."""
    most = sum(pools.values())
    try:
        return assign_processors(steered, most if budget is None else min(budget, most), pools).processors
    except PlanningError:
        return None


def _reached(steered: Network, current: Replicas, now: Present, best: Replicas | None) -> str:
    then = None if best is None else expected_mean(steered, current, best, now)
    if best is None or then is None:
        return "what is allowed cannot keep up with the load"
    value = format_duration(then * now.ratio)
    return f"{value} is expected with {sum(best.values())} processors, the best that is allowed"


def _needed(
    steered: Network, current: Replicas, now: Present, goals: Goals, pools: Replicas, budget: int | None
) -> str:
    """What would meet the target."""
    wanted = _fewest(steered, current, now, goals, dict.fromkeys(steered.names, _MOST))
    if wanted is None:
        least = format_duration((expected_tuple_latency(steered) + now.outside) * now.ratio)
        return f"more would not help: {least} would be left if no tuple waited for a processor"
    total = sum(wanted.values())
    small = [
        f"a pool of {tasks} for '{name}' ({pools[name]} now)" for name, tasks in wanted.items() if tasks > pools[name]
    ]
    slots = (
        [] if budget is None or total <= budget else [f"{total} slots for these operators (K_max leaves them {budget})"]
    )
    return f"{' and '.join(slots + small)} would be needed"
