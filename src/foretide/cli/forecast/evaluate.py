"""`foretide evaluate SOURCE`: every model on the last part of a series, by rolling origin."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

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
from foretide.forecasting.backtest import Backtest, roll_ensemble
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import make_ensemble
from foretide.forecasting.saved import seasons_of
from foretide.reports.forecast_plot import draw_backtest


def evaluate(
    source: SourceArgument,
    model: Annotated[list[str] | None, typer.Option(help="A model to include; repeatable. Default: all.")] = None,
    horizon: Annotated[list[int] | None, typer.Option(help="Steps ahead; repeatable. Default: 1 and 3.", min=1)] = None,
    share: Annotated[
        float, typer.Option(help="Share at the end of the series that is scored.", min=0.01, max=0.9)
    ] = 0.3,
    column: ColumnOption = None,
    season: SeasonOption = None,
    seed: SeedOption = 0,
    plot: PlotOption = None,
    latest: Annotated[int, typer.Option(help="Steps at the end that are plotted.", min=2)] = 300,
    *,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the models on the last part of a series.

    Each forecast is made from the values before it alone.

    RMSE is of the mean, also relative to the last value's; MAPE and sMAPE are of the median; then how often the truth
    lay inside the 80 % and 95 % intervals, the time to learn what comes before the part that is scored, and the time
    for each value of it, fits included. The mix is made of the models that are included.
    """
    check_plot(plot)
    series = load_source(source, column)
    horizons = horizon or [1, 3]
    names = [name for name in (check_model(each) for each in model or []) if name != Ensemble.name]
    ensemble = make_ensemble(horizons, seasons_of(series, season or ()), seed, names or None)
    with progress_bar(f"evaluating on {series.name}") as progress:
        results = roll_ensemble(ensemble, series.values, share, progress)
    wanted = set(horizons)
    if plot is not None:
        place = next(index for index, each in enumerate(results[0].horizons) if each.steps in wanted)
        draw_backtest(results[0], place, plot, latest)
    if as_json:
        typer.echo(json.dumps(to_data(series.name, results, wanted), indent=2))
    else:
        _show(series.name, results, wanted, share, ensemble, Console())


def to_data(series: str, results: tuple[Backtest, ...], wanted: set[int]) -> dict[str, Any]:
    """The scores as plain values, a row for each model and horizon."""
    rows = [
        {
            "model": rolled.name,
            "steps_ahead": each.steps,
            **asdict(each.scores),
            "learn_seconds": rolled.learn_seconds,
            "seconds_a_value": rolled.step_seconds,
        }
        for rolled in results
        for each in rolled.horizons
        if each.steps in wanted
    ]
    return {"series": series, "scores": rows}


def _show(
    series: str, results: tuple[Backtest, ...], wanted: set[int], share: float, ensemble: Ensemble, console: Console
) -> None:
    columns = ("RMSE", "vs last", "MAPE", "sMAPE", "in 80%", "in 95%", "learn", "a value")
    for place, horizon in enumerate(results[0].horizons):
        if horizon.steps not in wanted:
            continue
        title = f"{series}, {horizon.steps} ahead: the last {share:.0%}, {len(horizon.truth):,} forecasts a model"
        table = plain_table(title, "model", *columns)
        for rolled in results:
            scores = rolled.horizons[place].scores
            table.add_row(
                rolled.name, format_number(scores.rmse), f"{scores.relative_rmse:.3f}", f"{scores.mape:.1%}",
                f"{scores.smape:.1%}", f"{scores.coverage_80:.0%}",
                f"{scores.coverage_95:.0%}", f"{rolled.learn_seconds:.1f} s", f"{1000 * rolled.step_seconds:.2f} ms",
            )  # fmt: skip
        console.print(table)
        console.print(ensemble.explain(horizon.steps).sentence, highlight=False, soft_wrap=True)
    cadence = ", ".join(f"{member.name} {member.refit_every:,}" for member in ensemble.members if member.refit_every)
    if cadence:
        console.print(f"Values between two fits (drift causes another): {cadence}.", highlight=False, soft_wrap=True)
