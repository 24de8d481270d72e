"""`foretide forecast SOURCE`: the next values of a series, with intervals, and which models count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from foretide.cli.console import format_number, plain_table, progress_bar
from foretide.cli.forecast.source import (
    ColumnOption,
    SeasonOption,
    SeedOption,
    SourceArgument,
    check_model,
    load_source,
)
from foretide.cli.options import JsonOption, PlotOption, check_plot
from foretide.forecasting.forecaster import SeriesForecast
from foretide.forecasting.load.base import LoadModel
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import HORIZONS, NAMES, make
from foretide.forecasting.saved import continue_training, load_model, seasons_of
from foretide.forecasting.series import Series
from foretide.reports.forecast_plot import draw_forecast

_CHUNK = 250


def forecast(
    source: SourceArgument,
    horizon: Annotated[int, typer.Option(help="Steps to forecast.", min=1, max=10_000)] = 12,
    model: Annotated[str, typer.Option(help=f"Folder of a saved model, or one of {', '.join(NAMES)}.")] = Ensemble.name,
    column: ColumnOption = None,
    season: SeasonOption = None,
    seed: SeedOption = 0,
    plot: PlotOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Forecast a load, with intervals.

    A saved model learns the values that are new first; its folder is not changed.
    """
    check_plot(plot)
    series = load_source(source, column)
    if Path(model).is_dir():
        learnt = _load(series, Path(model))
    else:
        learnt = _train(series, check_model(model), horizon, season or [], seed)
    ahead = learnt.forecast(horizon)
    if plot is not None:
        known = np.array([value for value in series.values if value is not None])
        draw_forecast(known, ahead, plot)
    if as_json:
        typer.echo(json.dumps(to_data(series, learnt, ahead), indent=2))
    else:
        _show(series, learnt, ahead, Console())


def _train(series: Series, name: str, horizon: int, season: list[int], seed: int) -> LoadModel | Ensemble:
    horizons = [each for each in HORIZONS if each < horizon] + [horizon]
    model = make(name, horizons, seasons_of(series, season), seed)
    with progress_bar(f"learning {series.name}") as progress:
        for start in range(0, len(series.values), _CHUNK):
            model.learn(series.values[start : start + _CHUNK])
            progress(min(1.0, (start + _CHUNK) / len(series.values)))
    return model


def _load(series: Series, folder: Path) -> LoadModel | Ensemble:
    model, card = load_model(folder)
    with progress_bar("learning new values") as progress:
        continue_training(model, card, series, retrain=False, progress=progress)
    return model


def to_data(series: Series, model: LoadModel | Ensemble, ahead: SeriesForecast) -> dict[str, Any]:
    """The forecast as plain values, a row a step."""
    bounds = {level: ahead.interval(level / 100) for level in (80, 95)}
    steps = [
        {
            "step": step + 1,
            "mean": float(ahead.mean[step]),
            "median": float(ahead.median[step]),
            **{f"low_{level}": float(low[step]) for level, (low, _) in bounds.items()},
            **{f"high_{level}": float(high[step]) for level, (_, high) in bounds.items()},
        }
        for step in range(ahead.horizon)
    ]
    why = model.explain(1).sentence if isinstance(model, Ensemble) else None
    return {"series": series.name, "model": model.name, "values": len(series.values), "why": why, "steps": steps}


def _show(series: Series, model: LoadModel | Ensemble, ahead: SeriesForecast, console: Console) -> None:
    title = f"{series.name} after {len(series.values):,} values, by {model.name}"
    table = plain_table(title, "step", "mean", "median", "80 % interval", "95 % interval")
    eighty, most = ahead.interval(0.8), ahead.interval(0.95)
    for step in range(ahead.horizon):
        cells = (f"{format_number(low[step])} - {format_number(high[step])}" for low, high in (eighty, most))
        table.add_row(str(step + 1), format_number(ahead.mean[step]), format_number(ahead.median[step]), *cells)
    console.print(table)
    if isinstance(model, Ensemble):
        for sentence in dict.fromkeys(model.explain(steps).sentence for steps in (1, ahead.horizon)):
            console.print(sentence, highlight=False, soft_wrap=True)
