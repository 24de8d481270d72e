"""How the control loop runs: whether it acts, how often, and by which policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge
from typing_extensions import Doc

from foretide.bounds import Bounded, OneOf
from foretide.control.policies.registry import POLICIES
from foretide.control.world.setup import ControlMode
from foretide.durations import Seconds


@dataclass(frozen=True, slots=True)
class ControlSettings(Bounded):
    """How the control loop runs."""

    section: ClassVar[str] = "control"

    mode: Annotated[ControlMode, Doc("`act`, or `advise` to decide and explain without changing anything.")] = "act"
    period: Annotated[
        Seconds,
        Ge(0),
        Doc("Minimum seconds between two control cycles. A cycle follows a batch, so 0 is one after every batch."),
    ] = 0.0
    policies: Annotated[
        tuple[str, ...],
        OneOf(tuple(POLICIES)),
        Doc("Policies in order of rank: where two disagree, the first one wins. Each has a section of its own."),
    ] = ("bypass", "replicas", "hot_keys")

    def conflicts(self) -> Iterator[str]:
        """A policy that is named twice."""
        twice = [name for name, count in Counter(self.policies).items() if count > 1]
        if twice:
            yield f"control.policies must name each policy once, got {', '.join(twice)} more than once"
