"""What the loop remembers of what it decided and wanted, for the guards. Bounded by age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from foretide.control.actions.registry import Action
from foretide.control.decisions.decision import Wish
from foretide.control.world.setup import Observed

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class DecidedAction:
    """An action that was decided: when, and when (and after which batch) it was observed to be in force."""

    action: Action
    at: float
    observed_at: float | None = None
    observed_batch: int | None = None


@dataclass(frozen=True, slots=True)
class WantedAmount:
    """How much of something was wanted at a time, whether or not it was decided."""

    target: str
    at: float
    amount: float


@dataclass(frozen=True, slots=True)
class BlockedAction:
    """An action that made things worse, and the time until which it may not be taken again."""

    action: Action
    freed_capacity: bool
    until: float

    def covers(self, action: Action) -> bool:
        """Whether an action is the same again, or goes even further in the same direction."""
        if action == self.action:
            return True
        mine, other = self.action.amount, action.amount
        if action.target != self.action.target or mine is None or other is None:
            return False
        return other <= mine if self.freed_capacity else other >= mine


@dataclass(frozen=True, slots=True)
class ControlMemory:
    """What was decided and wanted, and what is blocked. `started` is the time of the first cycle."""

    started: float | None = None
    decided: tuple[DecidedAction, ...] = ()
    wanted: tuple[WantedAmount, ...] = ()
    blocked: tuple[BlockedAction, ...] = ()

    def last(self, target: str) -> DecidedAction | None:
        """The last action on a target."""
        return next((each for each in reversed(self.decided) if each.action.target == target), None)

    def decided_since(self, at: float) -> int:
        """Number of actions decided after a time."""
        return sum(1 for each in self.decided if each.at > at)

    def max_wanted(self, target: str, since: float) -> float | None:
        """The largest amount of a target that was wanted since a time."""
        return max((each.amount for each in self.wanted if each.target == target and each.at >= since), default=None)

    def with_wishes(self, wishes: Iterable[Wish], at: float, max_age: float) -> ControlMemory:
        """With what is wanted now, and without what is too old to matter."""
        amounts = ((wish.action.target, wish.action.amount) for wish in wishes)
        wanted = [WantedAmount(target, at, amount) for target, amount in amounts if amount is not None]
        return ControlMemory(
            at if self.started is None else self.started,
            tuple(each for each in self.decided if each.at > at - max(max_age, HOUR_SECONDS)),
            (*(each for each in self.wanted if each.at > at - max_age), *wanted),
            tuple(each for each in self.blocked if each.until > at),
        )

    def with_decided(self, wishes: Iterable[Wish], at: float) -> ControlMemory:
        """With what has been decided."""
        return replace(self, decided=(*self.decided, *(DecidedAction(wish.action, at) for wish in wishes)))

    def with_observed(self, observed: Observed, at: float, batch: int | None) -> ControlMemory:
        """With what is observed to be in force by now."""
        decided = (
            replace(each, observed_at=at, observed_batch=batch)
            if each.observed_at is None and each.action.in_force(observed)
            else each
            for each in self.decided
        )
        return replace(self, decided=tuple(decided))
