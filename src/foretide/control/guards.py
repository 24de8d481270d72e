"""Guards: functions, applied in a fixed order, that may change a wish or stop it, and say why.

Orders of a person and rollbacks pass most of them. Taking out a bad worker waits for no cooldown: it ends harm, and a
probe that fails must be cut short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.actions.registry import (
    Action,
    Quarantine,
    QuarantineHost,
    SetAdmission,
    SetExecutors,
    SetReplicas,
    SetSplit,
)
from foretide.control.decisions.decision import ORDERS, ROLLBACK, Intervention, Wish
from foretide.control.memory import HOUR_SECONDS, ControlMemory
from foretide.control.world.setup import shares
from foretide.control.world.world import World
from foretide.durations import Seconds

_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class DailyWindow(Bounded):
    """A part of every day (UTC), in seconds after midnight; it may extend past midnight."""

    section: ClassVar[str] = "guards.excluded"

    start: Annotated[Seconds, Interval(ge=0, lt=_DAY_SECONDS)]
    end: Annotated[Seconds, Interval(ge=0, le=_DAY_SECONDS)]

    def holds(self, at: float) -> bool:
        """Whether a time lies within."""
        second = at % _DAY_SECONDS
        if self.start <= self.end:
            return self.start <= second < self.end
        return second >= self.start or second < self.end


@dataclass(frozen=True, slots=True)
class GuardSettings(Bounded):
    """Limits on what the control loop may change, and how often."""

    section: ClassVar[str] = "guards"

    min_replicas: Annotated[int, Ge(1), Doc("Minimum replicas of any edge.")] = 1
    max_replicas: Annotated[int | None, Ge(1), Doc("Maximum replicas of any edge; none for the size of the pool.")] = (
        None
    )
    min_rows: Annotated[int, Ge(1), Doc("Lowest limit of rows per batch that a spout may be given.")] = 1
    min_workers: Annotated[int, Ge(1), Doc("Workers that stay in service whatever policies and people ask for.")] = 1
    cooldown: Annotated[
        Seconds, Ge(0), Doc("Minimum seconds between two changes of the same target; by default 2 in real time.")
    ] = 10.0
    cooldown_down: Annotated[
        Seconds,
        Ge(0),
        Doc(
            "Minimum seconds between a change and the next one that gives back replicas or executors; by default 30 "
            "with a latency target, and 10 in real time."
        ),
    ] = 60.0
    down_window: Annotated[
        Seconds,
        Ge(0),
        Doc(
            "Before anything is given back, the maximum that was wanted within this many seconds counts; by default 60 "
            "with a latency target, and 30 in real time. Seconds ahead in which trusted forecasts expect no more load "
            "than is planned for count as part of them."
        ),
    ] = 300.0
    max_increase: Annotated[
        float, Gt(1), Doc("Factor by which a number may grow at most in one decision."), Scope.ADVANCED
    ] = 8.0
    max_decrease: Annotated[
        float,
        Interval(gt=0, le=1),
        Doc("Share of a number that may be given back at most in one decision."),
        Scope.ADVANCED,
    ] = 0.5
    deadband: Annotated[
        float,
        Interval(ge=0, lt=1),
        Doc("Changes below this share, of a number that is given back or of a split, are not made."),
        Scope.ADVANCED,
    ] = 0.05
    settle_batches: Annotated[
        int,
        Ge(0),
        Doc("Batches for which a change must have been in force before the next one of the same target."),
        Scope.ADVANCED,
    ] = 1
    quota: Annotated[int, Ge(1), Doc("Maximum actions per hour.")] = 240
    excluded: Annotated[tuple[DailyWindow, ...], Doc("Parts of the day in which nothing is changed.")] = ()

    def conflicts(self) -> Iterator[str]:
        """A maximum below the minimum."""
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            yield f"guards.max_replicas must be at least min_replicas ({self.min_replicas}), got {self.max_replicas}"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a guard makes of an action: another one, or none, and why."""

    action: Action | None
    reason: str


Guard = Callable[[GuardSettings, Wish, ControlMemory, World], Ruling | None]
"""None means no objection."""


