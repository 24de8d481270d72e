"""Decisions as a time line, and one of them in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foretide.control.decisions.decision import ORDERS, Decision
from foretide.control.decisions.explain import ActionProgress, Part, explain, heading, progress_of_wishes, summary

Kind = Literal["change", "advice", "by hand", "stopped", "note"]


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """A decision in a line.

    Attributes:
        kind: A change by the loop, advice, what people did, what a guard stopped, or a note such as an effect.
        outcome: What it achieved; None while that is not known.
        target_held: Whether the target was held when it was made; None if that is not known.
    """

    id: int
    at: float
    kind: Kind
    summary: str
    policies: tuple[str, ...]
    outcome: str | None
    target_held: bool | None


@dataclass(frozen=True, slots=True)
class DecisionDetail:
    """A decision in full: what was seen, forecast, wanted, changed by guards, chosen, expected and achieved."""

    line: DecisionLine
    heading: str
    parts: tuple[Part, ...]
    progress: tuple[ActionProgress, ...]


def line_of(decision: Decision) -> DecisionLine:
    """A decision in a line."""
    return DecisionLine(
        decision.id,
        decision.at,
        _kind(decision),
        _summary(decision),
        tuple(dict.fromkeys(wish.policy for wish in decision.chosen)),
        None if decision.effect is None else decision.effect.outcome,
        decision.target_held,
    )


def detail_of(decision: Decision) -> DecisionDetail:
    """A decision in full."""
    parts, progress = tuple(explain(decision)), tuple(progress_of_wishes(decision))
    return DecisionDetail(line_of(decision), heading(decision), parts, progress)


def _kind(decision: Decision) -> Kind:
    if decision.by_hand or any(wish.policy == ORDERS for wish in decision.chosen):
        return "by hand"
    if decision.chosen:
        return "change" if decision.acted else "advice"
    return "stopped" if decision.guards else "note"


def _summary(decision: Decision) -> str:
    if decision.chosen or decision.by_hand or decision.guards or decision.problems:
        return summary(decision)
    effects = [f"effect of decision {each.decision}: {each.words}" for each in decision.effects_of_earlier]
    return "; ".join(effects) or summary(decision)
