"""Processors as in DRS: hold T_max with the fewest, or minimise latency within K_max; reallocate at most every T_ra.

In a pipeline an operator's processors are its replicas. In micro-batches stages take turns on all cores, so cores are
added and given back, in whole executors; replicas follow the cores. Either way the model is corrected by what is
measured: where it is off by a factor for the present allocation, the bound that it has to meet is divided by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import SetExecutors, SetReplicas
from foretide.control.decisions.decision import Expectation, Wish
from foretide.control.world.measured import FRESH, NotYet, arrivals, batch_costs, network
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.errors import BatchOverloadError, BudgetTooSmallError, LatencyOutOfReachError, PlanningError
from foretide.planning.batches import BatchPlan, batch_model, min_cores, plan_batches
from foretide.planning.processors import assign_processors
from foretide.planning.reallocation import Goals, Move, propose
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Network
from foretide.queueing.sojourn import expected_total_sojourn


@dataclass(frozen=True, slots=True)
class ProcessorSettings(Bounded):
    """When to plan, and when to reallocate."""

    section: ClassVar[str] = "processors"

    period: Annotated[Seconds, Ge(0), Doc("Seconds between two plans.")] = 10.0
    min_interval: Annotated[Seconds, Ge(0), Doc("T_ra, minimum seconds between two reallocations.")] = 60.0
    pause: Annotated[
        Seconds, Ge(0), Doc("Seconds that a reallocation takes, in a pipeline of queues."), Scope.PYTHON_ONLY
    ] = 0.0
    useful_for: Annotated[
        Seconds,
        Ge(0),
        Doc("Seconds for which a new allocation is expected to be useful, in a pipeline of queues."),
        Scope.PYTHON_ONLY,
    ] = 600.0
    horizon: Annotated[
        Seconds | None, Ge(0), Doc("Seconds ahead of the load that is planned for; none for the measured load.")
    ] = 30.0
    smoothing: Annotated[
        float, Interval(ge=0, lt=1), Doc("Weight of the past in the measured latency."), Scope.ADVANCED
    ] = 0.5

    def conflicts(self) -> Iterator[str]:
        """An allocation that is useful for less time than it stays."""
        if self.useful_for < self.min_interval:
            yield (
                f"processors.useful_for must be at least min_interval ({self.min_interval:g} s), "
                f"got {self.useful_for:g} s"
            )


@dataclass(frozen=True, slots=True)
class ProcessorState:
    """When it planned last, since when the present allocation is in force, and the smoothed latency in seconds."""

    planned: float = -math.inf
    reallocated: float = -math.inf
    allocation: tuple[int, ...] | None = None
    latency: float | None = None


@dataclass(frozen=True, slots=True)
class Processors:
    """Adds processors above T_max, gives them back below T_min, and makes the best use of those there are."""

    settings: ProcessorSettings = field(default_factory=ProcessorSettings)
    name: str = "processors"

    def start(self) -> ProcessorState:
        """Nothing planned yet."""
        return ProcessorState()

    def wish(self, state: ProcessorState, world: World) -> tuple[ProcessorState, list[Wish]]:
        """Once a period, the allocation that DRS proposes, if any."""
        latency = world.snapshot.value("latency_mean_ms", within=FRESH)
        if latency is None or world.at - state.planned < self.settings.period:
            return state, []
        seconds, past = latency / 1000.0, self.settings.smoothing
        smooth = seconds if state.latency is None else past * state.latency + (1 - past) * seconds
        state = replace(_reallocated(state, world), planned=world.at, latency=smooth)
        rates = arrivals(world, self.settings.horizon)
        measured = rates if isinstance(rates, NotYet) else network(world, rates)
        if (
            isinstance(measured, NotYet)
            or measured.external_rate == 0
            or world.at - state.reallocated < self.settings.min_interval
        ):
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
        target, settings = world.target, self.settings
        goals = Goals(target.latency, target.relaxed, pause=settings.pause, t_ra=0.0, horizon=settings.useful_for)
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
        expected = Expectation("mean latency within the target", "latency_mean_ms")
        return self._replicas(wanted, f"mean latency is {latency:.3g} s; {reason}", expected, world)

    def _replicas(self, wanted: Mapping[str, int], reason: str, expected: Expectation, world: World) -> list[Wish]:
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
            plan, why = None, f"{error}: as many as allowed"
        cores = self._max_cores(world, costs) if plan is None else plan.cores
        replicas = {name: min(pool, cores) for name, pool in pools.items()} if plan is None else plan.replicas
        reason = f"mean latency is {latency:.3g} s; {why}"
        expected = Expectation(
            "as fast as the cluster allows"
            if plan is None
            else f"mean latency of about {plan.steady.mean_latency:.3g} s",
            "latency_mean_ms",
            None if plan is None else plan.steady.mean_latency * 1000,
        )
        wishes = self._replicas(replicas, reason, expected, world)
        if world.setup.executors is not None:
            out = len(world.observed.executors) - len(world.observed.in_service)
            count = math.ceil(cores / world.setup.cores_per_executor) + out
            wishes.append(Wish(self.name, SetExecutors(max(count, 1)), reason, expected))
        return wishes

    def _plan(
        self, measured: Network, costs: BatchCosts, latency: float, world: World, pools: Mapping[str, int]
    ) -> tuple[BatchPlan, str]:
        """The plan for T_max where it is missed or undercut by far; else the best use of the cores there are."""
        goal, max_cores = world.target.latency, self._max_cores(world, costs)
        if goal is None or world.setup.executors is None:
            chosen = min(max_cores, costs.cores) if world.target.budget is None else max_cores
            return plan_batches(measured, replace(costs, cores=chosen), pools), f"the best use of {chosen} cores"
        if world.target.relaxed <= latency <= goal:
            return plan_batches(measured, costs, pools), "within the target: the best use of the cores there are"
        error = self._model_error(measured, costs, latency, world, pools)
        plan = min_cores(measured, costs, goal / error, pools)
        if latency > goal and plan.cores <= costs.cores:
            plan = plan_batches(measured, replace(costs, cores=min(costs.cores + 1, max_cores)), pools)
        if plan.cores > max_cores:
            plan = plan_batches(measured, replace(costs, cores=max_cores), pools)
        side = "above" if latency > goal else "below"
        bound = goal if latency > goal else world.target.relaxed
        return plan, f"{side} {bound:g} s: {plan.cores} cores are the fewest that do (measured {error:.2f} x the model)"

    def _model_error(
        self, measured: Network, costs: BatchCosts, latency: float, world: World, pools: Mapping[str, int]
    ) -> float:
        """Measured latency over the model's for the present allocation; 1 where the model says that it cannot run."""
        active = {name: min(world.replicas(name), pools[name]) for name in measured.names}
        try:
            model = batch_model(measured, costs, active, pools).steady(measured.external_rate).mean_latency
        except BatchOverloadError:
            return 1.0
        return min(max(latency / model, 0.5), 4.0) if model > 0 else 1.0

    def _max_cores(self, world: World, costs: BatchCosts) -> int:
        cluster = (
            costs.cores if world.setup.executors is None else world.setup.executors[1] * world.setup.cores_per_executor
        )
        return cluster if world.target.budget is None else min(cluster, world.target.budget)


def _reallocated(state: ProcessorState, world: World) -> ProcessorState:
    """T_ra counts from when an allocation was observed to change, not from when a change was wished for."""
    now = (*(world.replicas(part.name) for part in world.setup.operators), len(world.observed.executors))
    since = state.reallocated if state.allocation in {None, now} else world.at
    return replace(state, allocation=now, reallocated=since)


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
