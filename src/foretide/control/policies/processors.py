"""Processors as in DRS: hold T_max with the fewest, or minimise latency within K_max; reallocate at most every T_ra.

In a pipeline (real time) an operator's processors are its replicas; see `allocation`. In micro-batches stages take
turns on all cores, so cores are added and given back, in whole executors; replicas follow the cores, and the rows that
a batch may take follow both; see `batch_allocation`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import SetAdmission, SetExecutors, SetReplicas
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
from foretide.control.policies.batch_allocation import (
    BatchPlanner,
    Choice,
    describe,
    model_error,
)
from foretide.control.policies.larger_pools import PoolState, larger_pools, short_of_target
from foretide.control.policies.lead import Lead, Needs, needs_of
from foretide.control.policies.reach import out_of_reach
from foretide.control.policies.splits import scale
from foretide.control.world.measured import FRESH, NotYet, Variation, batch_observation, network
from foretide.control.world.outlook import Foreseen, foreseen_within
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.durations import Seconds
from foretide.formatting import format_duration
from foretide.planning.reallocation import Goals
from foretide.queueing.learned_batches import MAX_BATCHES, BatchObservation, learn

_SUDDEN = 1.2
"""A load that has grown by more than this factor since the last cycle is planned for in the next one."""

_CONFIRMED = 3
"""Plans in a row that have to be above the target before an executor is added that the model does not ask for."""


@dataclass(frozen=True, slots=True)
class ProcessorSettings(Bounded):
    """When to plan, and when to reallocate."""

    section: ClassVar[str] = "processors"

    period: Annotated[Seconds, Ge(0), Doc("Seconds between two plans.")] = 2.0
    min_interval: Annotated[
        Seconds,
        Ge(0),
        Doc(
            "T_ra, minimum seconds between two reallocations; by default 5 in real time. In micro-batches it holds for "
            "what is given back."
        ),
    ] = 15.0
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
        Seconds | None,
        Ge(0),
        Doc(
            "Seconds for which an executor is kept that trusted forecasts need again within them, at least twice the "
            "time that one takes to come; none plans for the measured load."
        ),
    ] = 30.0
    miss_cost: Annotated[
        float,
        Gt(0),
        Doc(
            "What a second with too few executors costs over one with too many; of the forecast load, the quantile "
            "c / (c + 1) is planned for."
        ),
    ] = 9.0
    smoothing: Annotated[
        float, Interval(ge=0, lt=1), Doc("Weight of the past in the measured latency."), Scope.ADVANCED
    ] = 0.5
    lead: Annotated[
        Seconds,
        Ge(0),
        Doc("Seconds until an executor that was asked for runs tasks, as long as none has come that could be timed."),
        Scope.PYTHON_ONLY,
    ] = 5.0
    headroom: Annotated[
        float,
        Interval(gt=0, le=1),
        Doc("Share of the latency target that a plan may use, in micro-batches; the rest is for noise."),
    ] = 0.85

    restart_horizon: Annotated[
        Seconds | None,
        Gt(0),
        Doc(
            "Where pools are too small for the target in micro-batches, they are made larger by a restart if rows wait "
            "less in all with it over so many seconds; at most one restart in that time. none never restarts."
        ),
        Scope.PYTHON_ONLY,
    ] = 600.0

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
        batches: The last micro-batches, from which their cost is learnt.
        factor: Measured latency over the modelled one, of micro-batches.
        load: Rows a second that the last cycle was to plan for.
        batches_above: Plans in a row in which latency was above the target although the model would stay.
        notice: That the target is out of reach, in words; None if it is not.
        lead: How long executors take to come.
        pools: Pools that were found to be too small, and the last restart for them.
    """

    planned: float = -math.inf
    reallocated: float = -math.inf
    allocation: tuple[int, ...] | None = None
    latency: float | None = None
    ratio: float | None = None
    error: ModelError = field(default_factory=ModelError)
    waits_for: str | None = None
    last: float | None = None
    batches: tuple[BatchObservation, ...] = ()
    factor: float = 1.0
    load: float | None = None
    batches_above: int = 0
    notice: str | None = None
    lead: Lead = field(default_factory=Lead)
    pools: PoolState = field(default_factory=PoolState)


