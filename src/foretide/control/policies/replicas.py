"""Replicas for the load that is coming: pa-sps's MAPE loop, once every td seconds.

Three departures. The paper's replicas all work at the same time; the stages of a micro-batch take turns, and what one
stage takes the others cannot have. So an operator may be busy only for its part of the time: in micro-batches the
share that makes the sum of all replicas least (work w_i gets sqrt(w_i) / sum of sqrt(w)). And a backlog adds at most
`backlog_replicas`: the paper wants it gone within one interval, which overshoots after every step of the load. And a
sudden change of the load does not wait for the end of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foretide.control.actions.registry import SetReplicas
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.measured import NotYet, arrivals, network
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.errors import ControlSettingError
from foretide.planning.replicas import ReplicaFlow, ReplicaInput, ReplicaPlan, plan_replicas
from foretide.queueing.network import Network


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """How far ahead, and with how much room.

    Attributes:
        period: td, seconds between two plans.
        horizon: Seconds ahead for which to plan; None for one period.
        quantile: Of the forecast's distribution; None for its mean.
        busy: Share of the time that replicas may work; the rest is room for noise, and for what a batch costs itself.
        backlog_replicas: Most replicas that a backlog may add to those that the load needs; None as the paper has it.
        sudden: A load that has changed by more than this share since the last look does not wait for the period. It is
            looked at once more, so that a step that was seen halfway is answered in one decision; then it is
            planned for. None waits for the period whatever happens.
    """

    period: Seconds = 30.0
    horizon: Seconds | None = None
    quantile: float | None = None
    busy: float = 0.8
    backlog_replicas: int | None = 1
    sudden: float | None = 0.2

    def __post_init__(self) -> None:
        horizon = self.period if self.horizon is None else self.horizon
        level = 0.5 if self.quantile is None else self.quantile
        if not (self.period > 0 and horizon >= 0 and 0 < level < 1 and 0 < self.busy <= 1) or (
            min(self.backlog_replicas or 0, self.sudden or 0) < 0
        ):
            raise ControlSettingError(
                f"replicas: {self} makes no sense; a period above 0, busy in 0..1, a quantile between 0 and 1"
            )


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """When it planned last, the load at the last look, and the load before a sudden change that is in doubt."""

    planned: float = -math.inf
    load: float | None = None
    before: float | None = None


@dataclass(frozen=True, slots=True)
class Replicas:
    """Plans active replicas from the load that is foreseen, or from the last value where nothing may vote."""

    settings: ReplicaSettings = field(default_factory=ReplicaSettings)
    name: str = "replicas"

    def start(self) -> ReplicaState:
        """Nothing planned yet."""
        return ReplicaState()

    def wish(self, state: ReplicaState, world: World) -> tuple[ReplicaState, list[Wish]]:
        """Monitor, analyse and plan; what comes of it is executed elsewhere."""
        horizon = self.settings.period if self.settings.horizon is None else self.settings.horizon
        rates = arrivals(world, horizon, self.settings.quantile)
        if isinstance(rates, NotYet):
            return state, []
        load = sum(rates.values())
        doubtful = state.before is None and self._is_sudden(state.load, load)
        confirmed = state.before is not None and self._is_sudden(state.before, load)
        looked = replace(state, load=load, before=state.load if doubtful else None)
        if doubtful or (world.at - state.planned < self.settings.period and not confirmed):
            return looked, []
        measured = network(world, rates)
        if isinstance(measured, NotYet):
            return looked, []
        plans = self._plans(world, measured, rates)
        return replace(looked, planned=world.at), [
            self._wished(world, edge, plans[part.name]) for edge, part in world.setup.by_edge.items()
        ]

    def _is_sudden(self, before: float | None, load: float) -> bool:
        if self.settings.sudden is None or before is None:
            return False
        return abs(load - before) > self.settings.sudden * max(before, load)

    def _plans(self, world: World, measured: Network, rates: Mapping[str, float]) -> dict[str, ReplicaPlan]:
        """What load alone needs, and with the backlog, as far as that may add to it."""
        allowed = _busy_shares(world, measured, self.settings.busy)
        coming = {spout: rate * self.settings.period for spout, rate in rates.items()}
        queued = {spout: _backlog(world, spout) for spout in world.setup.spouts}
        edges = [ReplicaFlow(flow.source, flow.target, flow.gain) for flow in measured.flows]
        if measured.loops:  # the paper's equations know no loops; the traffic equations do
            edges, waiting = [], sum(queued.values())
            coming = {name: rate * self.settings.period for name, rate in measured.arrival_rates.items()}
            queued = {name: waiting * visits for name, visits in measured.visits.items()}
        bolts = [
            ReplicaInput(
                part.name,
                1 / measured.operator(part.name).service_rate / allowed[part.name],
                processed=1.0,
                queued=queued.get(part.name, 0.0),
                pool=part.pool,
                active=world.replicas(part.name),
            )
            for part in world.setup.operators
        ]
        full = plan_replicas(bolts, edges, coming, self.settings.period)
        if self.settings.backlog_replicas is None or not any(queued.values()):
            return full
        empty = [ReplicaInput(b.name, b.execution_time, b.processed, 0.0, b.pool, b.active) for b in bolts]
        bare = plan_replicas(empty, edges, coming, self.settings.period)
        return {name: _at_most(full[name], bare[name].replicas + self.settings.backlog_replicas) for name in full}

    def _wished(self, world: World, edge: str, plan: ReplicaPlan) -> Wish:
        per_second = plan.received / self.settings.period
        reason = f"{per_second:,.0f} tuples/s are expected behind '{edge}', which takes {plan.exact:.2f} replicas"
        if plan.backlog:
            reason += f" with a backlog of {plan.backlog:,.0f}"
        if plan.short:
            reason += "; the pool is too small for it"
        busy = self.settings.busy * min(plan.exact / plan.replicas, 1.0)
        now = world.observed.replicas(edge)
        words = f"replicas at work {busy:.0%} of their time" + (f" (now {now} replicas)" if now else "")
        return Wish(self.name, SetReplicas(edge, plan.replicas), reason, Expectation(words, "utilization", busy))


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


def _backlog(world: World, spout: str) -> float:
    """Tuples that wait at a spout beyond those that arrive within an ordinary batch."""
    lag = world.snapshot.value("lag", spout) or 0.0
    rows, rate = world.snapshot.value("input_rows"), world.snapshot.value("input_rows_per_second")
    ordinary = rows if rows is not None and rate else 0.0
    return max(0.0, lag - ordinary)
