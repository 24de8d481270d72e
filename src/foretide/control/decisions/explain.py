"""A decision in plain English: a heading, labelled parts, a summary in one line, and what became of each wish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from foretide.control.decisions.decision import Contest, Decision, Effect, Fact, Intervention, Wish
from foretide.formatting import format_duration, format_number
from foretide.metrics.catalogue import CATALOGUE


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an explanation. Parts with the same label follow each other."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class ActionProgress:
    """How far a wish got, in plain English.

    Attributes:
        target: What it changes.
        planned: What a policy wanted, and which one.
        requested: What was requested in the end, or why nothing was.
        observed: Whether, and after how long, it was observed to be in force.
    """

    target: str
    planned: str
    requested: str
    observed: str


def in_unit(metric: str | None, value: float) -> str:
    """A figure with the unit of its metric, if it has one."""
    known = CATALOGUE.get(metric or "")
    return format_number(value) if known is None else known.figure(value)


def heading(decision: Decision) -> str:
    """Which decision it is."""
    advice = " (advice only: nothing was changed)" if decision.mode == "advise" else ""
    return f"Decision {decision.id} on '{decision.query}'{advice}"


def summary(decision: Decision) -> str:
    """One line: what is done and why, or why nothing is."""
    by_hand = [f"by hand: {each}" for each in decision.by_hand]
    if decision.chosen:
        changes = "; ".join(f"{wish.action.describe()} ({wish.policy}: {wish.reason})" for wish in decision.chosen)
        return "; ".join((*by_hand, f"advice: {changes}" if decision.mode == "advise" else changes))
    if by_hand:
        return "; ".join(by_hand)
    if decision.guards:
        return f"nothing: {decision.guards[-1].guard} stopped '{decision.guards[-1].before.describe()}'"
    return "; ".join(decision.problems) or "nothing to do"


def explain(decision: Decision) -> Iterator[Part]:
    """What was seen and forecast, what was wanted and changed by guards, what was chosen, expected and achieved."""
    if decision.target is not None and decision.target.latency is not None:
        yield Part("Target", _target(decision, decision.target.quantile, decision.target.latency))
    yield from (Part("Seen", _fact(fact)) for fact in decision.seen)
    yield from (
        Part("Forecast", f"{_fact(fact)} in {format_number(fact.ahead or 0)} s (by {fact.by})")
        for fact in decision.forecasts
    )
    yield from (Part("By hand", each) for each in decision.by_hand)
    yield from (Part("Wanted", f"{_planned(wish)}, because {wish.reason}") for wish in decision.wishes)
    yield from (Part("Overruled", _contest(contest)) for contest in decision.contests)
    yield from (Part("Changed by guards", _intervention(each)) for each in decision.guards)
    yield from (Part("Chosen", f"{_planned(wish)}, {wish.action.cost.words}") for wish in decision.chosen)
    if not decision.chosen:
        yield Part("Chosen", "no change")
    yield from (Part("Expected", wish.expected.words) for wish in decision.chosen if wish.expected)
    yield from (Part("Problem", problem) for problem in decision.problems)
    yield from (
        Part("Earlier decisions", f"decision {effect.decision}: {_effect(effect)}")
        for effect in decision.effects_of_earlier
    )
    if decision.effect is not None:
        yield Part("Achieved", _effect(decision.effect))


def _target(decision: Decision, quantile: str, seconds: float) -> str:
    held = {True: "held", False: "missed", None: "unknown"}[decision.target_held]
    measured = (
        "no latency was measured" if decision.measured is None else f"measured {format_duration(decision.measured)}"
    )
    return f"{quantile} latency below {format_duration(seconds)}: {held}, {measured}"


def account(decisions: Sequence[Decision]) -> list[str]:
    """What a loop did and did not do, in lines: its changes, and what guards stopped, with the reason given last."""
    made = [wish for decision in decisions if decision.acted for wish in decision.chosen]
    advised = [wish for decision in decisions if not decision.acted for wish in decision.chosen]
    stopped = [done for decision in decisions for done in decision.guards if done.after is None]
    lines = [f"changes by the control loop: {_counted(each.policy for each in made)}"]
    lines += [f"advice that was not carried out: {_counted(each.policy for each in advised)}"] if advised else []
    by_guard = {done.guard: done for done in stopped}
    lines += [
        f"stopped by {guard}: {_counted(each.policy for each in stopped if each.guard == guard)}; last "
        f"'{last.before.describe()}': {last.reason}"
        for guard, last in by_guard.items()
    ]
    problems = dict.fromkeys(problem for decision in decisions for problem in decision.problems)
    return [*lines, *(f"problem: {problem}" for problem in problems)]


def _counted(names: Iterable[str]) -> str:
    """How often each name occurs: 'none', or '5 (bypass 3, replicas 2)'."""
    counts = Counter(names)
    parts = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return f"{counts.total():,} ({parts})" if counts else "none"


def _fact(fact: Fact) -> str:
    return f"{fact.metric} of '{fact.subject}': {in_unit(fact.metric, fact.value)}"


def _planned(wish: Wish) -> str:
    return f"{wish.action.describe()} ({wish.policy})"


def _contest(contest: Contest) -> str:
    loser = contest.loser
    return f"'{loser.action.describe()}' ({loser.policy}): {contest.winner} has precedence on {contest.over}"


def _intervention(done: Intervention) -> str:
    change = "stopped" if done.after is None else f"became '{done.after.describe()}'"
    return f"'{done.before.describe()}' ({done.policy}) {change} by {done.guard}: {done.reason}"


def _effect(effect: Effect) -> str:
    delay = "" if effect.in_force_after is None else f", in force after {format_number(effect.in_force_after)} s"
    return f"{effect.words}{delay}"


def progress_of_wishes(decision: Decision) -> list[ActionProgress]:
    """How far every wish got, in the order in which they were made."""
    return [_progress(decision, wish) for wish in decision.wishes]


def _progress(decision: Decision, wish: Wish) -> ActionProgress:
    target, planned = wish.action.target, _planned(wish)
    final = next((each for each in decision.chosen if _came_of(each, wish)), None)
    if final is None:
        return ActionProgress(target, planned, f"nothing: {_why_not(decision, wish)}", "-")
    if decision.mode == "advise":
        return ActionProgress(target, planned, f"nothing: advice only ({final.action.describe()})", "-")
    return ActionProgress(target, planned, final.action.describe(), _observed(decision))


def _came_of(chosen: Wish, wish: Wish) -> bool:
    """Whether guards made the one of the other, or two policies wanted the same."""
    return chosen.action == wish.action or (chosen.policy, chosen.action.target) == (wish.policy, wish.action.target)


def _why_not(decision: Decision, wish: Wish) -> str:
    for contest in decision.contests:
        if contest.loser == wish:
            return f"{contest.winner} has precedence"
    for done in decision.guards:
        if done.after is None and (done.policy, done.before.target) == (wish.policy, wish.action.target):
            return f"{done.guard}: {done.reason}"
    return "it was not chosen"


def _observed(decision: Decision) -> str:
    effect = decision.effect
    if effect is None:
        return "not known yet"
    if effect.in_force_after is not None:
        return f"after {format_number(effect.in_force_after)} s"
    return "never" if effect.outcome == "never observed" else "not before the next decision"
