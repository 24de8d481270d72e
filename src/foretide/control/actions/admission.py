"""The action that limits how many rows a spout takes in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from foretide.control.actions.action import BaseAction
from foretide.control.world.observed import Observed
from foretide.errors import ActionError


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
        """Whether that is the limit already."""
        return observed.admission.get(self.spout) == self.rows

    def undo(self, observed: Observed) -> SetAdmission:
        """The limit that is in force now."""
        return SetAdmission(self.spout, observed.admission.get(self.spout))

    @property
    def amount(self) -> float:
        """Rows a batch; infinite without a limit."""
        return math.inf if self.rows is None else float(self.rows)

    def amount_now(self, observed: Observed) -> float:
        """The limit in force; infinite if there is none."""
        return self.undo(observed).amount

    def with_amount(self, amount: float) -> SetAdmission:
        return SetAdmission(self.spout, None if math.isinf(amount) else int(amount))

    def frees_capacity(self, observed: Observed) -> bool:
        """Never: a lower limit leaves the capacity as it is."""
        del observed
        return False
