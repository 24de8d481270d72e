"""Processors by drs: hold T_max with the fewest, or the least latency within K_max, and move at most every T_ra.

In a pipeline an operator's processors are its replicas. In micro-batches stages take turns on all cores, so what is
bought and given back is cores, by the executor; replicas follow the cores. Either way the model is corrected by what
is measured: where it has been off by a factor for what runs now, the bound it is asked for is divided by that factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foretide.control.actions.registry import SetExecutors, SetReplicas
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.measured import FRESH, NotYet, arrivals, batch_costs, network
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.errors import (
    BatchOverloadError,
    BudgetTooSmallError,
    ControlSettingError,
    LatencyOutOfReachError,
    PlanningError,
)
from foretide.planning.batches import BatchPlan, min_cores, plan_batches
from foretide.planning.processors import assign_processors
from foretide.planning.reallocation import Goals, Move, propose
from foretide.queueing.microbatch import batch_model
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Network
from foretide.queueing.sojourn import expected_total_sojourn


@dataclass(frozen=True, slots=True)
class ProcessorSettings:
    """When to look and when to move.

    Attributes:
        period: Seconds between two looks.
        t_ra: Least seconds between two re-allocations.
        pause: Seconds that one costs.
        worth: Seconds a new allocation is expected to be of use; at least t_ra.
        horizon: Seconds ahead whose load is planned for; None plans for what is measured.
        memory: Weight of the past in the measured latency, from 0 to below 1.
    """

    period: Seconds = 10.0
    t_ra: Seconds = 60.0
    pause: Seconds = 0.0
    worth: Seconds = 600.0
    horizon: Seconds | None = 30.0
    memory: float = 0.5

    def __post_init__(self) -> None:
        times = (self.period, self.t_ra, self.pause, self.horizon or 0.0)
        if min(times) < 0 or self.worth < self.t_ra or not 0 <= self.memory < 1:
            raise ControlSettingError(f"processors: {self} makes no sense; times from 0, worth >= t_ra, memory in 0..1")


@dataclass(frozen=True, slots=True)
class ProcessorState:
    """When it looked last, since when the present allocation is in force, and the smoothed latency in seconds."""

    looked: float = -math.inf
    moved: float = -math.inf
    allocation: tuple[int, ...] | None = None
    latency: float | None = None


@dataclass(frozen=True, slots=True)
class Processors:
    """Adds above T_max, gives back below T_min, and splits what there is as well as can be."""

    settings: ProcessorSettings = field(default_factory=ProcessorSettings)
    name: str = "processors"

    def start(self) -> ProcessorState:
        """Nothing seen yet."""
        return ProcessorState()

    def wish(self, state: ProcessorState, world: World) -> tuple[ProcessorState, list[Wish]]:
        """Once a period, the allocation that the scheduler proposes, if any."""
        latency = world.snapshot.value("latency_mean_ms", within=FRESH)
        if latency is None or world.at - state.looked < self.settings.period:
            return state, []
        seconds, past = latency / 1000.0, self.settings.memory
        smooth = seconds if state.latency is None else past * state.latency + (1 - past) * seconds
        state = replace(_moved(state, world), looked=world.at, latency=smooth)
        rates = arrivals(world, self.settings.horizon)
        measured = rates if isinstance(rates, NotYet) else network(world, rates)
        if isinstance(measured, NotYet) or measured.external_rate == 0 or world.at - state.moved < self.settings.t_ra:
            return state, []
        pipeline = world.setup.mode == "pipeline"
        return state, self._pipeline(measured, smooth, world) if pipeline else self._batches(measured, smooth, world)

    # ---- a pipeline of queues

    def _pipeline(self, measured: Network, latency: float, world: World) -> list[Wish]:
        steered = _steered(measured, world)
        if steered is None:
            return []
        current = {name: world.replicas(name) for name in steered.names}
        pools = {name: world.setup.by_name[name].pool for name in steered.names}
        goals = Goals(
            world.target.latency, world.target.relaxed, pause=self.settings.pause, t_ra=0.0, horizon=self.settings.worth
        )
        budget = _budget(world)
        try:
            proposal = propose(steered, current, goals, latency, pools=pools)
            wanted, reason = proposal.processors, proposal.reason
            if budget is not None and sum(wanted.values()) > budget:
                wanted = assign_processors(steered, budget, pools).processors
                reason = f"{reason}; within a budget of {world.target.budget}"
            elif proposal.move is Move.STAY:
                wanted, reason = _fine_tuned(steered, current, latency, world.target, pools, budget)
        except BudgetTooSmallError as error:
            wanted, reason = current, f"{error}: stays as it is"
        except PlanningError as error:
            fits = budget is None or sum(pools.values()) <= budget
            wanted, reason = (pools if fits else current), f"no allocation keeps up ({error})"
        return self._replicas(wanted, f"mean latency is {latency:.3g} s; {reason}", world)

    def _replicas(self, wanted: Mapping[str, int], reason: str, world: World) -> list[Wish]:
        expected = Expectation("mean latency within the target", "latency_mean_ms")
        return [
            Wish(self.name, SetReplicas(edge, min(wanted[part.name], part.pool)), reason, expected)
            for edge, part in world.setup.by_edge.items()
        ]

    # ---- micro-batches

    def _batches(self, measured: Network, latency: float, world: World) -> list[Wish]:
        costs = batch_costs(world)
        if isinstance(costs, NotYet):
            return []
        pools = {part.name: part.pool if part.edge else world.replicas(part.name) for part in world.setup.operators}
        try:
            plan, why = self._plan(measured, costs, latency, world, pools)
        except (LatencyOutOfReachError, BatchOverloadError) as error:
            plan, why = None, f"{error}: all there is"
        cores = self._most_cores(world, costs) if plan is None else plan.cores
        replicas = {name: min(pool, cores) for name, pool in pools.items()} if plan is None else plan.replicas
        reason = f"mean latency is {latency:.3g} s; {why}"
        expected = Expectation(
            "as much as there is" if plan is None else f"mean latency of about {plan.steady.mean_latency:.3g} s",
            "latency_mean_ms",
            None if plan is None else plan.steady.mean_latency * 1000,
        )
        wishes = [
            Wish(self.name, SetReplicas(edge, min(replicas[part.name], part.pool)), reason, expected)
            for edge, part in world.setup.by_edge.items()
        ]
        if world.setup.executors is not None:
            lost = len(world.observed.executors) - len(world.observed.in_service)
            count = math.ceil(cores / world.setup.cores_per_executor) + lost
            wishes.append(Wish(self.name, SetExecutors(max(count, 1)), reason, expected))
        return wishes

    def _plan(
        self, measured: Network, costs: BatchCosts, latency: float, world: World, pools: Mapping[str, int]
    ) -> tuple[BatchPlan, str]:
        """The plan for T_max where it is missed or undercut by far; else the best use of the cores there are."""
        goal, most = world.target.latency, self._most_cores(world, costs)
        if goal is None or world.setup.executors is None:
            chosen = min(most, costs.cores) if world.target.budget is None else most
            return plan_batches(measured, replace(costs, cores=chosen), pools), f"the best use of {chosen} cores"
        if world.target.relaxed <= latency <= goal:
            return plan_batches(measured, costs, pools), "within the target: the best use of the cores there are"
        off = self._off(measured, costs, latency, world, pools)
        plan = min_cores(measured, costs, goal / off, pools)
        if latency > goal and plan.cores <= costs.cores:
            plan = plan_batches(measured, replace(costs, cores=min(costs.cores + 1, most)), pools)
        if plan.cores > most:
            plan = plan_batches(measured, replace(costs, cores=most), pools)
        side = "above" if latency > goal else "below"
        bound = goal if latency > goal else world.target.relaxed
        return plan, f"{side} {bound:g} s: {plan.cores} cores are the fewest that do (measured {off:.2f} x the model)"

    def _off(
        self, measured: Network, costs: BatchCosts, latency: float, world: World, pools: Mapping[str, int]
    ) -> float:
        """What was measured over what the model says of what runs now; 1 where the model says it cannot run."""
        active = {name: min(world.replicas(name), pools[name]) for name in measured.names}
        try:
            model = batch_model(measured, costs, active, pools).steady(measured.external_rate).mean_latency
        except BatchOverloadError:
            return 1.0
        return min(max(latency / model, 0.5), 4.0) if model > 0 else 1.0

    def _most_cores(self, world: World, costs: BatchCosts) -> int:
        cluster = (
            costs.cores if world.setup.executors is None else world.setup.executors[1] * world.setup.cores_per_executor
        )
        return cluster if world.target.budget is None else min(cluster, world.target.budget)


def _moved(state: ProcessorState, world: World) -> ProcessorState:
    """T_ra counts from when an allocation was seen to change, not from when a change was wished for."""
    now = (*(world.replicas(part.name) for part in world.setup.operators), len(world.observed.executors))
    since = state.moved if state.allocation in {None, now} else world.at
    return replace(state, allocation=now, moved=since)


def _steered(measured: Network, world: World) -> Network | None:
    """The part of the network whose processors can be changed; what others send there enters it from outside."""
    names = [part.name for part in world.setup.by_edge.values()]
    flows = tuple(flow for flow in measured.flows if {flow.source, flow.target} <= set(names))
    rates = measured.arrival_rates
    inside = {name: sum(rates[flow.source] * flow.gain for flow in flows if flow.target == name) for name in names}
    entering = {name: max(rates[name] - inside[name], 0.0) for name in names}
    if not any(entering.values()):
        return None
    return Network(tuple(measured.operator(name) for name in names), flows, entering)


def _budget(world: World) -> int | None:
    """What is left of K_max for operators that can be steered."""
    if world.target.budget is None:
        return None
    fixed = sum(world.replicas(part.name) for part in world.setup.operators if part.edge is None)
    return max(world.target.budget - fixed, 1)


def _fine_tuned(
    measured: Network,
    current: Mapping[str, int],
    latency: float,
    target: Target,
    pools: Mapping[str, int],
    budget: int | None,
) -> tuple[Mapping[str, int], str]:
    """What the measured latency calls for where the model would stay: one more above T_max, one less below T_min."""
    goal, held = target.latency, sum(current.values())
    if goal is not None and latency > goal and held < min(sum(pools.values()), budget or held + 1):
        more = assign_processors(measured, held + 1, pools).processors
        return more, "above T_max although the model would stay: one more"
    fewer = None if goal is None or latency >= target.relaxed else _one_less(measured, current, latency)
    if goal is None or fewer is None or fewer[0] > goal:
        return current, "the allocation stays"
    return fewer[1], f"below T_min: one less is expected to take {fewer[0]:.3g} s"


def _one_less(measured: Network, current: Mapping[str, int], latency: float) -> tuple[float, Mapping[str, int]] | None:
    """The processor that is missed least, and the latency without it: the measured one times what the model says."""
    now, rates = expected_total_sojourn(measured, current), measured.arrival_rates
    found: list[tuple[float, str]] = []
    for operator in measured.operators:
        name = operator.name
        fewer = {**current, name: current[name] - 1}
        if fewer[name] * operator.service_rate > rates[name]:
            found.append((latency * expected_total_sojourn(measured, fewer) / now, name))
    if not found:
        return None
    then, name = min(found)
    return then, {**current, name: current[name] - 1}
