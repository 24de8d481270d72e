"""What the loop would have decided over recorded history. Nothing is touched, so what was in force stays as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from foretide.control.actions.registry import Action
from foretide.control.decisions.decision import Decision
from foretide.control.step import Control, step
from foretide.control.world.world import World


@dataclass(frozen=True, slots=True)
class Advice:
    """A decision that was advised, how many times in a row, and when last. Nothing follows it, so it comes again."""

    decision: Decision
    times: int
    last: float


def replay(control: Control, worlds: Iterable[World]) -> Iterator[Decision]:
    """A decision, marked as advice, for each world of a recording in order of time."""
    advising = replace(control, mode="advise")
    state = advising.start()
    for world in worlds:
        state, decision = step(advising, state, world)
        yield decision


def advice(decisions: Iterable[Decision]) -> list[Advice]:
    """Those decisions that advise something new: what was advised last for all their targets counts as repeated."""
    said: list[Advice] = []
    latest: dict[str, tuple[Action, int]] = {}
    for decision in (each for each in decisions if each.chosen):
        before = [latest.get(action.target) for action in decision.actions]
        if all(
            known is not None and known[0] == action for known, action in zip(before, decision.actions, strict=True)
        ):
            for place in {known[1] for known in before if known is not None}:
                said[place] = replace(said[place], times=said[place].times + 1, last=decision.at)
            continue
        latest |= {action.target: (action, len(said)) for action in decision.actions}
        said.append(Advice(decision, 1, decision.at))
    return said
