"""FFT extrapolation: the strongest waves of the last values, drawn on (pa-sps: FFT)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.history import windows
from foretide.forecasting.load.base import LoadModel, Points
from foretide.forecasting.seasons import find_seasons, usable

_SHORTEST = 32
_LONGEST = 1024
_CHECKED = 200
_AT_ONCE = 512


class Fourier(LoadModel):
    """Keeps the ten strongest frequencies of a window and continues them; which window, past errors decide."""

    name: ClassVar[str] = "fft"
    summary: ClassVar[str] = "the ten strongest frequencies of a window, continued (pa-sps: FFT)"
    refit_every = 1000
    kept = 10
    _span = _SHORTEST

    @property
    def reach(self) -> int:
        """The window."""
        return self._span

    @property
    def awake(self) -> bool:
        """Once a window was chosen."""
        return self.fits > 0

    def fit(self, values: Floats) -> None:
        """Choose the window with the smallest errors lately: powers of two, and whole seasons."""
        most = min(len(values), _LONGEST)
        seasons = find_seasons(values) if self.seasons is None else usable(self.seasons, len(values))
        whole = [most // season * season for season in seasons if season <= most]
        spans = [*(1 << power for power in range(5, most.bit_length())), *whole]
        self._span = min(spans, key=lambda span: self._error(values, span), default=_SHORTEST)

    def _error(self, values: Floats, span: int) -> float:
        """The average error of logarithms at the model's horizons over the latest steps."""
        farthest = max(self.horizons)
        first = max(0, len(values) - farthest - _CHECKED)
        seen = windows(values[: len(values) - farthest], first, span)
        if not len(seen):
            return 0.0
        truth = np.array([values[first + h : first + h + len(seen)] for h in self.horizons]).T
        return float(np.abs(np.log1p(self._continue(seen, self.horizons)) - np.log1p(truth)).mean())

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The sum of each window's strongest waves beyond its end, never below zero or far above what was seen."""
        parts = [self._continue(seen[i : i + _AT_ONCE], horizons) for i in range(0, len(seen), _AT_ONCE)]
        return Points(np.concatenate(parts))

    def _continue(self, seen: Floats, horizons: Sequence[int]) -> Floats:
        span = seen.shape[1]
        waves = np.fft.rfft(seen, axis=1)
        strength = np.abs(waves[:, 1:])
        kept = min(self.kept, strength.shape[1])
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
        return {"span": self._span}

    def restore_fitted(self, found: State) -> None:
        """Take the window over."""
        self._span = int(found["span"])
