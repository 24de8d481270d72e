"""The interface of every model: `learn`, `forecast`, and a state to save and restore.

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
Forecast_co = TypeVar("Forecast_co", covariant=True)

State = Mapping[str, Any]
"""The state of a model: numbers, strings, lists and NumPy arrays by name, so that it can be saved in a file."""


@dataclass(frozen=True, slots=True)
class SeriesForecast:
    """A distribution for each of the next steps: the mean, and the quantiles at `LEVELS` (steps x levels)."""

    mean: Floats
    quantiles: Floats

    @property
    def horizon(self) -> int:
        """The number of steps."""
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


class Forecaster(Protocol[Seen_contra, Forecast_co]):
    """A model of a load, of the workers of a machine, or of the keys of a stream."""

    name: ClassVar[str]

    def learn(self, seen: Sequence[Seen_contra]) -> None:
        """Learn the next observations, oldest first."""

    def forecast(self, horizon: int) -> Forecast_co:
        """The forecast of the next `horizon` steps. Raises `NotEnoughHistoryError` before anything was learnt."""

    def state(self) -> State:
        """Everything that another process needs to continue from here."""

    def restore(self, state: State) -> None:
        """Continue from a saved state: the same input then gives the same forecasts."""


LoadForecaster = Forecaster[float | None, SeriesForecast]
"""Models of one series of non-negative numbers, a value each step."""
