"""Regression on lags: the features that all such models see, and the base that fits one target a horizon.

Everything is in logarithms and relative to the recent level, so that a model learns shapes, not sizes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from foretide.errors import EnvironmentNotReadyError
from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.history import windows
from foretide.forecasting.load.base import LoadModel, Points
from foretide.forecasting.seasons import find_seasons, usable

LAGS = 12
LEVEL = 24
_LONG = 72
_FEWEST_ROWS = 24


class LagModel(LoadModel):
    """Fits `log(value at each horizon) - level` to lags, averages, and what happened a season earlier."""

    corrects_mean: ClassVar[bool] = True
    train_rows = 6000
    """The latest rows that a fit sees."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seasons: tuple[int, ...] = ()
        self._top = 0.0

    @property
    def reach(self) -> int:
        """As far back as the longest average, or season with what went just before it."""
        return max(_LONG, *(season + 2 for season in self._seasons), 0)

    # ---- what a regression brings

    @abstractmethod
    def regress(self, features: Floats, targets: Floats) -> None:
        """Fit targets (rows x horizons) to features (rows x columns)."""

    @abstractmethod
    def regressed(self, features: Floats) -> Floats:
        """The targets that the last fit expects for features."""

    # ---- what they share

    def fit(self, values: Floats) -> None:
        """Make rows of features and targets from the values, and fit."""
        seasons = find_seasons(values) if self.seasons is None else usable(self.seasons, len(values))
        self._seasons = tuple(season for season in seasons if season > max(self.horizons))
        farthest = max(self.horizons)
        last = len(values) - farthest
        first = max(last - self.train_rows, min(self.reach, last // 4), 0)
        if last - first < _FEWEST_ROWS:
            return
        seen = np.log1p(windows(values[:last], first, self.reach))
        level = level_of(seen)
        logs = np.log1p(values)
        targets = np.array([logs[first + h : last + h] - level for h in self.horizons]).T
        self._top = float(logs.max())
        self.regress(self.features(seen, level), targets)

    def features(self, logs: Floats, level: Floats) -> Floats:
        """Rows x columns, from windows of logarithms and their level."""
        parts = [logs[:, -1 : -LAGS - 1 : -1], logs[:, -_LONG:].mean(axis=1)[:, None]]
        parts += [logs[:, [-1 - back for back in self._season_lags(season)]] for season in self._seasons]
        relative = np.concatenate(parts, axis=1) - level[:, None]
        return np.concatenate([relative, level[:, None]], axis=1)

    def _season_lags(self, season: int) -> list[int]:
        """How far back: where a forecast aims at, a season earlier, the steps beside it, and now a season earlier."""
        around = sorted({0, *(h + d for h in self.horizons for d in (-1, 0, 1))})
        return [season - ahead for ahead in around if ahead < season]

    def feature_names(self) -> list[str]:
        """The columns of `features`, in words."""
        lags = [*range(LAGS), *(back for season in self._seasons for back in self._season_lags(season))]
        names = [f"log of the value {back} back, less level" for back in lags]
        names.insert(LAGS, f"average log of the last {_LONG}, less level")
        return [*names, f"level: average log of the last {LEVEL}"]

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """Level plus what the regression expects; the last value as long as there was no fit."""
        if not self.awake:
            return Points(np.repeat(seen[:, -1:], len(horizons), axis=1))
        logs = np.log1p(seen)
        level = level_of(logs)
        expected = level[:, None] + self.regressed(self.features(logs, level))
        highest = np.maximum(logs[:, -1], self._top) + np.log(2.0)
        return Points(np.expm1(np.clip(self.between(expected, horizons), 0.0, highest[:, None])))

    def between(self, at_own: Floats, horizons: Sequence[int]) -> Floats:
        """From the model's own horizons to others: in between on a line, beyond the last one flat."""
        if tuple(horizons) == self.horizons:
            return at_own
        own, unit = np.array(self.horizons, dtype=np.float64), np.eye(len(self.horizons))
        share = np.array([np.interp(np.array(horizons, dtype=np.float64), own, column) for column in unit])
        mixed: Floats = at_own @ share
        return mixed

    def fitted(self) -> dict[str, Any]:
        """The seasons and the largest logarithm that was seen."""
        return {"seasons": list(self._seasons), "top": self._top}

    def restore_fitted(self, found: State) -> None:
        """Take them over."""
        self._seasons, self._top = tuple(int(each) for each in found["seasons"]), float(found["top"])


def level_of(logs: Floats) -> Floats:
    """The recent level of each window of logarithms."""
    level: Floats = logs[:, -LEVEL:].mean(axis=1)
    return level


def missing_extra(name: str, error: ImportError) -> EnvironmentNotReadyError:
    """The error for a model whose packages are not installed."""
    return EnvironmentNotReadyError(f"the model '{name}' needs {error.name}: pip install 'foretide[forecast]'")
