"""Ridge regression on lags: one linear rule for the median, in logarithms, and one for the mean, in plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.history import windows
from foretide.forecasting.load.base import Points
from foretide.forecasting.load.lags import LagModel

_PENALTY = 3.0
_ROUNDS = 8


@dataclass(frozen=True)
class Linear:
    """Weights for features as they come (their scaling is worked in), and what is added."""

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
    """The same with absolute errors, by reweighting: it aims at the median and outliers do not bend it."""
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
    """Two linear rules on the same lags."""

    name: ClassVar[str] = "ridge"
    summary: ClassVar[str] = "linear in lags and the season before: the median in logarithms, the mean in plain values"
    refit_every = 1000
    train_rows = 14_000

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._median: Linear | None = None
        self._mean_rule: Linear | None = None

    @property
    def awake(self) -> bool:
        """Once it was fitted."""
        return self._median is not None

    def fit(self, values: Floats) -> None:
        """The median's rule by the base; the mean's on plain values in units of their largest."""
        super().fit(values)
        last = len(values) - max(self.horizons)
        first = max(last - self.train_rows, min(self.reach, last // 4), 0)
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
        """The median's rule around which errors are kept, and the mean's."""
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
        """Take both over."""
        super().restore_fitted(found)
        rules = [
            Linear(np.array(found[f"{name}_weights"]), np.array(found[f"{name}_constant"]))
            if f"{name}_weights" in found
            else None
            for name in ("median", "mean")
        ]
        self._median, self._mean_rule = rules
