"""Actions on the route of an edge: the ratio in which its tasks share the stream, and how many of them do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from foretide.control.actions.action import BaseAction
from foretide.control.world.observed import Observed, Weights, shares
from foretide.errors import ActionError
from foretide.routing.ring import apportion

_TOLERANCE = 1.5 / 1024
"""Shares closer than this are equal: a ring has 1024 slots, and shares are rounded to them."""


@dataclass(frozen=True, slots=True)
class SetSplit(BaseAction):
    """Split an edge's stream over its tasks in a ratio."""

    kind: ClassVar[str] = "set-split"
    edge: str
    weights: Weights

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(self.weights))
        if not self.weights or min(self.weights) < 0 or not 0 < sum(self.weights) < float("inf"):
            raise ActionError(
                f"the weights of edge '{self.edge}' must be 0 or more, and one above 0, got {self.weights}"
            )

    @property
    def target(self) -> str:
        return f"edge {self.edge}"

    def describe(self) -> str:
        return f"split edge '{self.edge}' as {':'.join(f'{part:.0%}' for part in shares(self.weights))}"

    def in_force(self, observed: Observed) -> bool:
        """Whether tuples are split like that already."""
        now = observed.routes.get(self.edge)
        if now is None or len(now) != len(self.weights):
            return False
        difference = max(abs(a - b) for a, b in zip(shares(now), shares(self.weights), strict=True))
        return difference <= _TOLERANCE or _is_ring_of(now, self.weights)

    def undo(self, observed: Observed) -> SetSplit | None:
        """The split that is in force now."""
        weights = observed.routes.get(self.edge)
        return None if weights is None else SetSplit(self.edge, weights)


def _is_ring_of(counts: Weights, weights: Weights) -> bool:
    """Whether these are the slots that a ring gives to such weights; it may round a share by several of them."""
    slots = sum(counts)
    if not all(float(count).is_integer() for count in counts) or slots < len(weights):
        return False
    return tuple(counts) == apportion(weights, int(slots))


@dataclass(frozen=True, slots=True)
class SetReplicas(BaseAction):
    """Let the first `replicas` tasks behind an edge share its stream evenly."""

    kind: ClassVar[str] = "set-replicas"
    edge: str
    replicas: int

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise ActionError(f"the replicas of edge '{self.edge}' must be 1 or more, got {self.replicas}")

    @property
    def target(self) -> str:
        return f"edge {self.edge}"

    def describe(self) -> str:
        return f"use {self.replicas} replica{'s' if self.replicas > 1 else ''} behind edge '{self.edge}'"

    def in_force(self, observed: Observed) -> bool:
        """Whether exactly those tasks get tuples, in whatever ratio."""
        weights = observed.routes.get(self.edge)
        if weights is None:
            return False
        return all(weights[: self.replicas]) and not any(weights[self.replicas :]) and len(weights) >= self.replicas

    def undo(self, observed: Observed) -> SetSplit | SetReplicas | None:
        """What is in force now, as a number of replicas if it is one."""
        now = observed.replicas(self.edge)
        if not now:
            return None
        before = SetReplicas(self.edge, now)
        return before if before.in_force(observed) else SetSplit(self.edge, observed.routes[self.edge])

    @property
    def amount(self) -> float:
        return float(self.replicas)

    def amount_now(self, observed: Observed) -> float | None:
        now = observed.replicas(self.edge)
        return None if now is None else float(now)

    def with_amount(self, amount: float) -> SetReplicas:
        return SetReplicas(self.edge, int(amount))
