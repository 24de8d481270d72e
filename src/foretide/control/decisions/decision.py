"""A decision: what was seen and foreseen, what was wanted, what was chosen, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from foretide.control.actions.registry import Action

ControlMode = Literal["act", "advise"]
Outcome = Literal["better", "worse", "no clear change", "unclear", "never observed"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure that was looked at: its age if it was measured, by whom and for when if it was foreseen."""

    metric: str
    subject: str
    value: float
    age: float = 0.0
    by: str | None = None
    ahead: float | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an action should bring: in words, and as a figure where it can be said."""

    words: str
    metric: str | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a policy would like to do, and why."""

    policy: str
    action: Action
    reason: str
    expected: Expectation | None = None


@dataclass(frozen=True, slots=True)
class Contest:
    """A wish that lost against another one."""

    winner: str
    loser: Wish
    over: str


@dataclass(frozen=True, slots=True)
class Intervention:
    """What a guard did to a wish: `after` is None if it stopped it."""

    guard: str
    policy: str
    before: Action
    after: Action | None
    reason: str


@dataclass(frozen=True, slots=True)
class Effect:
    """What an earlier decision brought.

    Attributes:
        decision: Which one.
        verdict: How it turned out.
        words: In a sentence.
        metric: What was compared, before and after.
        before: Median before the decision.
        after: Median once its actions were in force.
        in_force_after: Seconds from the decision until its actions were observed.
    """

    decision: int
    verdict: Outcome
    words: str
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    in_force_after: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """One control cycle.

    Attributes:
        id: Counts up from 1.
        at: Seconds since 1970.
        query: Whose.
        mode: `act`, or `advise` if nothing was touched.
        seen: Figures that were looked at.
        foreseen: Forecasts that had a vote.
        wishes: What policies wanted, before anybody interfered.
        chosen: What is to be done: actions with the policy that won and its reason.
        contests: Wishes that lost against others.
        guards: What guards changed or stopped.
        problems: Policies that failed, and forecasts that lost their vote, in sentences.
        news: How earlier decisions turned out.
        effect: How this one turned out; filled in later.
    """

    id: int
    at: float
    query: str
    mode: ControlMode = "act"
    seen: tuple[Fact, ...] = ()
    foreseen: tuple[Fact, ...] = ()
    wishes: tuple[Wish, ...] = ()
    chosen: tuple[Wish, ...] = ()
    contests: tuple[Contest, ...] = ()
    guards: tuple[Intervention, ...] = ()
    problems: tuple[str, ...] = ()
    news: tuple[Effect, ...] = ()
    effect: Effect | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """What is to be done."""
        return tuple(wish.action for wish in self.chosen)

    @property
    def acted(self) -> bool:
        """Whether anything was touched."""
        return bool(self.chosen) and self.mode == "act"

    @property
    def winners(self) -> tuple[str, ...]:
        """The policies that got their way."""
        return tuple(dict.fromkeys(wish.policy for wish in self.chosen))

    @property
    def idle(self) -> bool:
        """Whether there was nothing to say: no wish, no problem, no news."""
        return not (self.wishes or self.problems or self.news)

    def with_effect(self, effect: Effect) -> Decision:
        """The decision, knowing how it turned out."""
        return replace(self, effect=effect)
