"""Forecasts as distributions, and their scores. Every model has `learn`, `forecast`, `state` and `restore`.

```python
model = Ewma()
model.learn([12.0, 14.0, None, 13.0])  # oldest first; None is a gap in the record
ahead = model.forecast(horizon=3)
ahead.mean, ahead.median, ahead.interval(0.9)
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS: Floats = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99])
"""The quantiles that every forecast carries."""

MEDIAN = len(LEVELS) // 2
"""The position of the median among them."""

_ZERO = 1e-9
"""Loads and errors up to this count as zero: nothing is a share of them."""

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
        left = int(np.clip(np.searchsorted(LEVELS, level, side="right") - 1, 0, len(LEVELS) - 2))
        share = np.clip((level - LEVELS[left]) / (LEVELS[left + 1] - LEVELS[left]), 0.0, 1.0)
        low, high = self.quantiles[:, left], self.quantiles[:, left + 1]
        value: Floats = low + share * (high - low)
        return value

    def interval(self, coverage: float) -> tuple[Floats, Floats]:
        """The central interval that should hold the truth with probability `coverage`."""
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)


def rmse(mean: Floats, truth: Floats) -> float:
    """The root of the mean squared error.

    >>> rmse(np.array([1.0, 2.0]), np.array([1.0, 4.0])) == 2**0.5
    True
    """
    return float(np.sqrt(np.mean((mean - truth) ** 2)))


def percentage_errors(median: Floats, truth: Floats) -> Floats:
    """The absolute error as a share of the truth, where that is positive (zeros have no percentage)."""
    positive = truth > _ZERO
    shares: Floats = np.abs(median[positive] - truth[positive]) / truth[positive]
    return shares


def mape(median: Floats, truth: Floats) -> float:
    """The mean absolute percentage error over positive truths, as a share; 0 if there is none."""
    shares = percentage_errors(median, truth)
    return float(shares.mean()) if len(shares) else 0.0


def smape(median: Floats, truth: Floats) -> float:
    """The symmetric one: errors as a share of the average of forecast and truth, from 0 to 2."""
    total = np.abs(median) + np.abs(truth)
    errors = np.divide(2 * np.abs(median - truth), total, out=np.zeros_like(total), where=total > 0)
    return float(errors.mean())


def pinball(quantiles: Floats, truth: Floats) -> float:
    """The pinball loss averaged over `LEVELS`; twice that approaches the CRPS as levels get many."""
    errors = truth[:, None] - quantiles
    return float(np.maximum(LEVELS * errors, (LEVELS - 1) * errors).mean())


FEW = 8.0
"""Whole numbers with a lower mean are small counts."""


def covered(quantiles: Floats, truth: Floats, coverage: float) -> float:
    """The share of truths inside the central interval of that coverage, whose bounds must be among `LEVELS`.

    A small count stands for the numbers from half below it to half above it, 0 for those up to a half: one on the
    border counts by the share of these that lies inside.

    >>> covered(np.tile(np.linspace(0.25, 2.75, 15), (3, 1)), np.array([0.0, 1.0, 3.0]), 0.98)
    0.5833333333333334
    """
    low, high = (int(np.argmin(np.abs(LEVELS - level))) for level in ((1 - coverage) / 2, (1 + coverage) / 2))
    if len(truth) and truth.mean() < FEW and (truth == np.round(truth)).all():
        begin, end = np.maximum(truth - 0.5, 0.0), truth + 0.5
        inside = np.minimum(end, quantiles[:, high]) - np.maximum(begin, quantiles[:, low])
        return float(np.mean(np.clip(inside / (end - begin), 0.0, 1.0)))
    return float(np.mean((truth >= quantiles[:, low]) & (truth <= quantiles[:, high])))


@dataclass(frozen=True, slots=True)
class Scores:
    """One model on one series at one horizon. Percentages are shares; `relative_rmse` is 1 for the last value."""

    rmse: float
    relative_rmse: float
    mape: float
    smape: float
    mae: float
    pinball: float
    coverage_80: float
    coverage_95: float


def score(mean: Floats, quantiles: Floats, truth: Floats, last: Floats) -> Scores:
    """All scores; `last` is the value that was last known when each forecast was made."""
    median = quantiles[:, MEDIAN]
    own, base = rmse(mean, truth), rmse(last, truth)
    return Scores(
        rmse=own,
        relative_rmse=own / base if base > _ZERO else (1.0 if own <= _ZERO else float("inf")),
        mape=mape(median, truth),
        smape=smape(median, truth),
        mae=float(np.abs(median - truth).mean()),
        pinball=pinball(quantiles, truth),
        coverage_80=covered(quantiles, truth, 0.8),
        coverage_95=covered(quantiles, truth, 0.95),
    )
