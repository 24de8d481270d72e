"""Whether to re-allocate now: drs's scheduler, with a price on every move.

drs section IV-B checks on a regular basis whether the measured sojourn time has left T_min..T_max or the
split is no longer the best, and moves at most once every T_ra. It leaves open when a move is worth it. Here
a move has a cost, the time the query stands still, and it is proposed only if what it brings until it is
next reviewed is more than that. Gains in latency and their cost are counted in tuple-seconds, gains in
processors and their cost in processor-seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from foretide.errors import LatencyOutOfReachError, ModelError, OverloadError, Problem
from foretide.planning.processors import Allocation, assign_processors, min_processors
from foretide.queueing.sojourn import expected_total_sojourn, utilization

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.queueing.network import Network


class Move(Enum):
    """What a proposal does."""

    STAY = "stay"
    SPLIT = "split the same processors differently"
    ADD = "add processors"
    RELEASE = "release processors"


@dataclass(frozen=True, slots=True)
class Goals:
    """What the scheduler is to hold.

    Attributes:
        t_max: Expected total sojourn time to stay below, in seconds; None for a fixed budget (drs 6).
        t_min: Below this, processors may be released.
        t_ra: Least seconds between two re-allocations.
        pause: Seconds the query stands still for one.
        horizon: Seconds a new allocation is expected to be of use; at least t_ra.
    """

    t_max: float | None = None
    t_min: float = 0.0
    t_ra: float = 60.0
    pause: float = 0.0
    horizon: float = 600.0

    def __post_init__(self) -> None:
        times = {"t_min": self.t_min, "t_ra": self.t_ra, "pause": self.pause, "horizon": self.horizon}
        problems = [
            Problem("goals", f"{name} is {value:g}", "Give finite seconds, 0 or more.")
            for name, value in times.items()
            if not (math.isfinite(value) and value >= 0)
        ]
        if self.t_max is not None and not self.t_min < self.t_max:
            problems.append(Problem("goals", f"t_min is {self.t_min:g}", f"Keep it below t_max, {self.t_max:g}."))
        if self.horizon < self.t_ra:
            problems.append(Problem("goals", f"horizon is {self.horizon:g}", f"Give t_ra, {self.t_ra:g}, or more."))
        if problems:
            raise ModelError(problems)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to do, what it brings and costs, and why.

    Attributes:
        processors: By operator, from now on; the present ones for a stay.
        gain: What the move brings over the horizon; infinite out of overload.
        cost: What the pause costs, in the same unit: tuple-seconds, processor-seconds for a release.
    """

    move: Move
    processors: Mapping[str, int]
    gain: float
    cost: float
    reason: str


def propose(
    network: Network,
    current: Mapping[str, int],
    goals: Goals,
    measured: float,
    *,
    since_last: float = math.inf,
    pools: Mapping[str, int] | None = None,
) -> Proposal:
    """Propose a re-allocation, or to stay.

    >>> from foretide.queueing.network import Flow, Network, Operator
    >>> network = Network((Operator("a", 2.0), Operator("b", 2.0)), (Flow("a", "b"),), {"a": 5.0})
    >>> proposal = propose(network, {"a": 7, "b": 3}, Goals(pause=2.0), measured=1.7)
    >>> proposal.move.name, proposal.processors
    ('SPLIT', {'a': 5, 'b': 5})

    Args:
        network: With rates as measured or forecast.
        current: Processors by operator now.
        goals: Bounds, cost and horizon.
        measured: Mean total sojourn time in seconds.
        since_last: Seconds since the last re-allocation.
        pools: Most processors an operator can have.
    """
    if since_last < goals.t_ra:
        return _stay(current, f"the last re-allocation was {since_last:g} s ago; T_ra is {goals.t_ra:g} s")
    estimate = _estimate(network, current)
    try:
        wanted = _wanted(network, current, goals, measured=measured, estimate=estimate, pools=pools)
    except LatencyOutOfReachError as error:
        return _stay(current, f"T_max is out of reach: {error}")
    if dict(wanted.processors) == dict(current):
        return _stay(current, "the allocation is the best there is")
    return _weigh(network, current, wanted, goals, estimate)


