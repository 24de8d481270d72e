"""Noticing drift: errors that stay larger than they used to be (the Page-Hinkley test on scaled errors)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DriftDetector:
    """Adds up how much errors exceed their own average; fires when the sum has grown by `threshold`.

    Errors are scaled by their running average, so that neither the unit nor the level of the series matters, and
    a single outlier counts no more than `most` average errors.

    >>> detector = DriftDetector()
    >>> any(detector.update(1.0) for _ in range(200))
    False
    >>> sum(detector.update(3.0) for _ in range(60))
    1

    Attributes:
        tolerance: Excess, in average errors, that is never added.
        threshold: The sum, in average errors, that counts as drift.
        most: An error counts at most as this many average ones.
        patience: So many errors are seen before the first alarm, and after each.
    """

    tolerance: float = 0.5
    threshold: float = 50.0
    most: float = 5.0
    patience: int = 64
    average: float = 0.0
    seen: int = 0
    excess: float = 0.0

    def update(self, error: float) -> bool:
        """Take in the size of the next error; True when the series no longer is what it was."""
        self.seen += 1
        if self.average > 0 and self.seen > self.patience:
            scaled = min(error / self.average, self.most)
            self.excess = max(0.0, self.excess + scaled - 1 - self.tolerance)
        rate = max(1 / self.seen, 0.001)
        self.average += rate * (min(error, self.most * self.average) - self.average if self.seen > 1 else error)
        if self.excess <= self.threshold:
            return False
        self.average, self.seen, self.excess = 0.0, 0, 0.0
        return True

    def state(self) -> dict[str, float]:
        """The running figures."""
        return {"average": self.average, "seen": self.seen, "excess": self.excess}

    def restore(self, state: dict[str, float]) -> None:
        """Go on from kept figures."""
        self.average, self.excess = float(state["average"]), float(state["excess"])
        self.seen = int(state["seen"])