@dataclass(frozen=True, slots=True)
class _Choice:
    """An allocation, why it is chosen, and the forecast load behind it, if it is one."""

    choice: Choice
    why: str
    foreseen: Foreseen | None = None


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
        if world.setup.mode == "micro-batch":
            state = replace(_observed(state, world), lead=state.lead.observe(world))
            return self._micro_batches(state, world)
        latency = world.snapshot.value("latency_mean_ms", within=FRESH)
        if latency is None or world.at - state.planned < self.settings.period:
            return state, []
        seconds = latency / 1000.0
        smooth = seconds if state.latency is None else self._smoothed(state.latency, seconds)
        ratio = self._ratio(state, seconds, world)
        state = replace(_reallocated(state, world), planned=world.at, latency=smooth, ratio=ratio)
        return self._pipeline(state, seconds, world)

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
        coming = foreseen_within(world, settings.horizon, settings.miss_cost)
        if isinstance(coming, NotYet):
            return replace(state, waits_for=str(coming)), []
        measured = network(world, coming.rates, waiting_at=names, given=given)
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
        budget = slots_left(world, target)
        found = plan(steered, now, goals, world, budget)
        state = replace(state, notice=out_of_reach(steered, now, goals, world, budget))
        return state, self._allocated(found, now, error, world, coming.foreseen)

    def _allocated(
        self, found: Plan, now: Present, error: ModelError, world: World, foreseen: Foreseen | None
    ) -> list[Wish]:
        held, measured = world.target.quantile, _measured(world.target, now.latency, now.ratio)
        reason = f"{measured}; {_said(foreseen)}{found.reason}; {error.describe(now.model, now.latency)}"
        value = None if found.latency is None else found.latency * now.ratio
        words = "keeps up as well as it can" if value is None else f"{held} latency of about {format_duration(value)}"
        expected = Expectation(words, world.target.metric, None if value is None else value * 1000)
        scaled = ((edge, scale(world, edge, found.replicas[part.name])) for edge, part in world.setup.by_edge.items())
        return [
            Wish(self.name, action, reason, expected, urgent=found.moves, foreseen=foreseen)
            for _, action in scaled
            if action is not None
        ]

    def _smoothed(self, before: float, value: float) -> float:
        return self.settings.smoothing * before + (1 - self.settings.smoothing) * value

    # ---- micro-batches

    def _micro_batches(self, state: ProcessorState, world: World) -> tuple[ProcessorState, list[Wish]]:
        """Once a period, the fewest executors that hold the target, and replicas and admission for them."""
        if world.at - state.planned < self.settings.period:
            return state, []
        needs = needs_of(
            world, state.lead.seconds or self.settings.lead, self.settings.horizon, self.settings.miss_cost
        )
        if needs is None:
            return state, []
        rate, before = needs.now.total, state.load
        state = replace(state, load=rate)
        if before is not None and rate > _SUDDEN * before and needs.at_lead.foreseen is None:
            return state, []  # seen in part: the next batch has all of it
        learned = learn(state.batches)
        if learned is None:
            return state, []
        held = world.snapshot.value(world.target.metric, within=FRESH)
        latency = None if held is None else held / 1000.0
        error = None if latency is None else model_error(learned, world, needs.now.total, latency)
        factor = state.factor if error is None else self._smoothed(state.factor, error)
        above = latency is not None and error is not None and latency > (world.target.latency or math.inf)
        state = replace(
            _reallocated(state, world),
            planned=world.at,
            latency=latency,
            factor=factor,
            batches_above=state.batches_above + 1 if above else 0,
        )
        headroom, at_lead = self.settings.headroom, needs.at_lead
        planner = BatchPlanner(learned, world, at_lead.total, needs.lead, rate, factor, headroom)
        chosen = self._choice(state, planner, needs)
        missed = world.target.latency is not None and chosen.choice.latency > world.target.latency
        notice = planner.out_of_reach() if missed and planner.cheapest() is None else None
        state, restart = self._restart(state, planner, missed=notice is not None)
        return replace(state, notice=notice), [*restart, *self._wished(chosen, planner, latency)]

    def _restart(
        self, state: ProcessorState, planner: BatchPlanner, *, missed: bool
    ) -> tuple[ProcessorState, list[Wish]]:
        """A restart with larger pools, where these and not the executors keep the target out of reach, if it pays."""
        horizon = self.settings.restart_horizon
        if horizon is None:
            return state, []
        short = short_of_target(planner, horizon) if missed else {}
        pools, wish = larger_pools(self.name, state.pools, short, planner.world, horizon)
        return replace(state, pools=pools), [] if wish is None else [wish]

    def _choice(self, state: ProcessorState, planner: BatchPlanner, needs: Needs) -> _Choice:
        """The allocation to have: more where the target is or will be missed, fewer where they would do as well."""
        target, present = planner.world.target, planner.choice(planner.present)
        if target.latency is None:
            return _Choice(present, "there is no latency target: the best use of the executors there are")
        wanted = planner.cheapest_that_settles()
        if wanted is None:
            return _Choice(planner.fastest(), "no allowed number of executors is expected to hold the target")
        fewest, most = wanted.executors or 0, planner.executors[1]
        if fewest > planner.present:
            words = "fewer executors are not expected to hold the target"
            return _Choice(wanted, words, needs.at_lead.foreseen)
        if state.batches_above >= _CONFIRMED and planner.present < most:
            more = planner.choice(planner.present + 1)
            return _Choice(more, "above the target although the model would stay: one more")
        if fewest < planner.present and self._may_give_back(state, planner.world):
            return self._given_back(wanted, planner, needs)
        return _Choice(present, "the executors stay")

    def _given_back(self, wanted: Choice, planner: BatchPlanner, needs: Needs) -> _Choice:
        """As few as the load needs until one that leaves could be back."""
        later = replace(planner, rate=needs.while_kept.total, _known={}).cheapest_that_settles()
        kept = planner.present if later is None else later.executors or 0
        count, foreseen = max(kept, wanted.executors or 0), needs.while_kept.foreseen
        if count >= planner.present:
            words = "the executors stay: they are needed again before new ones could come"
            return _Choice(planner.choice(planner.present), words, foreseen)
        return _Choice(planner.choice(count), "fewer executors are expected to hold the target", foreseen)

    def _may_give_back(self, state: ProcessorState, world: World) -> bool:
        """Whether T_ra is over, and latency below T_min where one is set."""
        if world.at - state.reallocated < self.settings.min_interval or state.latency is None:
            return False
        return state.latency < (world.target.relaxed or world.target.latency or 0.0)

    def _wished(self, chosen: _Choice, planner: BatchPlanner, latency: float | None) -> list[Wish]:
        choice, world, target = chosen.choice, planner.world, planner.world.target
        known = "" if latency is None else f"{target.quantile} latency is {format_duration(latency)}; "
        goal = "" if target.latency is None else f"the target is {format_duration(target.latency)}; "
        reason = f"{known}{goal}{_said(chosen.foreseen)}{chosen.why}; {describe(planner, choice)}"
        value = choice.latency if math.isfinite(choice.latency) else None
        words = "as fast as the cluster allows"
        if value is not None:
            words = f"{target.quantile} latency of about {format_duration(value)}"
        expected = Expectation(words, target.metric, None if value is None else value * 1000)
        cores = planner.choice(planner.present).cores  # replicas follow executors once these have come or gone
        wishes = [
            Wish(self.name, SetReplicas(edge, min(part.pool, cores)), reason, expected, urgent=True)
            for edge, part in world.setup.by_edge.items()
        ]
        if choice.executors is not None:
            out = len(world.observed.executors) - len(world.observed.in_service)
            resized = SetExecutors(max(choice.executors + out, 1))
            wishes.append(Wish(self.name, resized, reason, expected, foreseen=chosen.foreseen))
        return wishes + self._admitted(choice, planner, reason, expected)

    def _admitted(self, choice: Choice, planner: BatchPlanner, reason: str, expected: Expectation) -> list[Wish]:
        """The rows that a batch may take, for the one spout of a query whose limit can be changed while it runs."""
        setup, observed = planner.world.setup, planner.world.observed
        spouts = sorted(setup.can_admit)
        if len(spouts) != 1 or len(setup.spouts) != 1 or planner.world.target.latency is None:
            return []
        [spout] = spouts
        limit = planner.admission(choice, observed.admission.get(spout))
        return [Wish(self.name, SetAdmission(spout, limit), reason, expected)]


def _observed(state: ProcessorState, world: World) -> ProcessorState:
    """With the last batch, if that is a new one."""
    last = state.batches[-1].number if state.batches else None
    batch = None if world.batch == last else batch_observation(world)
    return state if batch is None else replace(state, batches=(*state.batches, batch)[-MAX_BATCHES:])


def _said(foreseen: Foreseen | None) -> str:
    """The forecast load that a plan is made for, as the beginning of a sentence."""
    return "" if foreseen is None else f"{foreseen.describe()}: "


def _measured(target: Target, latency: float, ratio: float) -> str:
    """The latency that the target speaks of, from the mean and the ratio to it."""
    said = f"{target.quantile} latency is {format_duration(latency * ratio)}"
    return said if target.quantile == "mean" else f"{said}, {ratio:.2f} times the mean"


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