def blocked(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:  # noqa: ARG001
    """Stop what has recently made things worse."""
    if wish.policy in {ORDERS, ROLLBACK}:
        return None
    block = next((each for each in memory.blocked if each.covers(wish.action)), None)
    if block is None:
        return None
    return Ruling(None, f"it made things worse and is blocked for another {block.until - world.at:.0f} s")


def held_by_a_person(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:  # noqa: ARG001
    """Leave alone what a person has set by hand."""
    holder = world.held.get(wish.action.target)
    return None if holder is None or wish.policy == ORDERS else Ruling(None, holder)


def excluded(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:  # noqa: ARG001
    """Stop everything in excluded periods of the day."""
    if wish.policy in {ORDERS, ROLLBACK} or not any(window.holds(world.at) for window in settings.excluded):
        return None
    return Ruling(None, "changes are excluded at this time of day")


def unobserved(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:  # noqa: ARG001
    """Stop a second change of a target while the first has not been observed."""
    pending = next((each for each in world.requested if each.action.target == wish.action.target), None)
    if pending is None or wish.policy == ORDERS:
        return None
    return Ruling(None, f"'{pending.action.describe()}' of decision {pending.decision} has not been observed yet")


def settling(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:
    """Keep some batches between two changes of a target."""
    last = memory.last(wish.action.target)
    if last is None or last.observed_batch is None or world.batch is None or _urgent(wish) or wish.routine:
        return None
    batches = world.batch - last.observed_batch
    if not 0 <= batches < settings.settle_batches:
        return None
    return Ruling(None, f"the last change has been in force for {batches} batches, less than {settings.settle_batches}")


def cooldown(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:
    """Keep some time between two changes of a target."""
    last = memory.last(wish.action.target)
    if last is None or _urgent(wish) or wish.routine:
        return None
    wait = settings.cooldown_down if wish.action.frees_capacity(world.observed) else settings.cooldown
    since = world.at - last.at
    return Ruling(None, f"the last change was {since:.0f} s ago; cooldown is {wait:g} s") if 0 <= since < wait else None


def bounds(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:  # noqa: ARG001, PLR0911
    """Keep to what the pool, the cluster and the settings allow."""
    match wish.action:
        case SetReplicas(edge, wanted):
            part = world.setup.by_edge.get(edge)
            if part is None:
                return Ruling(None, f"the route of edge '{edge}' cannot be changed")
            most = min(part.pool, settings.max_replicas or part.pool)
            return _clamped(wish.action, wanted, min(settings.min_replicas, most), most)
        case SetSplit(edge, weights):
            pool = len(world.observed.routes.get(edge, weights))
            reason = f"edge '{edge}' has a pool of {pool} by now, not of {len(weights)}"
            return None if pool == len(weights) else Ruling(None, reason)
        case SetExecutors(wanted):
            if world.setup.executors is None:
                return Ruling(None, "the number of executors cannot be changed here")
            return _clamped(wish.action, wanted, *world.setup.executors)
        case SetAdmission(_, int(wanted)):
            return _clamped(wish.action, wanted, settings.min_rows, 1 << 62)
    return None


def _clamped(action: Action, wanted: int, least: int, most: int) -> Ruling | None:
    allowed = min(max(wanted, least), most)
    return None if allowed == wanted else Ruling(action.with_amount(allowed), f"bounds are {least} to {most}")


def last_workers(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:
    """Keep the last workers in service, even against an order."""
    going = _taken_out(wish.action, world)
    if not going:
        return None
    now = [each.action for each in memory.decided if each.at == world.at]
    for action in (*now, *(request.action for request in world.requested)):
        going |= _taken_out(action, world)
    left = len(world.observed.in_service - going)
    return Ruling(None, f"only {left} workers would be left") if left < settings.min_workers else None


def _taken_out(action: Action, world: World) -> frozenset[str]:
    match action:
        case Quarantine(worker):
            return frozenset({worker})
        case QuarantineHost(host):
            return world.observed.on_host(host)
    return frozenset()


def hysteresis(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:
    """Free only capacity that was not wanted for a while, so that a sawtooth load keeps what its peaks need."""
    now, wanted = wish.action.amount_now(world.observed), wish.action.amount
    if now is None or wanted is None or not wish.action.frees_capacity(world.observed) or _urgent(wish):
        return None
    ahead = 0.0 if wish.foreseen is None else wish.foreseen.until
    since = world.at - max(settings.down_window - ahead, 0.0)
    if memory.started is None or memory.started > since:
        return Ruling(None, f"the loop has not watched for {world.at - since:g} s yet")
    most = memory.max_wanted(wish.action.target, since)
    if most is None or most <= wanted:
        return None
    reason = f"{most:g} were wanted within the last {world.at - since:g} s"
    return Ruling(None if most >= now else wish.action.with_amount(most), reason)


def largest_step(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:  # noqa: ARG001
    """Limit how much a number changes in one decision."""
    now, wanted = wish.action.amount_now(world.observed), wish.action.amount
    if now is None or wanted is None or _urgent(wish) or not math.isfinite(now):
        return None
    most, least = math.ceil(now * settings.max_increase), math.ceil(now * (1 - settings.max_decrease))
    if wanted > most and math.isfinite(wanted):
        return Ruling(wish.action.with_amount(most), f"at most {settings.max_increase:g} times as many at once")
    if wanted < least:
        reason = f"at most {settings.max_decrease:.0%} less at once"
        return Ruling(wish.action.with_amount(max(least, 1)), reason)
    return None


def deadband(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:  # noqa: ARG001
    """Stop changes that are too small to matter."""
    if _urgent(wish):
        return None
    change = _relative_change(wish.action, world)
    if change is None or change >= settings.deadband:
        return None
    return Ruling(None, f"a change of {change:.1%} is within the deadband of {settings.deadband:.1%}")


def _relative_change(action: Action, world: World) -> float | None:
    if isinstance(action, SetSplit):
        now, wanted = world.observed.shares(action.edge), shares(action.weights)
        if now is None or len(now) != len(wanted):
            return None
        return max(abs(a - b) for a, b in zip(now, wanted, strict=True))
    amount, now_amount = action.amount, action.amount_now(world.observed)
    if not action.frees_capacity(world.observed) or amount is None or not now_amount:
        return None
    return abs(now_amount - amount) / now_amount


def quota(settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World) -> Ruling | None:
    """Limit the number of actions in an hour."""
    if (
        wish.routine
        or wish.policy in {ORDERS, ROLLBACK}
        or memory.decided_since(world.at - HOUR_SECONDS) < settings.quota
    ):
        return None
    return Ruling(None, f"{settings.quota} actions were taken within the hour, which is the quota")


def _urgent(wish: Wish) -> bool:
    """Whether it waits for nothing: orders, rollbacks, what ends harm, and what only moves replicas elsewhere."""
    ends_harm = wish.urgent or isinstance(wish.action, Quarantine | QuarantineHost)
    return ends_harm or wish.policy in {ORDERS, ROLLBACK}


GUARDS: tuple[Guard, ...] = (
    *(held_by_a_person, blocked, excluded, unobserved, settling, cooldown),
    *(bounds, last_workers, hysteresis, largest_step, deadband, quota),
)
"""In this order: first those that stop, then those that change, then the count."""


def guard(
    settings: GuardSettings, wishes: Sequence[Wish], memory: ControlMemory, world: World
) -> tuple[list[Wish], list[Intervention]]:
    """The wishes that remain, and what guards changed. A wish that passes counts towards the quota of the next."""
    kept: list[Wish] = []
    interventions: list[Intervention] = []
    for wish in wishes:
        passed, marks = _apply(settings, wish, memory, world)
        interventions += marks
        if passed is not None:
            kept.append(passed)
            memory = memory if passed.routine else memory.with_decided([passed], world.at)
    return kept, interventions


def _apply(
    settings: GuardSettings, wish: Wish, memory: ControlMemory, world: World
) -> tuple[Wish | None, list[Intervention]]:
    marks: list[Intervention] = []
    for each in GUARDS:
        ruling = each(settings, wish, memory, world)
        if ruling is None or ruling.action == wish.action:
            continue
        after = None if ruling.action is None or ruling.action.in_force(world.observed) else ruling.action
        marks.append(Intervention(_name(each), wish.policy, wish.action, after, ruling.reason))
        if after is None:
            return None, marks
        wish = replace(wish, action=after)
    return wish, marks


def _name(each: Guard) -> str:
    return str(getattr(each, "__name__", "guard")).replace("_", " ")
