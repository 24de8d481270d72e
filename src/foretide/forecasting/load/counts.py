"""The distribution of small counts around a mean: what a series of a few events a step has instead of logarithms.

Around each mean lies a negative binomial distribution, whose dispersion follows from recent errors. Its levels are then
replaced by those at which recent values were found. A count k stands for the numbers from k - 1/2 to k + 1/2, and 0 for
those from 0 to 1/2: quantiles are of these numbers, so they need not jump. The median is the distribution's, or one of
those that were forecast in logarithms, by the ensemble and by each member: the one with the smallest percentage errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretide.forecasting.forecaster import FEW, LEVELS, MEDIAN, Floats, State
from foretide.forecasting.history import WINDOW, Mask

_MEMORY = 0.998
_EVERY = 16
_MIN_PAIRS = 60
_GRID = np.linspace(0.0, 1.0, 51)
_MIN_DISPERSION, _MAX_DISPERSION = 1e-3, 10.0
_LOWEST_MEAN = 0.02
_FEWEST, _SPREADS = 12, 10.0
"""Counts are looked at up to so many, and so many standard deviations above the mean."""

_NEAR = 3
"""Levels below and above the median between which another median is accepted: from 0.2 to 0.8."""

_OUTER = 0.1
"""The mean lies between this level and its counterpart, whatever the levels are."""


class SmallCounts:
    """Quantiles for a series of small counts, by its latest errors at each horizon."""

    def __init__(self, horizons: int, medians: int = 1) -> None:
        """Begin with nothing; `medians` is how many are forecast in logarithms."""
        self._pairs = np.full((WINDOW, horizons, 2), np.nan)
        self._steps = 0
        self._weight = self._sum = self._parts = 0.0
        self._dispersion = np.full(horizons, 0.1)
        self._levels = np.tile(_GRID, (horizons, 1))
        self._errors = np.zeros((horizons, 1 + medians))

    @property
    def on(self) -> bool:
        """Whether the recent values are whole numbers and few, and enough forecasts of them were checked."""
        mean = self._sum / max(self._weight, 1.0)
        few = _LOWEST_MEAN <= mean < FEW and not self._parts
        return few and self._steps >= _MIN_PAIRS

    def see(self, value: float, means: Floats, medians: Floats, known: Mask) -> None:
        """Note a value, and what was forecast for it at each horizon, where `known`: means, and horizons x medians."""
        self._weight = _MEMORY * self._weight + 1.0
        self._sum = _MEMORY * self._sum + value
        parts = _MEMORY * self._parts + abs(value - round(value))
        self._parts = parts if parts > 1e-6 else 0.0  # noqa: PLR2004 - forgotten
        self._pairs[self._steps % WINDOW, :, 0] = np.where(known, means, np.nan)
        self._pairs[self._steps % WINDOW, :, 1] = value
        self._steps += 1
        if self.on and value > 0:
            own = self._around(means, self._dispersion, self._levels)
            errors = np.abs(_medians(own, medians) - value) / value
            self._errors = _MEMORY * self._errors + np.where(known[:, None], errors, 0.0)
        if self.on and self._steps % _EVERY == 0:
            for place in range(len(self._dispersion)):
                self._calibrate(place)

    def _calibrate(self, place: int) -> None:
        """The dispersion, and the levels of the distribution at which values were found, at one horizon."""
        mean, value = self._pairs[:, place].T
        mean, value = mean[~np.isnan(mean)], value[~np.isnan(mean)]
        if len(mean) < _MIN_PAIRS:
            return
        mean = np.maximum(mean, _LOWEST_MEAN)
        excess = float(((value - mean) ** 2 - mean).sum() / (mean**2).sum())
        self._dispersion[place] = min(max(excess, _MIN_DISPERSION), _MAX_DISPERSION)
        below = _shares(mean, np.full(len(mean), self._dispersion[place]), int(value.max()) + 1)
        rows, whole = np.arange(len(mean)), value.astype(np.int64)
        high = below[rows, whole]
        low = np.where(whole > 0, below[rows, np.maximum(whole - 1, 0)], 0.0)
        inside = (_GRID[:, None] - low) / np.maximum(high - low, 1e-12)
        found = np.clip(inside, 0.0, 1.0).mean(axis=1)
        self._levels[place] = np.maximum.accumulate(found)

    def quantiles(self, means: Floats, medians: Floats) -> Floats:
        """Horizons x levels around the mean at each horizon; `medians` (horizons x medians) are those in logarithms."""
        return self._chosen(means, medians, np.arange(len(means)))

    def quantiles_at(self, means: Floats, medians: Floats, horizons: Sequence[int]) -> Floats:
        """Steps x levels around the mean of each step ahead, by what is known of the nearest horizon."""
        steps = np.arange(1, len(means) + 1)
        nearest = np.abs(np.array(horizons)[None, :] - steps[:, None]).argmin(axis=1)
        return self._chosen(means, medians, nearest)

    def _chosen(self, means: Floats, medians: Floats, places: NDArray[np.int64]) -> Floats:
        found = self._around(means, self._dispersion[places], self._levels[places])
        best = self._errors[places].argmin(axis=1)
        found[:, MEDIAN] = _medians(found, medians)[np.arange(len(found)), best]
        found[:, :MEDIAN] = np.minimum(found[:, :MEDIAN], found[:, [MEDIAN]])
        found[:, MEDIAN + 1 :] = np.maximum(found[:, MEDIAN + 1 :], found[:, [MEDIAN]])
        return found

    def _around(self, means: Floats, dispersion: Floats, levels: Floats) -> Floats:
        centre = np.maximum(means, _LOWEST_MEAN)
        spread = np.sqrt(centre + dispersion * centre**2)
        most = int((centre + _SPREADS * spread).max()) + _FEWEST
        below = _shares(centre, dispersion, most)
        edges = np.concatenate([[0.0], np.arange(most + 1) + 0.5])
        found = np.empty((len(means), len(LEVELS)))
        for place, share in enumerate(below):
            own = np.interp(LEVELS, levels[place], _GRID)
            found[place] = np.interp(own, np.concatenate([[0.0], share]), edges)
        low, high = LEVELS <= _OUTER, LEVELS >= 1 - _OUTER
        found[:, low] = np.minimum(found[:, low], means[:, None])
        found[:, high] = np.maximum(found[:, high], means[:, None])
        return found

    def state(self) -> dict[str, Any]:
        """All that was noted."""
        return {
            "pairs": self._pairs, "steps": self._steps, "dispersion": self._dispersion, "levels": self._levels,
            "errors": self._errors, "sums": [self._weight, self._sum, self._parts],
        }  # fmt: skip

    def restore(self, state: State) -> None:
        """Continue from it."""
        self._pairs, self._steps = np.array(state["pairs"]), int(state["steps"])
        self._dispersion, self._levels = np.array(state["dispersion"]), np.array(state["levels"])
        errors = np.array(state["errors"])
        self._errors = errors if errors.shape == self._errors.shape else self._errors  # earlier models knew two
        self._weight, self._sum, self._parts = (float(each) for each in state["sums"])


def _medians(quantiles: Floats, others: Floats) -> Floats:
    """Rows x medians: the distribution's, and the others as far as the levels beside it allow."""
    low, high = quantiles[:, [MEDIAN - _NEAR]], quantiles[:, [MEDIAN + _NEAR]]
    return np.concatenate([quantiles[:, [MEDIAN]], np.clip(others, low, high)], axis=1)


def _shares(mean: Floats, dispersion: Floats, most: int) -> Floats:
    """Rows x counts from 0 to `most`: the share of a negative binomial distribution up to each count.

    >>> _shares(np.array([1.0]), np.array([1.0]), 2)
    array([[0.5  , 0.75 , 0.875]])
    """
    shape, odds = 1.0 / dispersion, dispersion * mean
    none = np.exp(-shape * np.log1p(odds))
    counts = np.arange(most)
    growth = (counts + shape[:, None]) / (counts + 1) * (odds / (1.0 + odds))[:, None]
    each = none[:, None] * np.cumprod(np.concatenate([np.ones_like(none)[:, None], growth], axis=1), axis=1)
    shares: Floats = np.minimum(np.cumsum(each, axis=1), 1.0)
    return shares
