"""How much a feedback loop returns of what it takes in. A gain of 1 or more, kept up, never ends."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

PATIENCE = 50
"""Batches with tuples in the loop that are looked at. A loop of N fixed rounds grows for N batches: raise it then."""


@dataclass
class LoopGain:
    """The gain of a loop over the last batches: tuples that came back / tuples that had entered a batch before."""

    patience: int = PATIENCE
    _entered: deque[int] = field(default_factory=deque)
    _returned: deque[int] = field(default_factory=deque)

    def see(self, returned: int, entered: int) -> None:
        """Note a batch: tuples that came back in it, and all tuples that entered the loop in it (those included)."""
        if entered or returned:
            self._entered.append(entered)
            self._returned.append(returned)
        while len(self._entered) > self.patience + 1:
            self._entered.popleft()
            self._returned.popleft()

    @property
    def gain(self) -> float | None:
        """Tuples returned for each one that entered, None until enough batches were seen."""
        if len(self._entered) <= self.patience:
            return None
        entered = sum(list(self._entered)[:-1])
        return sum(list(self._returned)[1:]) / entered if entered else None

    @property
    def growing(self) -> bool:
        """Whether the loop returns all it takes in, or more, and holds at least twice what it held at first."""
        gain = self.gain
        return gain is not None and gain >= 1 and self._returned[-1] >= 2 * max(1, self._returned[0])
