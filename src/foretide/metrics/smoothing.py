"""Two ways to smooth a series of measurements (DRS, section V): let the past fade, or average a window.

>>> fading = Fading(alpha=0.75)
>>> [fading.add(value) for value in (8.0, 16.0)]
[8.0, 10.0]
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from foretide.errors import SettingsError


class Smoother(Protocol):
    """Takes measurements in, one by one, and gives the smoothed value back."""

    def add(self, value: float) -> float:
        """The smoothed value, this measurement included."""


@dataclass
class Fading:
    """D(n) = alpha D(n-1) + (1 - alpha) d(n): alpha weighs the PAST. It starts at the first measurement."""

    alpha: float = 0.5
    _smoothed: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            raise SettingsError(f"alpha weighs the past and lies in [0, 1), not at {self.alpha:g}")

    def add(self, value: float) -> float:
        """The smoothed value, this measurement included."""
        before = value if self._smoothed is None else self._smoothed
        self._smoothed = self.alpha * before + (1 - self.alpha) * value
        return self._smoothed


@dataclass
class Window:
    """The mean of the last w measurements; of those there are, until there are w."""

    size: int = 6
    _values: deque[float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingsError(f"a window holds at least one measurement, not {self.size}")

    def add(self, value: float) -> float:
        """The smoothed value, this measurement included."""
        self._values.append(value)
        while len(self._values) > self.size:
            self._values.popleft()
        return sum(self._values) / len(self._values)
