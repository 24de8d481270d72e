"""Restarts with a larger pool, or more state partitions, where the present ones are too small.

A pool is fixed while a query runs. One that is too small for the load makes latency grow as long as the load stays, and
one that is too small for the target keeps it missed; a restart costs its own time once. It is wished for if several
plans in a row say so, if there are cores for more tasks, and if rows wait less in all with it than without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.control.actions.registry import Restart
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.policies.batch_allocation import BatchPlanner
from foretide.control.world.measured import cores_in_service
from foretide.control.world.world import World
from foretide.formatting import format_duration

_PATIENCE = 3
"""Plans in a row that find a pool too small."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """An operator with too few tasks: how many it takes, seconds that rows wait longer on average, and why."""

    tasks: int
    waiting: float
    why: str


@dataclass(frozen=True, slots=True)
class PoolState:
    """What is carried from plan to plan.

    Attributes:
        short: How many plans in a row have found each operator's pool too small.
        asked: The last restart that was wished for, and when.
        seconds: What the last restart took until it was in force; None before the first.
    """

    short: Mapping[str, int] = field(default_factory=dict)
    asked: tuple[Restart, float] | None = None
    seconds: float | None = None


def larger_pools(
    policy: str, state: PoolState, shortages: Mapping[str, Shortage], world: World, horizon: float
) -> tuple[PoolState, Wish | None]:
    """The next state, and the wish for a restart, if it pays."""
    state = _restarted(state, world)
    count = {name: state.short.get(name, 0) + 1 for name in shortages}
    state = PoolState(count, state.asked, state.seconds)
    if state.asked is not None and world.at - state.asked[1] < horizon:
        return state, None
    lasting = {
        name: shortages[name]
        for name, plans in count.items()
        if plans >= _PATIENCE and (size_of(name, world, shortages[name].tasks) or 0) > world.setup.by_name[name].pool
    }
    cost = Restart.cost.seconds if state.seconds is None else state.seconds
    waiting = max((shortage.waiting for shortage in lasting.values()), default=0.0)
    if waiting * horizon <= cost * cost:
        return state, None
    restart = _restart(lasting, world)
    why = "; ".join(shortage.why for shortage in lasting.values())
    why += f": {format_duration(horizon)} long rows would wait {format_duration(waiting)} longer on average, "
    why += f"and a restart costs {format_duration(cost)}"
    expected = Expectation("the pools are large enough", world.target.metric)
    return PoolState(count, (restart, world.at), state.seconds), Wish(policy, restart, why, expected)


def short_of_target(planner: BatchPlanner, horizon: float) -> dict[str, Shortage]:
    """Operators whose few tasks keep a target of micro-batches from being held, whatever the executors."""
    world = planner.world
    if world.target.latency is None or planner.cheapest() is not None:
        return {}
    parts = [part for part in world.setup.operators if size_of(part.name, world) is not None]
    enlarged = planner.with_large_pools({part.name for part in parts})
    after = enlarged.cheapest() or enlarged.fastest()
    waiting = planner.waiting(planner.fastest(), horizon) - planner.waiting(after, horizon)
    goal = f"a {world.target.quantile} latency of {format_duration(world.target.latency)}"
    tasks = after.cores
    return {
        part.name: Shortage(tasks, waiting, f"{goal} takes {tasks} tasks of '{part.name}', which has {part.pool}")
        for part in parts
        if tasks > part.pool
    }


def _restarted(state: PoolState, world: World) -> PoolState:
    """Note what a restart took, once it is in force."""
    if state.asked is None or state.short == {} or not state.asked[0].in_force(world.observed):
        return state
    return PoolState({}, state.asked, world.at - state.asked[1])


def size_of(name: str, world: World, tasks: int | None = None) -> int | None:
    """The tasks that an operator can have after a restart, at most one for each core; None if no restart changes it."""
    part, cluster = world.setup.by_name[name], world.setup.executors
    changeable = world.setup.can_repartition if part.stateful else part.edge is not None and world.setup.can_enlarge
    cores = cores_in_service(world) if cluster is None else cluster[1] * world.setup.cores_per_executor
    return (cores if tasks is None else min(tasks, cores)) if changeable else None


def _restart(shortages: Mapping[str, Shortage], world: World) -> Restart:
    sizes = {name: size_of(name, world, shortage.tasks) or shortage.tasks for name, shortage in shortages.items()}
    parts = world.setup.by_name
    pools = {str(parts[name].edge): size for name, size in sizes.items() if not parts[name].stateful}
    partitions = max((size for name, size in sizes.items() if parts[name].stateful), default=None)
    return Restart("more tasks are needed", partitions, pools)
