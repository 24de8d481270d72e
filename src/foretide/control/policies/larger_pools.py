"""Restarts with a larger pool, or more state partitions, where the present ones are too small for the load.

A pool is fixed while a query runs. With one that is too small a part of the load is never processed, so latency grows
as long as the load stays; a restart costs its own time once. It is wished for if several plans in a row say so, if
there are cores for more tasks, and if tuples would wait longer after the horizon than a restart takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.control.actions.registry import Restart
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.measured import cores_in_service
from foretide.control.world.world import World
from foretide.formatting import format_duration
from foretide.planning.replicas import ReplicaPlan

_PATIENCE = 3
"""Plans in a row that find a pool too small."""


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
    policy: str, state: PoolState, plans: Mapping[str, ReplicaPlan], world: World, horizon: float
) -> tuple[PoolState, Wish | None]:
    """The next state, and the wish for a restart, if it pays."""
    state = _restarted(state, world)
    count = {name: state.short.get(name, 0) + 1 for name, plan in plans.items() if plan.short}
    state = PoolState(count, state.asked, state.seconds)
    if state.asked is not None and world.at - state.asked[1] < horizon:
        return state, None
    lasting = {name: plans[name] for name, plans_in_a_row in count.items() if plans_in_a_row >= _PATIENCE}
    sizes = {name: size for name, plan in lasting.items() if (size := _size(name, plan, world)) is not None}
    cost = Restart.cost.seconds if state.seconds is None else state.seconds
    waiting = max((horizon * (1 - world.setup.by_name[name].pool / size) for name, size in sizes.items()), default=0.0)
    if waiting <= cost:
        return state, None
    wish = _wish(policy, sizes, lasting, waiting, cost, horizon, world)
    assert isinstance(wish.action, Restart)  # noqa: S101 - it was made so
    return PoolState(count, (wish.action, world.at), state.seconds), wish


def _restarted(state: PoolState, world: World) -> PoolState:
    """Note what a restart took, once it is in force."""
    if state.asked is None or state.short == {} or not state.asked[0].in_force(world.observed):
        return state
    return PoolState({}, state.asked, world.at - state.asked[1])


def _size(name: str, plan: ReplicaPlan, world: World) -> int | None:
    """The tasks that an operator needs and can have; None if that is no more than it has, or cannot be changed."""
    part, cluster = world.setup.by_name[name], world.setup.executors
    changeable = world.setup.can_repartition if part.stateful else part.edge is not None and world.setup.can_enlarge
    cores = cores_in_service(world) if cluster is None else cluster[1] * world.setup.cores_per_executor
    size = min(math.ceil(plan.exact), cores)
    return size if changeable and size > part.pool else None


def _wish(
    policy: str,
    sizes: Mapping[str, int],
    plans: Mapping[str, ReplicaPlan],
    waiting: float,
    cost: float,
    horizon: float,
    world: World,
) -> Wish:
    parts = world.setup.by_name
    pools = {str(parts[name].edge): size for name, size in sizes.items() if not parts[name].stateful}
    partitions = max((size for name, size in sizes.items() if parts[name].stateful), default=None)
    needs = ", ".join(f"'{name}' takes {plans[name].exact:.1f} tasks and has {parts[name].pool}" for name in sizes)
    why = (
        f"{needs}: after {format_duration(horizon)} tuples would wait {format_duration(waiting)}, and a restart costs "
        f"{format_duration(cost)}"
    )
    restart = Restart("the load takes more tasks", partitions, pools)
    return Wish(policy, restart, why, Expectation("the pools are large enough for the load", world.target.metric))
