"""A decision in plain English."""

from __future__ import annotations

from collections.abc import Iterator

from foretide.control.decisions.decision import Contest, Decision, Effect, Fact, Intervention, Wish
from foretide.metrics.catalogue.registry import CATALOGUE


def explain(decision: Decision) -> list[str]:
    """Sentences: what was seen and foreseen, wanted, chosen and why, what guards changed, and what it brought."""
    return [*_sentences(decision)]


def summary(decision: Decision) -> str:
    """One line: what is done and why, or why nothing is."""
    if decision.chosen:
        says = "; ".join(f"{wish.action.describe()} ({wish.policy}: {wish.reason})" for wish in decision.chosen)
        return f"advice: {says}" if decision.mode == "advise" else says
    if decision.guards:
        return f"nothing: {decision.guards[-1].guard} stopped '{decision.guards[-1].before.describe()}'"
    return "; ".join(decision.problems) or "nothing to do"


def _sentences(decision: Decision) -> Iterator[str]:
    yield f"Decision {decision.id} on '{decision.query}'" + (
        " (advice: nothing was touched)." if decision.mode == "advise" else "."
    )
    if decision.seen:
        yield "Seen: " + ", ".join(map(_fact, decision.seen)) + "."
    if decision.foreseen:
        yield "Foreseen: " + ", ".join(map(_foreseen, decision.foreseen)) + "."
    yield from (f"Wish of {wish.policy}: {wish.action.describe()}, because {wish.reason}." for wish in decision.wishes)
    yield from map(_contest, decision.contests)
    yield from map(_intervention, decision.guards)
    yield from map(_choice, decision.chosen)
    if not decision.chosen:
        yield "Nothing is changed."
    yield from (f"Problem: {problem}." for problem in decision.problems)
    yield from (f"Decision {news.decision} turned out: {_effect(news)}." for news in decision.news)
    if decision.effect is not None:
        yield f"What it brought: {_effect(decision.effect)}."


def _fact(fact: Fact) -> str:
    metric = CATALOGUE.get(fact.metric)
    unit = f" {metric.unit}" if metric and metric.unit not in {"number", "ratio"} else ""
    return f"{fact.metric} of '{fact.subject}' {fact.value:.4g}{unit}"


def _foreseen(fact: Fact) -> str:
    return f"{_fact(fact)} in {fact.ahead or 0:g} s (by {fact.by})"


def _contest(contest: Contest) -> str:
    lost = contest.loser
    return f"{contest.winner} goes before {lost.policy} on {contest.over}: not '{lost.action.describe()}'."


def _intervention(done: Intervention) -> str:
    if done.after is None:
        return f"Guard '{done.guard}' stopped '{done.before.describe()}': {done.reason}."
    return f"Guard '{done.guard}' made '{done.before.describe()}' into '{done.after.describe()}': {done.reason}."


def _choice(wish: Wish) -> str:
    expected = f" Expected: {wish.expected.words}." if wish.expected else ""
    return f"Chosen: {wish.action.describe()} (by {wish.policy}), {wish.action.cost.words}.{expected}"


def _effect(effect: Effect) -> str:
    waited = "" if effect.in_force_after is None else f", in force after {effect.in_force_after:.3g} s"
    return f"{effect.words}{waited}"
