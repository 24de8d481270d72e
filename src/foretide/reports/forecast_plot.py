"""Plots of forecasts with their intervals, as SVG or PNG by the suffix of the path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import EnvironmentNotReadyError
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from foretide.forecasting.backtest import Backtest

_LOW, _HIGH = (int(np.argmin(np.abs(LEVELS - level))) for level in (0.1, 0.9))


def new_figure() -> Figure:
    """An empty figure; raises `EnvironmentNotReadyError` when matplotlib is missing."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 an extra
    except ImportError as error:
        raise EnvironmentNotReadyError("plots need matplotlib: pip install 'foretide[plot]'") from error
    return Figure(figsize=(10, 4), layout="constrained")


def draw_backtest(backtest: Backtest, place: int, path: Path, latest: int) -> Path:
    """The last forecasts of a backtest at one horizon, against the truth."""
    figure = new_figure()
    horizon = backtest.horizons[place]
    cut = slice(-latest, None)
    axes = figure.subplots()
    times, quantiles = horizon.places[cut], horizon.quantiles[cut]
    axes.fill_between(times, quantiles[:, _LOW], quantiles[:, _HIGH], alpha=0.25, label="80 % interval")
    axes.plot(times, horizon.truth[cut], color="black", linewidth=0.9, label="truth")
    axes.plot(times, horizon.mean[cut], linewidth=1.1, label="mean")
    axes.set(title=f"{backtest.name}, {horizon.steps} ahead", xlabel="step", ylabel="load")
    return _saved(figure, path)


def draw_forecast(values: Floats, ahead: SeriesForecast, path: Path) -> Path:
    """The last values and their forecast."""
    figure = new_figure()
    axes = figure.subplots()
    shown = values[-5 * ahead.horizon - 50 :]
    future = np.arange(1, ahead.horizon + 1)
    axes.plot(np.arange(1 - len(shown), 1), shown, color="black", linewidth=0.9, label="seen")
    axes.fill_between(future, ahead.quantiles[:, _LOW], ahead.quantiles[:, _HIGH], alpha=0.25, label="80 % interval")
    axes.plot(future, ahead.mean, label="mean")
    axes.plot(future, ahead.median, linestyle="--", label="median")
    axes.set(xlabel="steps from now", ylabel="load")
    return _saved(figure, path)


def _saved(figure: Figure, path: Path) -> Path:
    for axes in figure.axes:
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
