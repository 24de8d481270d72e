"""Guards: each may change a wish or stop it, and says so. Small functions in a fixed order; all state is handed in.

What a person ordered and what is rolled back passes most of them. Taking out a bad worker waits for no cooldown: it
ends harm, and a probe that fails must be cut short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from foretide.control.actions import (
    Action,
    Quarantine,
    QuarantineHost,
    SetAdmission,
    SetExecutors,
    SetReplicas,
    SetSplit,
)
from foretide.control.amounts import amount_now, gives_back, with_amount
from foretide.control.decision import Intervention, Wish
from foretide.control.observed import shares
from foretide.control.past import HOUR, Past
from foretide.control.world import World
from foretide.errors import ControlSettingError

ORDERS = "orders"
ROLLBACK = "rollback"
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """A part of every day (UTC), in seconds after midnight; may run past midnight."""

    start: float
    end: float

    def __post_init__(self) -> None:
        if not (0 <= self.start < _DAY and 0 <= self.end <= _DAY):
            raise ControlSettingError(f"excluded {self.start:g}..{self.end:g}: give seconds after midnight, 0 to 86400")

    def holds(self, at: float) -> bool:
        """Whether a time lies within."""
        second = at % _DAY
        if self.start <= self.end:
            return self.start <= second < self.end
        return second >= self.start or second < self.end


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What the loop may do at most, and how often.

    Attributes:
        least_replicas: Fewest replicas of any edge.
        most_replicas: Most replicas of any edge; None for the pool.
        least_rows: Fewest rows a batch that a spout may be limited to.
        cooldown: Seconds between two changes of the same target.
        cooldown_down: The same before replicas or executors are given back.
        down_window: Seconds for which the most that was wanted counts before anything is given back.
        largest_up: Most that a number may grow in one decision, as a factor.
        largest_down: Most of a number that may be given back in one decision, as a share.
        band: Changes smaller than this share are not worth it: of a number given back, or of a split.
        settle_batches: Batches that a change must have been in force before the next one of the same target.
        quota: Most actions in an hour.
        excluded: Parts of the day in which nothing is changed.
    """

    least_replicas: int = 1
    most_replicas: int | None = None
    least_rows: int = 1
    cooldown: float = 10.0
    cooldown_down: float = 60.0
    down_window: float = 300.0
    largest_up: float = 8.0
    largest_down: float = 0.5
    band: float = 0.05
    settle_batches: int = 1
    quota: int = 240
    excluded: tuple[DailyWindow, ...] = field(default=())

    def __post_init__(self) -> None:
        wrong = {
            "least_replicas": self.least_replicas < 1,
            "most_replicas": self.most_replicas is not None and self.most_replicas < max(self.least_replicas, 1),
            "least_rows": self.least_rows < 1,
            "cooldown": self.cooldown < 0,
            "cooldown_down": self.cooldown_down < 0,
            "down_window": self.down_window < 0,
            "largest_up": self.largest_up <= 1,
            "largest_down": not 0 < self.largest_down <= 1,
            "band": not 0 <= self.band < 1,
            "settle_batches": self.settle_batches < 0,
            "quota": self.quota < 1,
        }
        bad = [f"{name}={getattr(self, name)}" for name, is_wrong in wrong.items() if is_wrong]
        if bad:
            raise ControlSettingError(f"guards: {', '.join(bad)} out of bounds; see GuardSettings for what each means")


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a guard makes of an action: another one, or none, and why."""

    action: Action | None
    reason: str


Guard = Callable[[GuardSettings, Wish, Past, World], Ruling | None]
"""None means no objection."""


def blocked(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:  # noqa: ARG001
    """Not again what has just made things worse."""
    if wish.policy in {ORDERS, ROLLBACK}:
        return None
    block = next((each for each in past.blocks if each.covers(wish.action)), None)
    if block is None:
        return None
    return Ruling(None, f"it made things worse and is blocked for another {block.until - world.at:.0f} s")


def excluded(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:  # noqa: ARG001
    """Nothing in periods in which nothing is to change."""
    if wish.policy in {ORDERS, ROLLBACK} or not any(window.holds(world.at) for window in settings.excluded):
        return None
    return Ruling(None, "nothing is to be changed at this time of day")


def unobserved(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:  # noqa: ARG001
    """No second change while the first has not been seen to be in force."""
    pending = next((each for each in world.requested if each.action.target == wish.action.target), None)
    if pending is None or wish.policy == ORDERS:
        return None
    return Ruling(None, f"'{pending.action.describe()}' of decision {pending.decision} has not been observed yet")


def settling(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:
    """Some batches between a change and the next one of the same target."""
    last = past.last(wish.action.target)
    if last is None or last.observed_batch is None or world.batch is None or _at_once(wish):
        return None
    batches = world.batch - last.observed_batch
    if not 0 <= batches < settings.settle_batches:
        return None
    return Ruling(None, f"the last change has been in force for {batches} batches only, not {settings.settle_batches}")


def cooldown(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:
    """Some time between a change and the next one of the same target."""
    last = past.last(wish.action.target)
    if last is None or _at_once(wish):
        return None
    wait = settings.cooldown_down if gives_back(wish.action, world.observed) else settings.cooldown
    since = world.at - last.at
    return Ruling(None, f"the last change was {since:.0f} s ago; cooldown is {wait:g} s") if 0 <= since < wait else None


def bounds(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:  # noqa: ARG001
    """Within what the pool, the cluster and the settings allow."""
    match wish.action:
        case SetReplicas(edge, wanted):
            part = world.setup.by_edge.get(edge)
            if part is None:
                return Ruling(None, f"edge '{edge}' cannot be steered")
            most = min(part.pool, settings.most_replicas or part.pool)
            return _clamped(wish.action, wanted, min(settings.least_replicas, most), most)
        case SetExecutors(wanted):
            if world.setup.executors is None:
                return Ruling(None, "the number of executors cannot be changed here")
            return _clamped(wish.action, wanted, *world.setup.executors)
        case SetAdmission(_, int(wanted)):
            return _clamped(wish.action, wanted, settings.least_rows, 1 << 62)
        case _:
            return None


def _clamped(action: Action, wanted: int, least: int, most: int) -> Ruling | None:
    allowed = min(max(wanted, least), most)
    return None if allowed == wanted else Ruling(with_amount(action, allowed), f"bounds are {least} to {most}")


def hysteresis(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:
    """Give back only what nobody has wanted for a while; a sawtooth then holds its height."""
    now, wanted = amount_now(wish.action, world.observed), wish.action.amount
    if now is None or wanted is None or not gives_back(wish.action, world.observed) or _at_once(wish):
        return None
    since = world.at - settings.down_window
    if past.started is None or past.started > since:
        return Ruling(None, f"the loop has not watched for {settings.down_window:g} s yet")
    most = past.most_wanted(wish.action.target, since)
    if most is None or most <= wanted:
        return None
    reason = f"{most:g} were wanted within the last {settings.down_window:g} s"
    return Ruling(None if most >= now else with_amount(wish.action, most), reason)


def largest_step(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:  # noqa: ARG001
    """Not too much at once."""
    now, wanted = amount_now(wish.action, world.observed), wish.action.amount
    if now is None or wanted is None or _at_once(wish) or not math.isfinite(now):
        return None
    most, least = math.ceil(now * settings.largest_up), math.ceil(now * (1 - settings.largest_down))
    if wanted > most and math.isfinite(wanted):
        return Ruling(with_amount(wish.action, most), f"at most {settings.largest_up:g} times as many at once")
    if wanted < least:
        reason = f"at most {settings.largest_down:.0%} less at once"
        return Ruling(with_amount(wish.action, max(least, 1)), reason)
    return None


def band(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:  # noqa: ARG001
    """Nothing for changes that are hardly any."""
    if _at_once(wish):
        return None
    change = _relative_change(wish.action, world)
    if change is None or change >= settings.band:
        return None
    return Ruling(None, f"a change of {change:.1%} is not worth it; the band is {settings.band:.1%}")


def _relative_change(action: Action, world: World) -> float | None:
    if isinstance(action, SetSplit):
        now, wanted = world.observed.shares(action.edge), shares(action.weights)
        if now is None or len(now) != len(wanted):
            return None
        return max(abs(a - b) for a, b in zip(now, wanted, strict=True))
    amount, now_amount = action.amount, amount_now(action, world.observed)
    if not gives_back(action, world.observed) or amount is None or not now_amount:
        return None
    return abs(now_amount - amount) / now_amount


def quota(settings: GuardSettings, wish: Wish, past: Past, world: World) -> Ruling | None:
    """Not more than so many actions an hour."""
    if wish.policy in {ORDERS, ROLLBACK} or past.within(world.at, HOUR) < settings.quota:
        return None
    return Ruling(None, f"{settings.quota} actions were taken within the hour, which is the quota")


def _at_once(wish: Wish) -> bool:
    """Orders, rollbacks, and what ends harm wait for nothing."""
    return wish.policy in {ORDERS, ROLLBACK} or isinstance(wish.action, Quarantine | QuarantineHost)


GUARDS: tuple[Guard, ...] = (
    *(blocked, excluded, unobserved, settling, cooldown),
    *(bounds, hysteresis, largest_step, band, quota),
)
"""In this order: first those that stop, then those that change, then the count."""


def guard(
    settings: GuardSettings, wishes: Sequence[Wish], past: Past, world: World
) -> tuple[list[Wish], list[Intervention]]:
    """What is left of the wishes, and what was done to them. Each one accepted counts for the quota of the next."""
    kept: list[Wish] = []
    interventions: list[Intervention] = []
    for wish in wishes:
        left, marks = _one(settings, wish, past, world)
        interventions += marks
        if left is not None:
            kept.append(left)
            past = past.doing([left], 0, world.at)
    return kept, interventions


def _one(settings: GuardSettings, wish: Wish, past: Past, world: World) -> tuple[Wish | None, list[Intervention]]:
    marks: list[Intervention] = []
    for each in GUARDS:
        ruling = each(settings, wish, past, world)
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
