"""Processors as in DRS: hold T_max with the fewest, or minimise latency within K_max; reallocate at most every T_ra.

In a pipeline (real time) an operator's processors are its replicas; see `allocation`. In micro-batches stages take
turns on all cores, so cores are added and given back, in whole executors; replicas follow the cores. There the model is
corrected by what is measured: where it is off by a factor for the present allocation, the bound that it has to meet is
divided by it.
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
from foretide.control.policies.allocation import (
    ModelError,
    Plan,
    Present,
    part_of,
    plan,
    present,
    slots_left,
)
from foretide.control.policies.splits import scale
from foretide.control.world.measured import FRESH, NotYet, Variation, arrivals, batch_costs, network
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.errors import BatchOverloadError, LatencyOutOfReachError
from foretide.formatting import format_duration
from foretide.planning.batches import BatchPlan, batch_model, min_cores, plan_batches
from foretide.planning.reallocation import Goals
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Network


@dataclass(frozen=True, slots=True)
class ProcessorSettings(Bounded):
    """When to plan, and when to reallocate."""

    section: ClassVar[str] = "processors"

    period: Annotated[Seconds, Ge(0), Doc("Seconds between two plans; by default 2 in real time.")] = 10.0
    min_interval: Annotated[
        Seconds, Ge(0), Doc("T_ra, minimum seconds between two reallocations; by default 5 in real time.")
    ] = 60.0
    pause: Annotated[
        Seconds,
        Ge(0),
        Doc("Seconds for which a reallocation delays tuples, in real time, where the default is 0.1."),
        Scope.PYTHON_ONLY,
    ] = 0.0
    useful_for: Annotated[
        Seconds,
        Ge(0),
        Doc("Seconds for which a new allocation is expected to be useful, in real time, where the default is 30."),
        Scope.PYTHON_ONLY,
    ] = 600.0
    service_scv: Annotated[
        float | None,
        Ge(0),
        Doc(
            "Squared variation coefficient of the work on a tuple, for operators of which it is not measured, in real "
            "time; none waits until it is measured."
        ),
        Scope.ADVANCED,
    ] = None
    arrival_scv: Annotated[float | None, Ge(0), Doc("The same of the time between two arrivals."), Scope.ADVANCED] = (
        None
    )
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
    """What is carried from plan to plan.

    Attributes:
        planned: When it planned last.
        reallocated: Since when the present allocation is in force.
        latency: Smoothed mean latency in seconds.
        ratio: Smoothed ratio of the quantile that the target speaks of to the mean.
        error: How far the model of a pipeline has been off.
        waits_for: What is not known yet, in words; None if nothing is missing.
        last: Mean latency of the plan before, in seconds, in a pipeline.
    """

    planned: float = -math.inf
    reallocated: float = -math.inf
    allocation: tuple[int, ...] | None = None
    latency: float | None = None
    ratio: float | None = None
    error: ModelError = field(default_factory=ModelError)
    waits_for: str | None = None
    last: float | None = None


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
        seconds = latency / 1000.0
        smooth = seconds if state.latency is None else self._smoothed(state.latency, seconds)
        ratio = self._ratio(state, seconds, world)
        state = replace(_reallocated(state, world), planned=world.at, latency=smooth, ratio=ratio)
        if world.setup.mode == "pipeline":
            return self._pipeline(state, seconds, world)
        rates = arrivals(world, self.settings.horizon)
        measured = rates if isinstance(rates, NotYet) else network(world, rates)
        if (
            isinstance(measured, NotYet)
            or measured.external_rate == 0
            or world.at - state.reallocated < self.settings.min_interval
        ):
            return state, []
        return state, self._batches(measured, smooth, ratio or 1.0, world)

    def _ratio(self, state: ProcessorState, mean: float, world: World) -> float | None:
        """The measured quantile that the target speaks of over the mean, smoothed; None before it is measured."""
        held = world.snapshot.value(world.target.metric, within=FRESH)
        if not held or mean <= 0:
            return state.ratio
        ratio = held / 1000.0 / mean
        return ratio if state.ratio is None else self._smoothed(state.ratio, ratio)

    # ---- a pipeline of queues

    def _pipeline(self, state: ProcessorState, mean: float, world: World) -> tuple[ProcessorState, list[Wish]]:
        settings, names = self.settings, [part.name for part in world.setup.by_edge.values()]
        given = Variation(settings.service_scv, settings.arrival_scv)
        rates = arrivals(world, settings.horizon)
        measured = rates if isinstance(rates, NotYet) else network(world, rates, waiting_at=names, given=given)
        if isinstance(measured, NotYet):
            return replace(state, waits_for=str(measured)), []
        state = replace(state, waits_for=None)
        steered = part_of(measured, names)
        if steered is None:
            return state, []
        now = present(measured, steered, state.latency or mean, state.ratio or 1.0, world, given)
        error = state.error if now.model is None else state.error.with_plan(now.model, now.latency)
        last, target = state.last, world.target
        state = replace(state, error=error, last=mean)
        if world.at - state.reallocated < settings.min_interval or _is_one_peak(last, mean, now, target):
            return state, []
        goals = Goals(
            None if target.latency is None else target.latency / now.ratio,
            target.relaxed / now.ratio,
            pause=settings.pause,
            t_ra=0.0,
            horizon=settings.useful_for,
        )
        return state, self._allocated(plan(steered, now, goals, world, slots_left(world, target)), now, error, world)

    def _allocated(self, found: Plan, now: Present, error: ModelError, world: World) -> list[Wish]:
        held, measured = world.target.quantile, _measured(world.target, now.latency, now.ratio)
        reason = f"{measured}; {found.reason}; {error.describe(now.model, now.latency)}"
        value = None if found.latency is None else found.latency * now.ratio
        words = "keeps up as well as it can" if value is None else f"{held} latency of about {format_duration(value)}"
        expected = Expectation(words, world.target.metric, None if value is None else value * 1000)
        scaled = ((edge, scale(world, edge, found.replicas[part.name])) for edge, part in world.setup.by_edge.items())
        return [
            Wish(self.name, action, reason, expected, urgent=found.moves) for _, action in scaled if action is not None
        ]

    def _smoothed(self, before: float, value: float) -> float:
        return self.settings.smoothing * before + (1 - self.settings.smoothing) * value

    def _replicas(self, wanted: Mapping[str, int], reason: str, expected: Expectation, world: World) -> list[Wish]:
        return [
            Wish(self.name, SetReplicas(edge, min(wanted[part.name], part.pool)), reason, expected)
            for edge, part in world.setup.by_edge.items()
        ]

    # ---- micro-batches

    def _batches(self, measured: Network, latency: float, ratio: float, world: World) -> list[Wish]:
        costs = batch_costs(world)
        if isinstance(costs, NotYet):
            return []
        pools = {part.name: part.pool if part.edge else world.replicas(part.name) for part in world.setup.operators}
        try:
            plan, why = self._plan(measured, costs, latency, _of_mean(world, ratio), pools)
        except (LatencyOutOfReachError, BatchOverloadError) as error:
            plan, why = None, f"{error}: as many as allowed"
        cores = self._max_cores(world, costs) if plan is None else plan.cores
        replicas = {name: min(pool, cores) for name, pool in pools.items()} if plan is None else plan.replicas
        reason = f"{_measured(world.target, latency, ratio)}; {why}"
        value = None if plan is None else plan.steady.mean_latency * ratio
        words = "as fast as the cluster allows"
        if value is not None:
            words = f"{world.target.quantile} latency of about {format_duration(value)}"
        expected = Expectation(words, world.target.metric, None if value is None else value * 1000)
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
        side, bound = ("above", goal) if latency > goal else ("below", world.target.relaxed)
        why = f"{plan.cores} cores are the fewest that do (measured {error:.2f} x the model)"
        return plan, f"a mean {side} {format_duration(bound)}: {why}"

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


def _measured(target: Target, latency: float, ratio: float) -> str:
    """The latency that the target speaks of, from the mean and the ratio to it."""
    said = f"{target.quantile} latency is {format_duration(latency * ratio)}"
    return said if target.quantile == "mean" else f"{said}, {ratio:.2f} times the mean"


def _of_mean(world: World, ratio: float) -> World:
    """The world with a target for the mean, which the model of batches speaks of."""
    target = world.target
    latency = None if target.latency is None else target.latency / ratio
    return replace(world, target=replace(target, latency=latency, relaxed=target.relaxed / ratio))


def _is_one_peak(last: float | None, mean: float, now: Present, target: Target) -> bool:
    """Whether latency is above the target in one plan only, as at the start of a batch, for no reason in the model."""
    if target.latency is None or last is None or now.model is None:
        return False
    goal = target.latency / now.ratio
    return now.latency > goal >= min(last, mean)


def _reallocated(state: ProcessorState, world: World) -> ProcessorState:
    """T_ra counts from when an allocation was observed to change, not from when a change was wished for."""
    now = (*(world.replicas(part.name) for part in world.setup.operators), len(world.observed.executors))
    since = state.reallocated if state.allocation in {None, now} else world.at
    return replace(state, allocation=now, reallocated=since)
