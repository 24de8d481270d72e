"""What every action has: what it changes, what it costs, how to tell whether it is in force, and what undoes it.

An action is a value. The actuator performs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from foretide.control.world.setup import Observed


@dataclass(frozen=True, slots=True)
class Cost:
    """When an action takes effect, in words, and how many seconds that takes beyond the next batch."""

    words: str
    seconds: float


NEXT_BATCH = Cost("from the next batch on", 0.0)
SECONDS = Cost("within some seconds, while the query keeps running", 15.0)
NEXT_WINDOW = Cost("in a few batches, for rows later in event time than those read so far", 60.0)
RESTART = Cost("after a restart from the checkpoint, during which the query stands still", 30.0)


class BaseAction(ABC):
    """What all kinds of actions share. `kind` names a kind in JSON."""

    __slots__ = ()
    kind: ClassVar[str]
    cost: ClassVar[Cost] = NEXT_BATCH

    @property
    @abstractmethod
    def target(self) -> str:
        """What it changes, such as `edge parse`. Two actions on one target contradict each other."""

    @abstractmethod
    def describe(self) -> str:
        """What it does, in plain English: "use 4 replicas behind edge 'parse'"."""

    @abstractmethod
    def in_force(self, observed: Observed) -> bool:
        """Whether it has taken effect already."""

    @abstractmethod
    def undo(self, observed: Observed) -> Any:
        """The action that brings back what is in force now; None if there is none."""

    @property
    def amount(self) -> float | None:
        """The number it sets, such as replicas; None if it sets no single number."""
        return None

    def amount_now(self, observed: Observed) -> float | None:
        """The same number as it is now; None if it is not known."""
        del observed
        return None

    def with_amount(self, amount: float) -> Self:
        """The same action with another number; itself if it sets none."""
        del amount
        return self

    def frees_capacity(self, observed: Observed) -> bool:
        """Whether it leaves fewer replicas or executors than there are now."""
        now = self.amount_now(observed)
        return now is not None and self.amount is not None and self.amount < now