def _estimate(network: Network, current: Mapping[str, int]) -> float:
    """The model's sojourn time of what runs now; infinite in overload."""
    try:
        return expected_total_sojourn(network, current)
    except OverloadError:
        return math.inf


def _wanted(
    network: Network,
    current: Mapping[str, int],
    goals: Goals,
    *,
    measured: float,
    estimate: float,
    pools: Mapping[str, int] | None,
) -> Allocation:
    """As drs IV-B has it: (i) a shortage, (ii) overprovisioning, (iii) or the best split of what there is.

    The model leaves out transport and whatever else takes time beside the operators, which processors cannot
    change. What was measured beyond its estimate for what runs now is taken off T_max, so that it is the measured
    time that meets T_max. If that leaves too little, the model may have been off by a factor instead.
    """
    held = sum(current.values())
    if goals.t_max is None:
        return assign_processors(network, held, pools)
    if measured > goals.t_max or math.isinf(estimate):
        return _fewest(network, goals.t_max, measured, estimate, pools)
    if measured < goals.t_min:
        fewer = _fewest(network, goals.t_max, measured, estimate, pools)
        if fewer.total < held:
            return fewer
    return assign_processors(network, held, pools)


def _fewest(
    network: Network, t_max: float, measured: float, estimate: float, pools: Mapping[str, int] | None
) -> Allocation:
    """The fewest processors with which the measured time is expected to meet T_max."""
    try:
        return min_processors(network, t_max - max(measured - estimate, 0.0), pools)
    except LatencyOutOfReachError:
        if estimate < measured:
            return min_processors(network, t_max * estimate / measured, pools)
        raise


def fewest_for(
    network: Network, current: Mapping[str, int], t_max: float, measured: float, pools: Mapping[str, int] | None = None
) -> Allocation:
    """The fewest processors with which the time measured with the present ones is expected to meet T_max.

    Raises:
        LatencyOutOfReachError: None do.
        OverloadError: A pool is below what stability needs.
    """
    return _fewest(network, t_max, measured, _estimate(network, current), pools)


def _weigh(network: Network, current: Mapping[str, int], wanted: Allocation, goals: Goals, estimate: float) -> Proposal:
    """Propose the move if its gain exceeds its cost."""
    held = sum(current.values())
    if wanted.total < held:
        move, unit = Move.RELEASE, "processor-seconds"
        gain, cost = (held - wanted.total) * goals.horizon, held * goals.pause
    else:
        move, unit = Move.ADD if wanted.total > held else Move.SPLIT, "tuple-seconds"
        saved = estimate - wanted.expected_total_sojourn
        gain = network.external_rate * saved * goals.horizon
        cost = pause_cost(network, wanted.processors, goals.pause, estimate)
    says = f"{gain:.4g} {unit} gained over {goals.horizon:g} s against {cost:.4g} for the pause"
    if gain > cost:
        return Proposal(move, wanted.processors, gain, cost, f"{move.value}: {says}")
    return Proposal(Move.STAY, current, gain, cost, f"a move would not pay: {says}")


def pause_cost(network: Network, processors: Mapping[str, int], pause: float, sojourn: float) -> float:
    """Tuple-seconds of delay that a pause causes.

    What is in flight is late by the pause. What arrives meanwhile piles up and drains at the speed that the
    busiest operator has to spare: a triangle whose area is rate * pause^2 / 2 / (1 - utilization).
    """
    if math.isinf(sojourn):
        sojourn = 0.0  # out of overload the gain is infinite anyway
    busiest = max(utilization(network, processors).values())
    rate = network.external_rate
    return rate * sojourn * pause + rate * pause**2 / 2 / (1 - busiest)


def _stay(current: Mapping[str, int], reason: str) -> Proposal:
    return Proposal(Move.STAY, current, 0.0, 0.0, reason)
