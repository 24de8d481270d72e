"""What a new decision makes of a journal: it goes in, and earlier ones learn from its news how they turned out."""

from __future__ import annotations

from collections.abc import Mapping

from foretide.control.decisions.decision import Decision


def entries(decision: Decision, kept: Mapping[int, Decision]) -> dict[int, Decision]:
    """What is to be written: the decision, and those of the kept ones that its news speak of, by id.

    Noting a decision again does not forget how it turned out.
    """
    told = {news.decision: kept[news.decision].with_effect(news) for news in decision.news if news.decision in kept}
    return {**told, decision.id: _knowing(decision, kept.get(decision.id))}


def _knowing(decision: Decision, before: Decision | None) -> Decision:
    if decision.effect is not None or before is None or before.effect is None or before.at != decision.at:
        return decision
    return decision.with_effect(before.effect)
