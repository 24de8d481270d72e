"""What became of each wish of a decision: planned, requested and observed, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from foretide.control.decisions.decision import Decision, Wish

NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ActionProgress:
    """One wish on its way, in plain words.

    Attributes:
        target: What it is about.
        planned: What a policy wanted, and which one.
        requested: What was asked for in the end, or why nothing was.
        observed: Whether, and after how long, it was seen to be in force.
    """

    target: str
    planned: str
    requested: str
    observed: str


def courses(decision: Decision) -> list[ActionProgress]:
    """The way of every wish, in the order in which they were made."""
    return [_course(decision, wish) for wish in decision.wishes]


def _course(decision: Decision, wish: Wish) -> ActionProgress:
    target, planned = wish.action.target, f"{wish.action.describe()} ({wish.policy})"
    final = next((each for each in decision.chosen if _came_of(each, wish)), None)
    if final is None:
        return ActionProgress(target, planned, f"{NOTHING}: {_why_not(decision, wish)}", "-")
    if decision.mode == "advise":
        return ActionProgress(target, planned, f"{NOTHING}: only advice ({final.action.describe()})", "-")
    return ActionProgress(target, planned, final.action.describe(), _observed(decision))


def _came_of(chosen: Wish, wish: Wish) -> bool:
    """Whether guards made the one of the other, or two policies wanted the same."""
    return chosen.action == wish.action or (chosen.policy, chosen.action.target) == (wish.policy, wish.action.target)


def _why_not(decision: Decision, wish: Wish) -> str:
    for contest in decision.contests:
        if contest.loser == wish:
            return f"{contest.winner} goes before it"
    for done in decision.guards:
        if done.after is None and (done.policy, done.before.target) == (wish.policy, wish.action.target):
            return f"guard '{done.guard}', {done.reason}"
    return "it was not chosen"


def _observed(decision: Decision) -> str:
    effect = decision.effect
    if effect is None:
        return "not known yet"
    if effect.in_force_after is not None:
        return f"after {effect.in_force_after:.3g} s"
    return "never" if effect.verdict == "never observed" else "not before the next decision"
