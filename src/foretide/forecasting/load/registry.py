"""Every load model by name. A model's module is imported when it is used, so that names alone cost nothing.

A new forecaster is a class in this folder and a line in one of the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from foretide.errors import ForecastError

if TYPE_CHECKING:
    from foretide.forecasting.load.base import LoadModel
    from foretide.forecasting.load.ensemble import Ensemble

HORIZONS = (1, 2, 3, 6, 12)
"""The steps ahead at which models track their errors by default."""

LAST_VALUE = "last value"
ENSEMBLE = "ensemble"

_NUMPY_ONLY = {
    LAST_VALUE: "simple:LastValue",
    "seasonal last value": "simple:SeasonalLastValue",
    "moving average": "simple:MovingAverage",
    "ewma": "simple:Ewma",
    "linear regression": "simple:LinearTrend",
    "fft": "simple:Fourier",
    "ridge": "lags:Ridge",
}
_WITH_EXTRA = {
    "neural net": "neural:NeuralNet",
    "random forest": "scikit:RandomForest",
    "gradient boosting": "scikit:GradientBoosting",
    "svr": "scikit:SupportVectors",
    "arima": "arima:Arima",
    "seasonal trend": "seasonal_trend:SeasonalTrend",
    "global net": "global_net:GlobalNet",
}

NUMPY_MODELS: tuple[str, ...] = tuple(_NUMPY_ONLY)
"""Models that need no further packages; the last value first, because the ensemble falls back to it."""

EXTRA_MODELS: tuple[str, ...] = tuple(_WITH_EXTRA)
"""Models that need `foretide[forecast]`."""

MODELS: tuple[str, ...] = (*NUMPY_MODELS, *EXTRA_MODELS)
NAMES: tuple[str, ...] = (*MODELS, ENSEMBLE)
"""Everything that `make` knows."""


def model_class(name: str) -> type[LoadModel]:
    """The class of a model.

    Raises:
        ForecastError: There is no model of that name; the message lists all names.
    """
    path = (_NUMPY_ONLY | _WITH_EXTRA).get(name)
    if path is None:
        raise ForecastError(f"the model must be one of {', '.join(NAMES)}, got '{name}'")
    module, _, class_name = path.partition(":")
    found: type[LoadModel] = getattr(import_module(f"foretide.forecasting.load.{module}"), class_name)
    return found


def available() -> tuple[str, ...]:
    """The models whose packages are installed."""
    return tuple(name for name in MODELS if all(find_spec(package) for package in model_class(name).needs))


def make(
    name: str, horizons: Sequence[int] = HORIZONS, seasons: Sequence[int] | None = None, seed: int = 0
) -> LoadModel | Ensemble:
    """A model that has learnt nothing yet.

    >>> make("ewma").name
    'ewma'

    Raises:
        ForecastError: There is no model of that name; the message lists all names.
    """
    if name == ENSEMBLE:
        return make_ensemble(horizons, seasons, seed)
    return model_class(name)(horizons, seasons, seed)


def make_ensemble(
    horizons: Sequence[int] = HORIZONS,
    seasons: Sequence[int] | None = None,
    seed: int = 0,
    names: Sequence[str] | None = None,
) -> Ensemble:
    """An ensemble of the named models, by default of all that are installed. The last value is always a member."""
    from foretide.forecasting.load.ensemble import Ensemble  # noqa: PLC0415 - needs NumPy

    members = dict.fromkeys((LAST_VALUE, *(available() if names is None else names)))
    return Ensemble([model_class(name)(horizons, seasons, seed) for name in members])
