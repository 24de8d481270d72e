"""DRS on a running pipeline: which allocation, how long tuples take with it, and how far off the model has been.

The target speaks of a quantile of what is measured at the sinks; the model of the mean time in the operators. So the
target is divided by the measured ratio of the quantile to the mean, and what is measured beyond the model (transport,
sources, sinks, operators whose replicas are fixed) is taken for a constant that no allocation changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from foretide.control.world.measured import NOT_GIVEN, Variation, variation
from foretide.control.world.setup import Target
from foretide.control.world.world import World
from foretide.errors import BudgetTooSmallError, OverloadError, PlanningError
from foretide.formatting import format_duration
from foretide.planning.processors import assign_processors
from foretide.planning.reallocation import Goals, Move, propose
from foretide.queueing.network import Network
from foretide.queueing.sojourn import expected_total_sojourn, expected_tuple_latency

Replicas = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ModelError:
    """How far the model has been off: its mean error, as a share of what was measured, over so many plans."""

    plans: int = 0
    mean: float = 0.0

    def with_plan(self, model: float, measured: float) -> ModelError:
        """With one more comparison."""
        error = abs(model - measured) / measured
        return ModelError(self.plans + 1, self.mean + (error - self.mean) / (self.plans + 1))

    def describe(self, model: float | None, measured: float) -> str:
        """What the model says of what runs now, against what is measured, and how far off it has been so far."""
        if model is None:
            return "the model says that what runs now cannot keep up"
        off = f"{(model - measured) / measured:+.0%}"
        so_far = f"off by {self.mean:.0%} on average over {self.plans} plan{'s' if self.plans != 1 else ''}"
        return (
            f"the model says {format_duration(model)} where {format_duration(measured)} are measured ({off}; {so_far})"
        )


@dataclass(frozen=True, slots=True)
class Present:
    """What is measured and modelled of the present allocation, in seconds.

    Attributes:
        latency: Measured mean.
        ratio: The quantile that the target speaks of over the mean.
        outside: Measured time beyond the model of the operators that can be steered.
        model: The model's latency for all operators whose figures are known; None if they cannot keep up.
    """

    latency: float
    ratio: float
    outside: float
    model: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Which replicas, and why.

    Attributes:
        replicas: By operator.
        latency: The mean latency that is expected with them; None if they cannot keep up.
        moves: Whether some operators get what others lose. Then it is all or nothing, or the budget is exceeded.
    """

    replicas: Replicas
    reason: str
    latency: float | None
    moves: bool = False


def part_of(whole: Network, names: Collection[str]) -> Network | None:
    """The part of a network made of these operators; what others send there enters it from outside."""
    flows = tuple(flow for flow in whole.flows if flow.source in names and flow.target in names)
    rates = whole.arrival_rates
    inside = {name: sum(rates[flow.source] * flow.gain for flow in flows if flow.target == name) for name in names}
    entering = {name: max(rates[name] - inside[name], 0.0) for name in names}
    if not any(entering.values()):
        return None
    return Network(tuple(each for each in whole.operators if each.name in names), flows, entering)


def present(
    whole: Network, steered: Network, latency: float, ratio: float, world: World, given: Variation = NOT_GIVEN
) -> Present:
    """The present allocation: what is measured, and what the model says of it."""
    known = [part.name for part in world.setup.operators if isinstance(variation(world, part.name, given), tuple)]
    covered = part_of(whole, known)
    replicas = {name: world.replicas(name) for name in whole.names}
    own = _modelled(steered, replicas)
    outside = 0.0 if own is None else max(latency - own, 0.0)
    return Present(latency, ratio, outside, None if covered is None else _modelled(covered, replicas))


def _modelled(network: Network, replicas: Replicas) -> float | None:
    try:
        return expected_tuple_latency(network, {name: replicas[name] for name in network.names})
    except OverloadError:
        return None


def plan(steered: Network, now: Present, goals: Goals, world: World, budget: int | None) -> Plan:
    """The allocation that DRS proposes within a budget, or the present one.

    Args:
        steered: The operators whose replicas can be changed.
        now: The present allocation.
        goals: With T_max and T_min as latencies of the mean.
        world: The rest.
        budget: Processors for these operators; None for no limit but the pools.
    """
    current = {name: world.replicas(name) for name in steered.names}
    pools = {name: world.setup.by_name[name].pool for name in steered.names}
    try:
        wanted, reason = _proposed(steered, current, pools, now, goals, budget)
    except BudgetTooSmallError as error:
        wanted, reason = current, f"{error}: stays as it is"
    except PlanningError as error:
        fits = budget is None or sum(pools.values()) <= budget
        wanted, reason = (pools if fits else current), f"no allocation keeps up ({error})"
    moves = any(wanted[name] < current[name] for name in current) and sum(wanted.values()) >= sum(current.values())
    return Plan(wanted, reason, expected_mean(steered, current, wanted, now), moves)


