"""Actions on streams: how an edge is split over its tasks, how many rows a spout takes, where hot keys of a join go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from foretide.control.actions.action import NEXT_WINDOW, BaseAction, Cost
from foretide.control.world.setup import Observed, Weights, shares
from foretide.errors import ActionError
from foretide.joins.plan import JoinPlan
from foretide.routing.ring import DEFAULT_SLOTS, apportion

_MAX_SHOWN = 3
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
        now = observed.routes.get(self.edge)
        if now is None or len(now) != len(self.weights):
            return False
        difference = max(abs(a - b) for a, b in zip(shares(now), shares(self.weights), strict=True))
        return difference <= _TOLERANCE or _is_ring_of(now, self.weights)

    def undo(self, observed: Observed) -> SetSplit | None:
        weights = observed.routes.get(self.edge)
        return None if weights is None else SetSplit(self.edge, weights)


def _is_ring_of(counts: Weights, weights: Weights) -> bool:
    """Whether these are the slots that a ring gives to such weights; it may round a share by several of them."""
    slots = sum(counts)
    if slots < DEFAULT_SLOTS or not all(float(count).is_integer() for count in counts):
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


@dataclass(frozen=True, slots=True)
class SetAdmission(BaseAction):
    """Let a spout take at most `rows` rows in a batch; None lifts the limit."""

    kind: ClassVar[str] = "set-admission"
    spout: str
    rows: int | None

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise ActionError(f"the limit of spout '{self.spout}' must be 1 row or more, got {self.rows}")

    @property
    def target(self) -> str:
        return f"spout {self.spout}"

    def describe(self) -> str:
        if self.rows is None:
            return f"let spout '{self.spout}' take all that is due"
        return f"let spout '{self.spout}' take at most {self.rows:,} rows a batch"

    def in_force(self, observed: Observed) -> bool:
        return observed.admission.get(self.spout) == self.rows

    def undo(self, observed: Observed) -> SetAdmission:
        return SetAdmission(self.spout, observed.admission.get(self.spout))

    @property
    def amount(self) -> float:
        """Rows a batch; infinite without a limit."""
        return math.inf if self.rows is None else float(self.rows)

    def amount_now(self, observed: Observed) -> float:
        return self.undo(observed).amount

    def with_amount(self, amount: float) -> SetAdmission:
        return SetAdmission(self.spout, None if math.isinf(amount) else int(amount))

    def frees_capacity(self, observed: Observed) -> bool:
        """Never: a lower limit leaves the capacity as it is."""
        del observed
        return False


@dataclass(frozen=True, slots=True)
class SetJoinPlan(BaseAction):
    """Split the rows of hot keys over partitions by a plan; all other keys go where the hash sends them.

    Keys are the 32-bit hashes of the join's key columns; `names` are what people call them.
    """

    kind: ClassVar[str] = "set-join-plan"
    cost: ClassVar[Cost] = NEXT_WINDOW
    join: str
    plan: JoinPlan
    names: Mapping[int, str] = field(default_factory=dict, compare=False)

    @property
    def target(self) -> str:
        return f"join {self.join}"

    def describe(self) -> str:
        grids = self.plan.grids
        if not grids:
            return f"leave all keys of join '{self.join}' to the hash"
        shapes = [f"{self.names.get(key, key)} as {grid.shape[0]} x {grid.shape[1]}" for key, grid in grids.items()]
        more = f" and {len(shapes) - _MAX_SHOWN} more" if len(shapes) > _MAX_SHOWN else ""
        keys = "key" if len(shapes) == 1 else "keys"
        return f"place {len(shapes)} {keys} of join '{self.join}': {', '.join(shapes[:_MAX_SHOWN])}{more}"

    def in_force(self, observed: Observed) -> bool:
        return observed.joins.get(self.join) == self.plan

    def undo(self, observed: Observed) -> SetJoinPlan | None:
        plan = observed.joins.get(self.join)
        return None if plan is None else SetJoinPlan(self.join, plan)
