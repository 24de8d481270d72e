"""Plots of forecasts with their intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast
from foretide.reports.figure import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from foretide.forecasting.backtest import Backtest

_LOW, _HIGH = (int(np.argmin(np.abs(LEVELS - level))) for level in (0.1, 0.9))


def draw_backtest(backtest: Backtest, place: int, path: Path, latest: int) -> Path:
    """Plot the last forecasts of a rolling origin at one horizon, against the values that came."""
    figure = new_figure()
    horizon = backtest.horizons[place]
    cut = slice(-latest, None)
    axes = figure.subplots()
    times, quantiles = horizon.places[cut], horizon.quantiles[cut]
    axes.fill_between(times, quantiles[:, _LOW], quantiles[:, _HIGH], alpha=0.25, label="80 % interval")
    axes.plot(times, horizon.truth[cut], color="black", linewidth=0.9, label="truth")
    axes.plot(times, horizon.mean[cut], linewidth=1.1, label="mean")
    axes.set(title=f"{backtest.name}, {horizon.steps} ahead", xlabel="step", ylabel="load")
    return _finish(figure, path)


def draw_forecast(values: Floats, ahead: SeriesForecast, path: Path) -> Path:
    """Plot the last values and the forecast after them."""
    figure = new_figure()
    axes = figure.subplots()
    shown = values[-5 * ahead.horizon - 50 :]
    future = np.arange(1, ahead.horizon + 1)
    axes.plot(np.arange(1 - len(shown), 1), shown, color="black", linewidth=0.9, label="measured")
    axes.fill_between(future, ahead.quantiles[:, _LOW], ahead.quantiles[:, _HIGH], alpha=0.25, label="80 % interval")
    axes.plot(future, ahead.mean, label="mean")
    axes.plot(future, ahead.median, linestyle="--", label="median")
    axes.set(xlabel="steps from now", ylabel="load")
    return _finish(figure, path)


def _finish(figure: Figure, path: Path) -> Path:
    for axes in figure.axes:
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left")
    return save_figure(figure, path)
