"""Simple models: fixed rules on the last values, and the strongest frequencies of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.history import find_seasons, usable, windows
from foretide.forecasting.load.base import LoadModel, Points


def _flat(level: Floats, horizons: Sequence[int]) -> Points:
    """The same centre at all horizons."""
    return Points(np.repeat(level[:, None], len(horizons), axis=1))


class LastValue(LoadModel):
    """The last value (pa-sps: Basic)."""

    name: ClassVar[str] = "last value"
    reach = 1

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The last value of each window."""
        return _flat(seen[:, -1], horizons)


class SeasonalLastValue(LoadModel):
    """The value one season earlier; the last value as long as no season is known."""

    name: ClassVar[str] = "seasonal last value"
    refit_every = 1000
    _season = 0

    @property
    def reach(self) -> int:
        """One season."""
        return max(1, self._season)

    @property
    def ready(self) -> bool:
        """Whether a season is known."""
        return self._season > 0

    def fit(self, values: Floats) -> None:
        """Take the longest season that the history contains twice, or find one."""
        seasons = find_seasons(values) if self.seasons is None else usable(self.seasons, len(values))
        self._season = max(seasons, default=0)

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The value at the same place of the last season."""
        if not self._season:
            return _flat(seen[:, -1], horizons)
        return Points(seen[:, [(step - 1) % self._season for step in horizons]])

    def fitted(self) -> dict[str, Any]:
        """The season."""
        return {"season": self._season}

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        self._season = int(found["season"])


class MovingAverage(LoadModel):
    """The average of the last 6 values."""

    name: ClassVar[str] = "moving average"
    reach = 6

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The average of each window."""
        return _flat(seen.mean(axis=1), horizons)


class Ewma(LoadModel):
    """An exponentially weighted average; its rate is the one with the smallest past errors."""

    name: ClassVar[str] = "ewma"
    refit_every = 1000
    reach = 64  # older values have a negligible weight
    _rates = (0.08, 0.15, 0.3, 0.5, 0.7, 0.9)
    _recent = 3000
    _rate = 0.3

    def fit(self, values: Floats) -> None:
        """Take the rate with the smallest errors one step ahead, in logarithms, over the recent values."""
        recent = values[-self._recent - self.reach :]
        seen = np.lib.stride_tricks.sliding_window_view(recent, self.reach)[:-1] if len(recent) > self.reach else None
        if seen is not None:
            truth = np.log1p(recent[self.reach :])
            loss = [float(np.abs(np.log1p(self._level(seen, rate)) - truth).mean()) for rate in self._rates]
            self._rate = self._rates[int(np.argmin(loss))]

    def _level(self, seen: Floats, rate: float) -> Floats:
        weights = rate * (1 - rate) ** np.arange(self.reach - 1, -1, -1)
        level: Floats = seen @ (weights / weights.sum())
        return level

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The weighted average of each window."""
        return _flat(self._level(seen, self._rate), horizons)

    def fitted(self) -> dict[str, Any]:
        """The rate."""
        return {"rate": self._rate}

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        self._rate = float(found["rate"])


class LinearTrend(LoadModel):
    """A straight line through the last 12 values (pa-sps: LR)."""

    name: ClassVar[str] = "linear regression"
    reach = 12

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The line of each window, extrapolated; errors are measured from a bounded centre."""
        place = np.arange(self.reach) - (self.reach - 1) / 2
        slope = seen @ (place / (place @ place))
        ahead = np.array(horizons) + (self.reach - 1) / 2
        line = np.maximum(seen.mean(axis=1)[:, None] + slope[:, None] * ahead, 0.0)
        lowest, highest = 0.5 * seen.min(axis=1)[:, None], 2.0 * seen.max(axis=1)[:, None]
        return Points(np.clip(line, lowest, highest), line)


_MIN_SPAN = 32
_MAX_SPAN = 1024
_SCORED_STEPS = 200
_CHUNK = 512


class Fourier(LoadModel):
    """The ten strongest frequencies of a window, continued (pa-sps: FFT); the window has the smallest past errors."""

    name: ClassVar[str] = "fft"
    refit_every = 1000
    frequencies = 10
    reach = _MIN_SPAN

    @property
    def ready(self) -> bool:
        """Whether a window has been chosen."""
        return self.fits > 0

    def fit(self, values: Floats) -> None:
        """Choose the window with the smallest recent errors: powers of two, and whole seasons."""
        longest = min(len(values), _MAX_SPAN)
        seasons = find_seasons(values) if self.seasons is None else usable(self.seasons, len(values))
        whole = [longest // season * season for season in seasons if season <= longest]
        spans = [*(1 << power for power in range(5, longest.bit_length())), *whole]
        self.reach = min(spans, key=lambda span: self._error(values, span), default=_MIN_SPAN)

    def _error(self, values: Floats, span: int) -> float:
        """The average error of logarithms at the model's horizons over the latest steps."""
        farthest = max(self.horizons)
        first = max(0, len(values) - farthest - _SCORED_STEPS)
        if farthest >= len(values):
            return 0.0
        seen = windows(values[: len(values) - farthest], first, span)
        truth = np.array([values[first + h : first + h + len(seen)] for h in self.horizons]).T
        return float(np.abs(np.log1p(self._continue(seen, self.horizons)) - np.log1p(truth)).mean())

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The sum of the strongest waves of each window beyond its end, bounded."""
        parts = [self._continue(seen[i : i + _CHUNK], horizons) for i in range(0, len(seen), _CHUNK)]
        return Points(np.concatenate(parts))

    def _continue(self, seen: Floats, horizons: Sequence[int]) -> Floats:
        span = seen.shape[1]
        waves = np.fft.rfft(seen, axis=1)
        strength = np.abs(waves[:, 1:])
        kept = min(self.frequencies, strength.shape[1])
        strongest = 1 + np.argpartition(strength, -kept, axis=1)[:, -kept:]
        chosen = np.take_along_axis(waves, strongest, axis=1)
        factor = np.where(2 * strongest == span, 1.0, 2.0) / span
        level = waves[:, 0].real / span
        ahead = span - 1 + np.array(horizons)
        turned = np.exp(2j * np.pi * strongest[:, :, None] * ahead / span)
        path = level[:, None] + (factor[:, :, None] * (chosen[:, :, None] * turned).real).sum(axis=1)
        bounded: Floats = np.clip(path, 0.0, 1.5 * seen.max(axis=1)[:, None])
        return bounded

    def fitted(self) -> dict[str, Any]:
        """The window."""
        return {"span": self.reach}

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        self.reach = int(found["span"])
