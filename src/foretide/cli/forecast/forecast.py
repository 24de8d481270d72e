"""`foretide forecast SOURCE`: what comes next, with intervals, and who is trusted."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from foretide.cli.forecast.histories import load_history
from foretide.cli.forecast.tables import SOURCE_HELP, check_model, check_plot, number, progress_bar, table_of
from foretide.forecasting.forecaster import SeriesForecast
from foretide.forecasting.load.base import HORIZONS, LoadModel
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import NAMES, make
from foretide.forecasting.saved import load_model
from foretide.forecasting.series import Series
from foretide.forecasting.training import go_on, seasons_of
from foretide.reports.forecast_plot import draw_forecast

_CHUNK = 250


def forecast(
    source: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    horizon: Annotated[int, typer.Option(help="Steps to look ahead.", min=1, max=10_000)] = 12,
    folder: Annotated[Path | None, typer.Option("--with", help="A saved model; it learns what is new first.")] = None,
    model: Annotated[str, typer.Option(help=f"Without a saved one: {', '.join(NAMES)}.")] = Ensemble.name,
    column: Annotated[str | None, typer.Option(help="Of a file; by default its last column of numbers.")] = None,
    season: Annotated[list[int] | None, typer.Option(help="A season in steps; by default day and week.", min=2)] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.", min=0)] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it there, as .png or .svg.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Forecast a load, with intervals.

    The saved model in the folder is not changed.
    """
    check_plot(plot)
    series = load_history(source, column)
    learnt = (
        _fresh(series, check_model(model), horizon, season or [], seed) if folder is None else _saved(series, folder)
    )
    ahead = learnt.forecast(horizon)
    if plot is not None:
        known = np.array([value for value in series.values if value is not None])
        draw_forecast(known, ahead, plot)
    if json:
        typer.echo(jsonlib.dumps(as_json(series, learnt, ahead), indent=2))
    else:
        _show(series, learnt, ahead, Console())


def _fresh(series: Series, name: str, horizon: int, season: list[int], seed: int) -> LoadModel | Ensemble:
    horizons = [each for each in HORIZONS if each < horizon] + [horizon]
    model = make(name, horizons, seasons_of(series, season), seed)
    with progress_bar(f"learning {series.name}") as progress:
        for start in range(0, len(series.values), _CHUNK):
            model.learn(series.values[start : start + _CHUNK])
            progress(min(1.0, (start + _CHUNK) / len(series.values)))
    return model


def _saved(series: Series, folder: Path) -> LoadModel | Ensemble:
    model, card = load_model(folder)
    with progress_bar("learning what is new") as progress:
        go_on(model, card, series, retrain=False, progress=progress)
    return model


def as_json(series: Series, model: LoadModel | Ensemble, ahead: SeriesForecast) -> dict[str, Any]:
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
    table = table_of(title, "step", "mean", "median", "80 % interval", "95 % interval")
    eighty, most = ahead.interval(0.8), ahead.interval(0.95)
    for step in range(ahead.horizon):
        cells = (f"{number(low[step])} - {number(high[step])}" for low, high in (eighty, most))
        table.add_row(str(step + 1), number(ahead.mean[step]), number(ahead.median[step]), *cells)
    console.print(table)
    if isinstance(model, Ensemble):
        for sentence in dict.fromkeys(model.explain(steps).sentence for steps in (1, ahead.horizon)):
            console.print(sentence, highlight=False, soft_wrap=True)
