"""What the loop would have decided over recorded history. Nothing is touched, so what was in force stays as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from foretide.control.decision import Decision
from foretide.control.step import Control, step
from foretide.control.world import World


def replay(control: Control, worlds: Iterable[World]) -> Iterator[Decision]:
    """A decision, marked as advice, for each world of a recording in order of time."""
    advising = replace(control, mode="advise")
    state = advising.start()
    for world in worlds:
        state, decision = step(advising, state, world)
        yield decision
