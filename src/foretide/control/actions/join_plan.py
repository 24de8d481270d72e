"""The action that places the hot keys of a join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from foretide.control.actions.action import NEXT_WINDOW, BaseAction, Cost
from foretide.control.world.observed import Observed
from foretide.joins.plan import JoinPlan

_MAX_SHOWN = 3


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
        """The plan that is in force now."""
        plan = observed.joins.get(self.join)
        return None if plan is None else SetJoinPlan(self.join, plan)
