"""Every load model by name: what the command line offers, what the mix asks, and what the contract tests run over."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from foretide.errors import ForecastError
from foretide.forecasting.load.arima import Arima
from foretide.forecasting.load.base import HORIZONS, LoadModel
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.fourier import Fourier
from foretide.forecasting.load.neural import NeuralNet
from foretide.forecasting.load.ridge import Ridge
from foretide.forecasting.load.scikit import GradientBoosting, RandomForest, SupportVectors
from foretide.forecasting.load.simple import Ewma, LastValue, LinearTrend, MovingAverage, SeasonalLastValue

NEEDS_NUMPY_ONLY: tuple[type[LoadModel], ...] = (
    LastValue, SeasonalLastValue, MovingAverage, Ewma, LinearTrend, Fourier, Ridge,
)  # fmt: skip
"""Models without further packages; the last value first, because the mix falls back to it."""

NEEDS_EXTRA: tuple[type[LoadModel], ...] = (NeuralNet, RandomForest, GradientBoosting, SupportVectors, Arima)
"""Models that need `foretide[forecast]`."""

MODELS: dict[str, type[LoadModel]] = {kind.name: kind for kind in (*NEEDS_NUMPY_ONLY, *NEEDS_EXTRA)}
NAMES: tuple[str, ...] = (*MODELS, Ensemble.name)
"""Everything that `make` knows."""


def available() -> tuple[type[LoadModel], ...]:
    """The models whose packages are installed."""
    return tuple(kind for kind in MODELS.values() if all(find_spec(package) for package in kind.needs))


def make(
    name: str, horizons: Sequence[int] = HORIZONS, seasons: Sequence[int] | None = None, seed: int = 0
) -> LoadModel | Ensemble:
    """The model of that name, which has learnt nothing yet.

    >>> make("ewma").name
    'ewma'

    Raises:
        ForecastError: There is no such model; the message lists those there are.
    """
    if name == Ensemble.name:
        return make_mix(horizons, seasons, seed)
    if name not in MODELS:
        raise ForecastError(f"there is no model '{name}'; choose one of {', '.join(NAMES)}.")
    return MODELS[name](horizons, seasons, seed)


def make_mix(
    horizons: Sequence[int] = HORIZONS,
    seasons: Sequence[int] | None = None,
    seed: int = 0,
    kinds: Sequence[type[LoadModel]] | None = None,
) -> Ensemble:
    """The mix of all models that can run here, or of the kinds that are given (the last value is always in)."""
    chosen = available() if kinds is None else kinds
    ordered: list[type[LoadModel]] = [LastValue, *(kind for kind in chosen if kind is not LastValue)]
    return Ensemble([kind(horizons, seasons, seed) for kind in ordered])
