"""What the nets are compared with: ARIMA and support vector regression, one of each for every worker and target.

Both learn from the first part of a series only, then forecast the rest one step ahead: each value from the true values
before it, with nothing learnt anew. They see the target's own past, as in predictive-control.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from foretide.errors import BadSeriesError, EnvironmentNotReadyError, NotEnoughHistoryError
from foretide.forecasting.forecaster import Floats

LAGS = 12
_LEAST = 2 * LAGS
_VALIDATION = 0.2
_COSTS = (0.3, 3.0, 30.0)
_TUBES = (0.01, 0.05)
_MISSING = "scikit-learn and statsforecast are needed to compare forecasts: pip install 'foretide[forecast]'"


def arima_one_step(series: Floats, learnt: int) -> Floats:
    """Forecasts of `series[learnt:]` by the ARIMA model (orders by AICc) of `series[:learnt]`."""
    _check(series, learnt)
    try:
        from statsforecast.models import AutoARIMA  # noqa: PLC0415 - of an extra
    except ImportError as missing:
        raise EnvironmentNotReadyError(_MISSING) from missing
    if np.ptp(series[:learnt]) == 0:
        return series[learnt - 1 : -1].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the search tries orders that do not converge
        model = AutoARIMA(max_p=3, max_q=3, seasonal=False).fit(series[:learnt])
        fitted = model.forward(y=series, h=1, fitted=True)["fitted"]
    return np.asarray(fitted, dtype=np.float64)[learnt:]


def svr_one_step(series: Floats, learnt: int) -> Floats:
    """Forecasts of `series[learnt:]` by support vector regression on the last 12 values, fitted to `series[:learnt]`.

    Cost and tube are chosen on the last fifth of what is learnt from; then all of it is learnt.
    """
    _check(series, learnt)
    low, width = float(series[:learnt].min()), float(np.ptp(series[:learnt]))
    if width == 0:
        return series[learnt - 1 : -1].copy()
    scaled = (series - low) / width
    inputs, outputs = sliding_window_view(scaled, LAGS)[:-1], scaled[LAGS:]
    train = learnt - LAGS
    fit = int(train * (1 - _VALIDATION))
    best = min(
        product(_COSTS, _TUBES),
        key=lambda each: _loss(each, inputs[:fit], outputs[:fit], inputs[fit:train], outputs[fit:train]),
    )
    return low + width * _svr(best, inputs[:train], outputs[:train], inputs[train:])


def _loss(choice: tuple[float, float], inputs: Floats, outputs: Floats, later: Floats, truth: Floats) -> float:
    return float(np.mean((_svr(choice, inputs, outputs, later) - truth) ** 2))


def _svr(choice: tuple[float, float], inputs: Floats, outputs: Floats, later: Floats) -> Floats:
    try:
        from sklearn.svm import SVR  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra
    except ImportError as missing:
        raise EnvironmentNotReadyError(_MISSING) from missing
    model = SVR(C=choice[0], epsilon=choice[1], gamma="scale").fit(inputs, outputs)
    return np.asarray(model.predict(later), dtype=np.float64)


def _check(series: Floats, learnt: int) -> None:
    if series.ndim != 1 or not np.isfinite(series).all():
        raise BadSeriesError("a series to compare on has to be one row of finite numbers; fill its gaps first.")
    if not _LEAST <= learnt < len(series):
        raise NotEnoughHistoryError(
            f"{learnt} of {len(series)} values to learn from; give at least {_LEAST}, and at least one to forecast."
        )
