"""Replicas for the forecast load: the MAPE loop of PA-SPS, once every td seconds.

Queues between operators are counted where they are measured: rows in flight on an edge, and the lag of a spout.

It departs from the paper in three ways. The paper's replicas all work at the same time; the stages of a micro-batch
take turns, and the time that one stage takes is lost to the others. So in micro-batches an operator may be busy only
for the share of the time that minimises the sum of all replicas (work w_i gets sqrt(w_i) / sum of sqrt(w)). A backlog
adds at most `max_backlog_replicas`: the paper wants it gone within one interval, which overshoots after every step of
the load. And a sudden change of the load does not wait for the end of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.policies.larger_pools import PoolState, Shortage, larger_pools, size_of
from foretide.control.policies.splits import scale
from foretide.control.world.measured import NotYet, network
from foretide.control.world.outlook import Foreseen, foreseen_within
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.planning.replicas import ReplicaFlow, ReplicaInput, ReplicaPlan, plan_replicas
from foretide.queueing.network import Network

_FRESH = 10.0
_CHANGING = 0.05
"""A plan waits for one more cycle if the load is changing by more than this share: it may be seen in part."""


@dataclass(frozen=True, slots=True)
class ReplicaSettings(Bounded):
    """How far ahead to plan, and with how much reserve."""

    section: ClassVar[str] = "replicas"

    period: Annotated[Seconds, Gt(0), Doc("td, seconds between two plans; by default 5 in real time.")] = 30.0
    horizon: Annotated[Seconds | None, Ge(0), Doc("Seconds ahead for which to plan; none for one period.")] = None
    miss_cost: Annotated[
        float,
        Gt(0),
        Doc(
            "What too few replicas cost over what too many do; of the forecast load, the quantile c / (c + 1) is used."
        ),
        Scope.ADVANCED,
    ] = 9.0
    target_utilization: Annotated[
        float,
        Interval(gt=0, le=1),
        Doc("Share of the time that replicas may be busy; the rest is for noise and for the overhead of batches."),
    ] = 0.8
    max_backlog_replicas: Annotated[
        int | None,
        Ge(0),
        Doc("Maximum replicas that a backlog adds to those that the load needs; none for as many as in the paper."),
        Scope.PYTHON_ONLY,
    ] = 1
    sudden_change: Annotated[
        float | None,
        Ge(0),
        Doc(
            "A load that has changed by more than this share since the last cycle does not wait for the period: if "
            "the next cycle confirms it, it is planned for at once. none always waits."
        ),
        Scope.ADVANCED,
    ] = 0.2
    restart_horizon: Annotated[
        Seconds | None,
        Gt(0),
        Doc(
            "A pool that is too small for the load is made larger by a restart, if rows wait less in all with it over "
            "so many seconds; at most one restart in that time. none never restarts."
        ),
    ] = 600.0


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """When it planned last, the load in the last cycle, and the load before a sudden change that is not confirmed."""

    planned: float = -math.inf
    load: float | None = None
    before: float | None = None
    pools: PoolState = field(default_factory=PoolState)


@dataclass(frozen=True, slots=True)
class Replicas:
    """Plans active replicas from the forecast load, or from the last value where no forecast may vote."""

    settings: ReplicaSettings = field(default_factory=ReplicaSettings)
    name: str = "replicas"

    def start(self) -> ReplicaState:
        """Nothing planned yet."""
        return ReplicaState()

    def wish(self, state: ReplicaState, world: World) -> tuple[ReplicaState, list[Wish]]:
        """Monitor, analyse and plan; the plan is executed elsewhere."""
        horizon = self.settings.period if self.settings.horizon is None else self.settings.horizon
        coming = foreseen_within(world, horizon, self.settings.miss_cost)
        if isinstance(coming, NotYet):
            return state, []
        rates, load = coming.rates, coming.total
        due = world.at - state.planned >= self.settings.period
        share = min(_CHANGING, self.settings.sudden_change or 0.0) if due else None
        unconfirmed = state.before is None and self._is_sudden(state.load, load, share)
        confirmed = state.before is not None and self._is_sudden(state.before, load)
        updated = replace(state, load=load, before=state.load if unconfirmed else None)
        if unconfirmed or not (due or confirmed):
            return updated, []
        measured = network(world, rates)
        if isinstance(measured, NotYet):
            return updated, []
        plans = self._plans(world, measured, rates)
        planned = [(edge, plans[part.name]) for edge, part in world.setup.by_edge.items() if part.name in plans]
        wished = [self._wished(world, edge, plan, coming.foreseen) for edge, plan in planned]
        updated, restart = self._restart(replace(updated, planned=world.at), plans, world)
        return updated, [wish for wish in (restart, *wished) if wish is not None]

    def _restart(
        self, state: ReplicaState, plans: Mapping[str, ReplicaPlan], world: World
    ) -> tuple[ReplicaState, Wish | None]:
        """A restart with larger pools, where that pays."""
        if self.settings.restart_horizon is None:
            return state, None
        horizon = self.settings.restart_horizon
        short = {name: _shortage(name, plan, world, horizon) for name, plan in plans.items() if plan.short}
        pools, wish = larger_pools(self.name, state.pools, short, world, horizon)
        return replace(state, pools=pools), wish

    def _is_sudden(self, before: float | None, load: float, share: float | None = None) -> bool:
        """Whether the load has changed by more than a share, that of the settings by default."""
        if self.settings.sudden_change is None or before is None:
            return False
        return abs(load - before) > (self.settings.sudden_change if share is None else share) * max(before, load)

    def _plans(self, world: World, measured: Network, rates: Mapping[str, float]) -> dict[str, ReplicaPlan]:
        """Replicas that the load needs, and those that the backlog may add."""
        shares = _busy_shares(world, measured, self.settings.target_utilization)
        coming = {spout: rate * self.settings.period for spout, rate in rates.items()}
        queued = {name: _backlog(world, name) for name in measured.names}
        edges = [ReplicaFlow(flow.source, flow.target, flow.gain) for flow in measured.flows]
        if measured.loops:  # the paper's equations know no loops; the traffic equations do
            edges = []
            coming = {name: rate * self.settings.period for name, rate in measured.arrival_rates.items()}
            queued = _with_what_follows(measured, queued)
        bolts = [
            ReplicaInput(
                part.name,
                1 / measured.operator(part.name).service_rate / shares[part.name],
                processed=1.0,
                queued=queued.get(part.name, 0.0),
                pool=part.pool,
                active=world.replicas(part.name),
            )
            for part in world.setup.operators
            if part.name in measured.names  # an operator with state in real time has no measured service time
        ]
        full = plan_replicas(bolts, edges, coming, self.settings.period)
        if self.settings.max_backlog_replicas is None or not any(queued.values()):
            return full
        without_backlog = [ReplicaInput(b.name, b.execution_time, b.processed, 0.0, b.pool, b.active) for b in bolts]
        load_only = plan_replicas(without_backlog, edges, coming, self.settings.period)
        added = self.settings.max_backlog_replicas
        return {name: _at_most(full[name], load_only[name].replicas + added) for name in full}

    def _wished(self, world: World, edge: str, plan: ReplicaPlan, foreseen: Foreseen | None) -> Wish | None:
        action = scale(world, edge, plan.replicas)
        if action is None:
            return None
        per_second = plan.received / self.settings.period
        reason = f"{per_second:,.0f} tuples/s are expected behind '{edge}', which takes {plan.exact:.2f} replicas"
        reason = reason if foreseen is None else f"{foreseen.describe()}: {reason}"
        if plan.backlog:
            reason += f" with a backlog of {plan.backlog:,.0f}"
        if plan.short:
            reason += "; the pool is too small for it"
        busy = self.settings.target_utilization * min(plan.exact / plan.replicas, 1.0)
        now = world.replicas(world.setup.by_edge[edge].name)
        words = f"replicas at work {busy:.0%} of their time" + f" (now {now} replicas)"
        return Wish(self.name, action, reason, Expectation(words, "utilization", busy), foreseen=foreseen)


def _shortage(name: str, plan: ReplicaPlan, world: World, horizon: float) -> Shortage:
    """Rows that are not processed wait: in the end for as much of the horizon as the share of those."""
    pool, tasks = world.setup.by_name[name].pool, math.ceil(plan.exact)
    size = size_of(name, world, tasks) or tasks
    waiting = horizon / 2 * max(1 - pool / size, 0.0)
    return Shortage(tasks, waiting, f"'{name}' takes {plan.exact:.1f} tasks and has {pool}")


def _at_most(plan: ReplicaPlan, replicas: int) -> ReplicaPlan:
    kept = min(plan.replicas, replicas)
    return ReplicaPlan(plan.received, plan.backlog, plan.exact, kept, plan.change + kept - plan.replicas, plan.short)


def _busy_shares(world: World, measured: Network, busy: float) -> dict[str, float]:
    """The share of the time that each operator may be busy."""
    if world.setup.mode == "pipeline":
        return dict.fromkeys(measured.names, busy)
    work = dict(zip(measured.names, measured.load_array.tolist(), strict=True))
    steered = {part.name for part in world.setup.by_edge.values()}
    fixed = sum(work[name] / world.replicas(name) for name in work if name not in steered)
    left = max(busy - fixed, busy / 10)
    roots = {name: math.sqrt(work[name]) for name in steered}
    total = sum(roots.values())
    return {name: left * roots[name] / total if roots.get(name) else busy for name in work}


def _backlog(world: World, name: str) -> float:
    """Tuples that wait at an operator (|q| of eq 7): at a spout what is due, elsewhere what is in front of it.

    What arrives while an ordinary micro-batch runs is no backlog. In real time tuples are taken at once, so all are.
    """
    part = world.setup.by_name[name]
    if not part.spout:
        waiting = None if part.edge is None else world.snapshot.value("in_flight", part.edge, within=_FRESH)
        return waiting or 0.0
    lag = world.snapshot.value("lag", name, within=_FRESH) or 0.0
    if world.setup.mode == "pipeline":
        return lag
    rows, rate = world.snapshot.value("input_rows"), world.snapshot.value("input_rows_per_second")
    ordinary = rows if rows is not None and rate else 0.0
    return max(0.0, lag - ordinary)


def _with_what_follows(measured: Network, queued: Mapping[str, float]) -> dict[str, float]:
    """Tuples that each operator has to handle for those that wait anywhere, loops included."""
    waiting = np.array([queued[name] for name in measured.names])
    handled = np.linalg.solve(np.eye(len(waiting)) - measured.gains.T, waiting)
    return dict(zip(measured.names, np.maximum(handled, 0.0).tolist(), strict=True))
