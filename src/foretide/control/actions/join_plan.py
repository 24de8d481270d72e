"""The action that places the hot keys of a join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from foretide.control.actions.action import NEXT_WINDOW, BaseAction, Cost
from foretide.control.world.observed import Observed
from foretide.errors import ActionError

_MAX_KEYS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SetJoinPlan(BaseAction):
    """Split the rows of these keys over partitions, in rows of columns; all others go where the hash sends them.

    Keys are the 32-bit hashes of the join's key columns; `names` are what people call them.
    """

    kind: ClassVar[str] = "set-join-plan"
    cost: ClassVar[Cost] = NEXT_WINDOW
    join: str
    grids: Mapping[int, tuple[tuple[int, ...], ...]]
    names: Mapping[int, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        grids = {int(key): tuple(tuple(row) for row in rows) for key, rows in self.grids.items()}
        object.__setattr__(self, "grids", grids)
        object.__setattr__(self, "names", {int(key): name for key, name in self.names.items()})
        for key, rows in grids.items():
            if not rows or not rows[0] or len({len(row) for row in rows}) != 1:
                raise ActionError(f"join '{self.join}': the grid {rows} of key {key} has no rows of one length")

    @property
    def target(self) -> str:
        return f"join {self.join}"

    def describe(self) -> str:
        if not self.grids:
            return f"leave all keys of join '{self.join}' to the hash"
        shapes = [f"{self.names.get(key, key)} as {len(rows)} x {len(rows[0])}" for key, rows in self.grids.items()]
        more = f" and {len(shapes) - _MAX_KEYS_SHOWN} more" if len(shapes) > _MAX_KEYS_SHOWN else ""
        keys = "key" if len(shapes) == 1 else "keys"
        return f"place {len(shapes)} {keys} of join '{self.join}': {', '.join(shapes[:_MAX_KEYS_SHOWN])}{more}"

    def in_force(self, observed: Observed) -> bool:
        """Whether that is the plan of the join already."""
        return observed.joins.get(self.join) == self.grids

    def undo(self, observed: Observed) -> SetJoinPlan | None:
        """The plan that is in force now."""
        grids = observed.joins.get(self.join)
        return None if grids is None else SetJoinPlan(self.join, grids)
