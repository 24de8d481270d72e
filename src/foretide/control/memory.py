"""What the loop remembers of what it did and wanted: what guards go by. Bounded by age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from foretide.control.actions.registry import Action
from foretide.control.decisions.decision import Wish
from foretide.control.world.observed import Observed

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Done:
    """An action that was decided: when, and when it was seen to be in force (and after which batch)."""

    policy: str
    action: Action
    decision: int
    at: float
    observed_at: float | None = None
    observed_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much of something was wanted at a time, whether or not it was done."""

    target: str
    at: float
    amount: float


@dataclass(frozen=True, slots=True)
class Block:
    """A wish that made things worse, and until when it is not to be had again."""

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
    """What was done and wanted, and what is blocked. `started` is the time of the first cycle."""

    started: float | None = None
    done: tuple[Done, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    blocks: tuple[Block, ...] = ()

    def last(self, target: str) -> Done | None:
        """The last thing that was done to a target."""
        return next((done for done in reversed(self.done) if done.action.target == target), None)

    def within(self, at: float, seconds: float) -> int:
        """Actions of the last so many seconds."""
        return sum(1 for done in self.done if done.at > at - seconds)

    def most_wanted(self, target: str, since: float) -> float | None:
        """The most that was wanted of a target since a time."""
        return max((each.amount for each in self.wanted if each.target == target and each.at >= since), default=None)

    def noting(self, wishes: Iterable[Wish], at: float, keep: float) -> ControlMemory:
        """With what is wanted now, and without what is too old to matter."""
        wanted = [
            Wanted(wish.action.target, at, wish.action.amount) for wish in wishes if wish.action.amount is not None
        ]
        return ControlMemory(
            at if self.started is None else self.started,
            tuple(done for done in self.done if done.at > at - max(keep, HOUR)),
            (*(each for each in self.wanted if each.at > at - keep), *wanted),
            tuple(block for block in self.blocks if block.until > at),
        )

    def doing(self, wishes: Iterable[Wish], decision: int, at: float) -> ControlMemory:
        """With what has been decided."""
        new = tuple(Done(wish.policy, wish.action, decision, at) for wish in wishes)
        return replace(self, done=(*self.done, *new)) if new else self

    def observing(self, observed: Observed, at: float, batch: int | None) -> ControlMemory:
        """With what is seen to be in force by now."""
        return replace(
            self,
            done=tuple(
                replace(done, observed_at=at, observed_batch=batch)
                if done.observed_at is None and done.action.in_force(observed)
                else done
                for done in self.done
            ),
        )