def _proposed(
    steered: Network, current: Replicas, pools: Replicas, now: Present, goals: Goals, budget: int | None
) -> tuple[Replicas, str]:
    total = as_sums(steered, current, now)
    proposal = propose(steered, current, total.of(goals), total.of_latency(now.latency), pools=pools)
    if budget is not None and sum(proposal.processors.values()) > budget:
        return assign_processors(steered, budget, pools).processors, f"{proposal.reason}; within a budget of {budget}"
    if proposal.move is Move.STAY:
        return _fine_tuned(steered, current, now, goals, pools, budget, proposal.reason)
    return proposal.processors, proposal.reason


def expected_mean(steered: Network, current: Replicas, wanted: Replicas, now: Present) -> float | None:
    """The mean latency with other replicas: the model's, with what it misses now."""
    then, before = _modelled(steered, wanted), _modelled(steered, current)
    if then is None:
        return None
    return then + now.outside if before is None or now.outside else now.latency * then / before


@dataclass(frozen=True, slots=True)
class Sums:
    """Latencies as sums over a tuple and its descendants (eq 4), which is what Algorithms 1 and 2 minimise."""

    factor: float
    outside: float

    def of_latency(self, latency: float) -> float:
        """A latency as a sum."""
        return self.outside + (latency - self.outside) * self.factor

    def of(self, goals: Goals) -> Goals:
        """Goals with bounds of the sum."""
        if goals.t_max is None:
            return goals
        t_max = max(self.of_latency(goals.t_max), 1e-9)
        t_min = self.of_latency(goals.t_min)
        return replace(goals, t_max=t_max, t_min=t_min if 0 <= t_min < t_max else 0.0)


def as_sums(steered: Network, current: Replicas, now: Present) -> Sums:
    """How latencies are turned into sums with the present allocation."""
    try:
        factor = expected_total_sojourn(steered, current) / expected_tuple_latency(steered, current)
    except OverloadError:
        work = float(steered.load_array.sum()) / steered.external_rate
        factor = work / expected_tuple_latency(steered)
    return Sums(factor, now.outside)


def _fine_tuned(
    steered: Network,
    current: Replicas,
    now: Present,
    goals: Goals,
    pools: Replicas,
    budget: int | None,
    otherwise: str,
) -> tuple[Replicas, str]:
    """What the measured latency calls for where the model would stay: one more above T_max, one less below T_min."""
    goal, held = goals.t_max, sum(current.values())
    if goal is not None and now.latency > goal and held < min(sum(pools.values()), budget or held + 1):
        more = assign_processors(steered, held + 1, pools).processors
        return more, "above T_max although the model would stay: one more"
    fewer = None if goal is None or now.latency >= goals.t_min else _one_less(steered, current, now)
    if goal is None or fewer is None or fewer[0] > goal:
        return current, f"the allocation stays: {otherwise}"
    return fewer[1], f"below T_min: one less is expected to take {format_duration(fewer[0])}"


def _one_less(steered: Network, current: Replicas, now: Present) -> tuple[float, Replicas] | None:
    """The processor that is missed least, and the latency without it."""
    found: list[tuple[float, str]] = []
    for name in steered.names:
        fewer = {**current, name: current[name] - 1}
        then = expected_mean(steered, current, fewer, now) if fewer[name] else None
        if then is not None and math.isfinite(then):
            found.append((then, name))
    if not found:
        return None
    then, name = min(found)
    return then, {**current, name: current[name] - 1}


def slots_left(world: World, target: Target) -> int | None:
    """K_max for the operators that can be steered: slots there are or may be used, less those that others hold."""
    slots = len(world.observed.executors) * world.setup.cores_per_executor or None
    limits = [limit for limit in (slots, target.budget) if limit is not None]
    if not limits:
        return None
    fixed = sum(world.replicas(part.name) for part in world.setup.operators if part.edge is None)
    return max(min(limits) - fixed, 1)
