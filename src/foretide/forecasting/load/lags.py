"""Regression on lags: the features, the base that fits one target per horizon, and ridge regression.

Everything is in logarithms and relative to the recent level, so that a model learns shapes, not sizes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from foretide.errors import EnvironmentNotReadyError
from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.history import find_seasons, usable, windows
from foretide.forecasting.load.base import LoadModel, Points

LAGS = 12
LEVEL = 24
_LONG_AVERAGE = 72
_MIN_ROWS = 24


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
        """The longest average, or the longest season and two steps before it."""
        return max(_LONG_AVERAGE, *(season + 2 for season in self._seasons), 0)

    # ---- what a regression implements

    @abstractmethod
    def regress(self, features: Floats, targets: Floats) -> None:
        """Fit targets (rows x horizons) to features (rows x columns)."""

    @abstractmethod
    def regressed(self, features: Floats) -> Floats:
        """The targets that the last fit expects for features."""

    # ---- shared

    def fit(self, values: Floats) -> None:
        """Make rows of features and targets from the values, and fit."""
        seasons = find_seasons(values) if self.seasons is None else usable(self.seasons, len(values))
        self._seasons = tuple(seasons)
        last = len(values) - max(self.horizons)
        first = self.first_row(last)
        if last - first < _MIN_ROWS:
            return
        seen = np.log1p(windows(values[:last], first, self.reach))
        level = level_of(seen)
        logs = np.log1p(values)
        targets = np.array([logs[first + h : last + h] - level for h in self.horizons]).T
        self._top = float(logs.max())
        self.regress(self.features(seen, level), targets)

    def first_row(self, last: int) -> int:
        """The first row of a fit: as far as possible with a whole season before it."""
        long = max(self._seasons, default=0) > last // 2
        padded = 2 * last // 3 if long else last // 4
        return max(last - self.train_rows, min(self.reach, padded), 0)

    def features(self, logs: Floats, level: Floats) -> Floats:
        """Rows x columns, from windows of logarithms and their level."""
        parts = [logs[:, -1 : -LAGS - 1 : -1], logs[:, -_LONG_AVERAGE:].mean(axis=1)[:, None]]
        parts += [logs[:, [-1 - back for back in self._season_lags(season)]] for season in self._seasons]
        relative = np.concatenate(parts, axis=1) - level[:, None]
        return np.concatenate([relative, level[:, None]], axis=1)

    def _season_lags(self, season: int) -> list[int]:
        """The lags to the target of a forecast some seasons earlier, to its neighbours, and to now a season earlier."""
        around = sorted({0, *(h + d for h in self.horizons for d in (-1, 0, 1))})
        lags = (max(1, -(-ahead // season)) * season - ahead for ahead in around)
        return list(dict.fromkeys(lag for lag in lags if lag >= LAGS))  # nearer ones are there

    def feature_names(self) -> list[str]:
        """The columns of `features`, in words."""
        lags = [*range(LAGS), *(back for season in self._seasons for back in self._season_lags(season))]
        names = [f"log of the value {back} back, less level" for back in lags]
        names.insert(LAGS, f"average log of the last {_LONG_AVERAGE}, less level")
        return [*names, f"level: average log of the last {LEVEL}"]

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """Level plus the output of the regression; the last value before the first fit."""
        if not self.ready:
            return Points(np.repeat(seen[:, -1:], len(horizons), axis=1))
        logs = np.log1p(seen)
        level = level_of(logs)
        expected = level[:, None] + self.regressed(self.features(logs, level))
        highest = np.maximum(logs[:, -1], self._top) + np.log(2.0)
        return Points(np.expm1(np.clip(self.between(expected, horizons), 0.0, highest[:, None])))

    def between(self, at_own: Floats, horizons: Sequence[int]) -> Floats:
        """From the horizons of the model to others: linear in between, constant beyond the last one."""
        if tuple(horizons) == self.horizons:
            return at_own
        own, unit = np.array(self.horizons, dtype=np.float64), np.eye(len(self.horizons))
        share = np.array([np.interp(np.array(horizons, dtype=np.float64), own, column) for column in unit])
        interpolated: Floats = at_own @ share
        return interpolated

    def fitted(self) -> dict[str, Any]:
        """The seasons and the largest logarithm that was seen."""
        return {"seasons": list(self._seasons), "top": self._top}

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        self._seasons, self._top = tuple(int(each) for each in found["seasons"]), float(found["top"])


def level_of(logs: Floats) -> Floats:
    """The recent level of each window of logarithms."""
    level: Floats = logs[:, -LEVEL:].mean(axis=1)
    return level


def missing_extra(name: str, error: ImportError) -> EnvironmentNotReadyError:
    """The error for a model whose packages are not installed."""
    return EnvironmentNotReadyError(f"the model '{name}' needs {error.name}: pip install 'foretide[forecast]'")


_PENALTY = 3.0
_ROUNDS = 8


@dataclass(frozen=True)
class Linear:
    """Weights for unscaled features, and a constant."""

    weights: Floats
    constant: Floats

    def __call__(self, features: Floats) -> Floats:
        """Rows x targets."""
        result: Floats = features @ self.weights + self.constant
        return result


def ridge(features: Floats, targets: Floats, penalty: float = _PENALTY) -> Linear:
    """The linear rule with the smallest squared errors plus `penalty` times its squared (scaled) weights."""
    middle, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    scaled = (features - middle) / scale
    centre = targets.mean(axis=0)
    square = scaled.T @ scaled + penalty * np.eye(scaled.shape[1])
    weights = np.linalg.solve(square, scaled.T @ (targets - centre)) / scale[:, None]
    return Linear(weights, centre - middle @ weights)


def absolute_ridge(features: Floats, targets: Floats, penalty: float = _PENALTY) -> Linear:
    """The linear rule with the smallest absolute errors, by reweighting: it estimates the median and is robust."""
    rules = []
    for target in targets.T:
        rule = ridge(features, target[:, None], penalty)
        for _ in range(_ROUNDS):
            errors = np.abs(target - rule(features)[:, 0])
            weight = 1 / np.maximum(errors, 0.2 * errors.mean() + 1e-9)
            rule = _weighted(features, target, weight / weight.mean(), penalty)
        rules.append(rule)
    return Linear(np.hstack([rule.weights for rule in rules]), np.concatenate([rule.constant for rule in rules]))


def _weighted(features: Floats, target: Floats, weight: Floats, penalty: float) -> Linear:
    total = weight.sum()
    middle = weight @ features / total
    scale = np.sqrt(weight @ (features - middle) ** 2 / total) + 1e-9
    scaled = (features - middle) / scale
    centre = weight @ target / total
    square = scaled.T @ (weight[:, None] * scaled) + penalty * np.eye(scaled.shape[1])
    weights = np.linalg.solve(square, scaled.T @ (weight * (target - centre))) / scale
    return Linear(weights[:, None], np.array([centre - middle @ weights]))


class Ridge(LagModel):
    """Two linear rules on the same lags: the median in logarithms, and the mean in plain values."""

    name: ClassVar[str] = "ridge"
    refit_every = 1000
    train_rows = 14_000

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._median: Linear | None = None
        self._mean_rule: Linear | None = None

    @property
    def ready(self) -> bool:
        """Whether it has been fitted."""
        return self._median is not None

    def fit(self, values: Floats) -> None:
        """Fit the rule of the median by the base, and that of the mean to values in units of the largest."""
        super().fit(values)
        last = len(values) - max(self.horizons)
        first = self.first_row(last)
        if self._median is None or last <= first:
            return
        seen = windows(values[:last], first, self.reach)
        targets = np.array([values[first + h : last + h] for h in self.horizons]).T
        unit = max(float(values.max()), 1e-9)
        self._mean_rule = ridge(self._plain(seen) / unit, targets / unit)
        self._mean_rule = Linear(self._mean_rule.weights, self._mean_rule.constant * unit)

    def _plain(self, seen: Floats) -> Floats:
        return self.features(seen, np.zeros(len(seen)))[:, :-1]

    def regress(self, features: Floats, targets: Floats) -> None:
        """Absolute errors."""
        self._median = absolute_ridge(features, targets)

    def regressed(self, features: Floats) -> Floats:
        """The median's rule."""
        return features @ self._median.weights + self._median.constant if self._median else features[:, :0]

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The median as the centre, and the mean."""
        points = super().predict(seen, horizons)
        if self._mean_rule is None:
            return points
        highest = 2 * np.maximum(seen.max(axis=1), np.expm1(self._top))
        mean = self.between(self._mean_rule(self._plain(seen)), horizons)
        return Points(points.centre, np.clip(mean, 0.0, highest[:, None]))

    def fitted(self) -> dict[str, Any]:
        """Both rules."""
        found = super().fitted()
        for name, rule in (("median", self._median), ("mean", self._mean_rule)):
            if rule is not None:
                found |= {f"{name}_weights": rule.weights, f"{name}_constant": rule.constant}
        return found

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        super().restore_fitted(found)
        rules = [
            Linear(np.array(found[f"{name}_weights"]), np.array(found[f"{name}_constant"]))
            if f"{name}_weights" in found
            else None
            for name in ("median", "mean")
        ]
        self._median, self._mean_rule = rules
