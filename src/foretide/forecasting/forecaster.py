"""One interface for every model: `learn` what was seen, `forecast` what comes, keep and restore the state.

```python
model = Ewma()
model.learn([12.0, 14.0, None, 13.0])  # oldest first; None is a gap in the record
ahead = model.forecast(horizon=3)
ahead.mean, ahead.median, ahead.interval(0.9)
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS: Floats = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99])
"""The quantiles that every forecast carries."""

Seen_contra = TypeVar("Seen_contra", contravariant=True)
Foreseen_co = TypeVar("Foreseen_co", covariant=True)

State = Mapping[str, Any]
"""What a model has to remember: numbers, strings, lists and NumPy arrays by name, so that it fits in a file."""


@dataclass(frozen=True, slots=True)
class SeriesForecast:
    """A distribution for each of the next steps: the mean, and the quantiles at `LEVELS` (steps x levels)."""

    mean: Floats
    quantiles: Floats

    @property
    def horizon(self) -> int:
        """How many steps ahead it looks."""
        return len(self.mean)

    @property
    def median(self) -> Floats:
        """The value that is exceeded half of the time."""
        return self.quantile(0.5)

    def quantile(self, level: float) -> Floats:
        """The value at a level, interpolated between the levels that are carried."""
        return np.array([np.interp(level, LEVELS, row) for row in self.quantiles])

    def interval(self, coverage: float) -> tuple[Floats, Floats]:
        """The central interval that should hold the truth with probability `coverage`."""
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


class Forecaster(Protocol[Seen_contra, Foreseen_co]):
    """A model of something that goes on: a load, the workers of a machine, the keys of a stream."""

    name: ClassVar[str]

    def learn(self, seen: Sequence[Seen_contra]) -> None:
        """Take in what came next, oldest first."""

    def forecast(self, horizon: int) -> Foreseen_co:
        """What is expected for the next `horizon` steps. Raises `NotEnoughHistoryError` before anything was learnt."""

    def state(self) -> State:
        """Everything a later process needs to go on from here."""

    def restore(self, state: State) -> None:
        """Go on from a kept state: the same input then gives the same forecasts."""


LoadForecaster = Forecaster[float | None, SeriesForecast]
"""Models of one series of non-negative numbers, a value each step."""
