"""Seasonal-trend decomposition and exponential smoothing on logarithms, as MSTL with AutoETS.

The shape of a season is the average of its last repetitions, less the level of each: first of the shortest season, then
of the next one in what is left. A fit finds how far each shape can be relied on, and the smoothing of what remains, by
statsforecast. NumPy follows the smoothing through many windows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.history import find_seasons, usable
from foretide.forecasting.load.base import LoadModel, Points
from foretide.forecasting.load.lags import missing_extra

_WINDOW = 160
_TRAINING_VALUES = 1000
_MIN_VALUES = 16
_MIN_RANGE = 1e-9
_REPEATS = 7
_ROWS = 256
"""Windows that are decomposed at once: long seasons take much memory."""


@dataclass(frozen=True, slots=True)
class Smoothing:
    """Of the level and of a damped trend: shares of each error that they take up, and what remains of the trend."""

    level: float
    trend: float = 0.0
    damping: float = 1.0


class SeasonalTrend(LoadModel):
    """The shapes of the seasons, and exponential smoothing with a damped trend of the rest."""

    name: ClassVar[str] = "seasonal trend"
    corrects_mean: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("statsforecast",)
    refit_every = 1000

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seasons: tuple[int, ...] = ()
        self._reliance: tuple[float, ...] = ()
        self._smoothing: Smoothing | None = None
        self._top = 0.0

    @property
    def reach(self) -> int:
        """Some repetitions of the longest season, or what the smoothing remembers."""
        return max(_WINDOW, *(_REPEATS * season for season in self._seasons), 0)

    @property
    def ready(self) -> bool:
        """Whether it has been fitted."""
        return self._smoothing is not None

    def fit(self, values: Floats) -> None:
        """Find how far the shape of each season can be relied on, then smooth what remains."""
        logs = np.log1p(values)
        if len(logs) < _MIN_VALUES or np.ptp(logs[-_TRAINING_VALUES:]) < _MIN_RANGE:
            self._smoothing = None
            return
        seasons = find_seasons(values) if self.seasons is None else usable(self.seasons, len(values))
        self._seasons, rest, reliance = tuple(sorted(seasons)), logs, list[float]()
        for season in self._seasons:
            shape = _shape_before(rest, season)
            reliance.append(_reliance(rest, shape, season))
            rest = rest - reliance[-1] * shape
        self._reliance = tuple(reliance)
        self._top = float(logs.max())
        self._smoothing = _smoothing(rest[-_TRAINING_VALUES:])

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """Shapes plus the smoothed rest; the last value before the first fit."""
        if self._smoothing is None:
            return Points(np.repeat(seen[:, -1:], len(horizons), axis=1))
        by, rows = self._smoothing, range(0, len(seen), _ROWS)
        parts = [self._ahead(np.log1p(seen[at : at + _ROWS]), by, np.array(horizons)) for at in rows]
        highest = np.maximum(np.log1p(seen[:, -1]), self._top) + np.log(2.0)
        return Points(np.expm1(np.clip(np.concatenate(parts), 0.0, highest[:, None])))

    def _ahead(self, logs: Floats, by: Smoothing, steps: NDArray[np.int64]) -> Floats:
        rest, ahead = logs, np.zeros((len(logs), len(steps)))
        for season, reliance in zip(self._seasons, self._reliance, strict=True):
            shape = reliance * _shape(rest, season)
            rest = rest - shape[:, np.arange(-rest.shape[1], 0) % season]
            ahead += shape[:, (steps - 1) % season]
        return ahead + _smoothed(rest[:, -_WINDOW:], by, steps)

    def fitted(self) -> dict[str, Any]:
        """Seasons and smoothing."""
        each = self._smoothing
        return {
            "seasons": list(self._seasons), "reliance": list(self._reliance), "top": self._top,
            "smoothing": [] if each is None else [each.level, each.trend, each.damping],
        }  # fmt: skip

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        self._seasons = tuple(int(each) for each in found["seasons"])
        self._reliance = tuple(float(each) for each in found["reliance"])
        self._top = float(found["top"])
        self._smoothing = Smoothing(*map(float, found["smoothing"])) if found["smoothing"] else None


def _shape(logs: Floats, season: int) -> Floats:
    """Windows x positions of the season after each window: the average of the last repetitions, less their levels."""
    repeats = min(_REPEATS, logs.shape[1] // season)
    last = logs[:, -repeats * season :].reshape(len(logs), repeats, season)
    shape: Floats = (last - last.mean(axis=2, keepdims=True)).mean(axis=1)
    return shape


def _shape_before(logs: Floats, season: int) -> Floats:
    """For each value what the repetitions before it say; 0 in the first one."""
    found = np.zeros(len(logs))
    for start in range(season, len(logs), season):
        shape = _shape(logs[None, max(0, start - _REPEATS * season) : start], season)[0]
        found[start : start + season] = shape[: len(logs) - start]
    return found


def _reliance(logs: Floats, shape: Floats, season: int) -> float:
    """The share of the shape that explains most of how values differ from the level of their own repetition."""
    whole = len(logs) // season * season
    each = logs[len(logs) - whole :].reshape(-1, season)[1:]
    expected = shape[len(logs) - whole :].reshape(-1, season)[1:]
    apart = each - each.mean(axis=1, keepdims=True)
    expected = expected - expected.mean(axis=1, keepdims=True)
    square = float((expected**2).sum())
    return float(np.clip((apart * expected).sum() / square, 0.0, 1.0)) if square > _MIN_RANGE else 0.0


def _smoothing(rest: Floats) -> Smoothing | None:
    """By statsforecast; None where no fit is found."""
    try:
        from statsforecast.ets import ets_f  # noqa: PLC0415 an extra
    except ImportError as error:
        raise missing_extra(SeasonalTrend.name, error) from error
    try:
        fitted: Any = ets_f
        found = fitted(np.ascontiguousarray(rest), m=1, model="AZN")
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return None
    level, trend, _, damping = (float(each) for each in found["par"][:4])
    if not np.isfinite(level):
        return None
    return Smoothing(level, trend, damping if np.isfinite(damping) else 1.0) if np.isfinite(trend) else Smoothing(level)


def _smoothed(rest: Floats, by: Smoothing, steps: NDArray[np.int64]) -> Floats:
    """Windows x steps ahead: the level at the end of each window and its trend, damped step by step."""
    level, trend = rest[:, 0].copy(), np.zeros(len(rest))
    for value in rest.T[1:]:
        expected = level + by.damping * trend
        error = value - expected
        level, trend = expected + by.level * error, by.damping * trend + by.trend * error
    weight = np.cumsum(by.damping ** np.arange(1.0, max(steps) + 1))[steps - 1]
    ahead: Floats = level[:, None] + trend[:, None] * weight
    return ahead
