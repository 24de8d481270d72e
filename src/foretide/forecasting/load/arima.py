"""ARIMA on logarithms: the coefficients by statsforecast, the recursion for many windows at once by NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.load.base import LoadModel, Points
from foretide.forecasting.load.lags import missing_extra

ORDERS = ((1, 1, 1), (2, 1, 2), (3, 1, 1), (2, 0, 1))
"""The orders (p, d, q) of which a fit takes the one with the smallest errors one step ahead."""

_WINDOW = 160
_TRAINING_VALUES = 1000
_MIN_VALUES = 16
_MIN_RANGE = 1e-9
_MAX_ROOT = 1.001
"""Errors of the recursion die out, or at least do not grow."""


class Arima(LoadModel):
    """ARIMA on logarithms; the order is the one with the smallest one-step errors."""

    name: ClassVar[str] = "arima"
    corrects_mean: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("statsforecast",)
    refit_every = 2000
    reach = _WINDOW  # long enough for the unknown first errors to fade

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._order: tuple[int, int, int] | None = None
        self._ar, self._ma, self._mean_level, self._top = np.zeros(0), np.zeros(0), 0.0, 0.0

    @property
    def ready(self) -> bool:
        """Whether it has been fitted."""
        return self._order is not None

    def fit(self, values: Floats) -> None:
        """Fit each order to the recent values and keep the one whose errors over the last third are smallest.

        To too few values, or values that do not change, none is fitted.
        """
        logs = np.log1p(values[-_TRAINING_VALUES:])
        self._top = float(np.log1p(values.max()))
        if len(logs) < _MIN_VALUES or np.ptp(logs) < _MIN_RANGE:
            self._order = None
            return
        best = min((self._try(order, logs) for order in ORDERS), key=lambda tried: tried[0])
        if np.isfinite(best[0]):
            _, self._order, self._ar, self._ma, self._mean_level = best

    def _try(
        self, order: tuple[int, int, int], logs: Floats
    ) -> tuple[float, tuple[int, int, int], Floats, Floats, float]:
        found = _coefficients(order, logs)
        if found is None:
            return np.inf, order, np.zeros(0), np.zeros(0), 0.0
        seen = np.lib.stride_tricks.sliding_window_view(np.concatenate([np.full(_WINDOW - 1, logs[0]), logs]), _WINDOW)
        tail = seen[2 * len(logs) // 3 : -1]
        ahead = _path(tail, order[1], *found, 1)[:, 0]
        errors = np.abs(ahead - logs[-len(ahead) :])
        return float(errors.mean()), order, *found

    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The recursion, continued; the last value before the first fit."""
        if self._order is None:
            return Points(np.repeat(seen[:, -1:], len(horizons), axis=1))
        logs = np.log1p(seen)
        path = _path(logs, self._order[1], self._ar, self._ma, self._mean_level, max(horizons))
        highest = np.maximum(logs[:, -1], self._top) + np.log(2.0)
        return Points(np.expm1(np.clip(path[:, [h - 1 for h in horizons]], 0.0, highest[:, None])))

    def fitted(self) -> dict[str, Any]:
        """The order and the coefficients."""
        order = [] if self._order is None else list(self._order)
        return {"order": order, "ar": self._ar, "ma": self._ma, "mean": self._mean_level, "top": self._top}

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        order = [int(each) for each in found["order"]]
        self._order = (order[0], order[1], order[2]) if order else None
        self._ar, self._ma = np.array(found["ar"]), np.array(found["ma"])
        self._mean_level, self._top = float(found["mean"]), float(found["top"])


def _coefficients(order: tuple[int, int, int], logs: Floats) -> tuple[Floats, Floats, float] | None:
    """AR and MA coefficients and the mean by conditional least squares; None where no fit is found."""
    try:
        from statsforecast.arima import arima  # noqa: PLC0415 an extra
    except ImportError as error:
        raise missing_extra(Arima.name, error) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the search stops at the limit of precision: its result is as good
            found = arima(logs, order=order, method="CSS")["coef"]
    except (ValueError, np.linalg.LinAlgError, ZeroDivisionError):
        return None
    ar = np.array([found[f"ar{i + 1}"] for i in range(order[0])])
    ma = np.array([found[f"ma{i + 1}"] for i in range(order[2])])
    stable = _largest_root(ar) < _MAX_ROOT and _largest_root(-ma) < _MAX_ROOT
    return (ar, ma, float(found.get("intercept", 0.0))) if stable else None


def _largest_root(coefficients: Floats) -> float:
    """The factor by which a recursion with these coefficients grows in a step, in the end.

    >>> round(_largest_root(np.array([0.5, 0.24])), 6)
    0.8
    """
    if not np.isfinite(coefficients).all():
        return np.inf
    return float(np.abs(np.roots([1.0, *-coefficients])).max(initial=0.0))


def _path(logs: Floats, differences: int, ar: Floats, ma: Floats, mean: float, steps: int) -> Floats:
    """Windows x steps: run the recursion through each window to know the last errors, then on without errors."""
    moved = (np.diff(logs, axis=1) if differences else logs) - mean
    size, back = moved.shape[1], max(len(ar), len(ma), 1)
    series = np.concatenate([moved, np.zeros((len(moved), steps))], axis=1)
    errors = np.zeros_like(series)
    for place in range(back, size + steps):
        expected = series[:, place - len(ar) : place] @ ar[::-1] + errors[:, place - len(ma) : place] @ ma[::-1]
        if place < size:
            errors[:, place] = np.clip(series[:, place] - expected, -10.0, 10.0)
        else:
            series[:, place] = np.clip(expected, -50.0, 50.0)
    ahead = series[:, size:] + mean
    return logs[:, -1:] + np.cumsum(ahead, axis=1) if differences else ahead
