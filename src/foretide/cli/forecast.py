"""`foretide train|forecast|evaluate SOURCE`: models of a load, and what they say about it."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from foretide.cli.console import (
    Console,
    JsonOption,
    PlotOption,
    Text,
    check_plot,
    plain_table,
    print_json,
    progress_bar,
)
from foretide.dates import local_date
from foretide.errors import ForecastError, PipelineNotFoundError
from foretide.forecasting.backtest import Backtest, roll_ensemble
from foretide.forecasting.forecaster import SeriesForecast
from foretide.forecasting.history import LEARNT
from foretide.forecasting.load.base import LoadModel
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import HORIZONS, NAMES, make, make_ensemble
from foretide.forecasting.saved import (
    MAX_HORIZON,
    MAX_SEASON,
    VALIDATION,
    ModelCard,
    check_model_folder,
    continue_training,
    damage_of_saved,
    learn_quickly,
    load_model,
    save_model,
    seasons_of,
)
from foretide.forecasting.saved import train as train_model
from foretide.forecasting.series import Series, load_series, resampled
from foretide.formatting import format_number
from foretide.reports.plots import draw_backtest, draw_forecast
from foretide.status.pipelines import find_running, running_store
from foretide.status.stored import read_history
from foretide.store.metric_store import MetricStore
from foretide.workloads.traces import TRACES

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="A CSV or Parquet file, the name of a running pipeline, or a trace such as taxi."
    ),
]
ColumnOption = Annotated[
    str | None, typer.Option(help="Column of a file, or metric of a pipeline. Default: the last numeric column.")
]
SeasonOption = Annotated[
    list[int] | None,
    typer.Option(help="Length of a season in steps; repeatable. Default: a day and a week.", min=2, max=MAX_SEASON),
]
SeedOption = Annotated[int, typer.Option(help="Seed of the random numbers.", min=0)]

_LOAD_METRIC = "input_rows_per_second"
_STEP_SECONDS = 5.0


def load_source(source: str, column: str | None) -> Series:
    """A file, a packaged trace, or a metric of a running pipeline (by default its input rate)."""
    if source in TRACES or Path(source).suffix in {".csv", ".parquet"}:
        return load_series(source, column)
    try:
        running = find_running(source, "a file (.csv, .parquet)")
    except PipelineNotFoundError as error:
        raise ForecastError(f"'{source}' is not a trace ({', '.join(TRACES)}), and {error}") from error
    metric = column or _LOAD_METRIC
    with MetricStore.open(running_store(running), create=False) as store:
        history = read_history(store, running.name, metric, _STEP_SECONDS)
    if not history:
        raise ForecastError(f"'{running.name}' has no measurements of {metric} yet")
    return resampled(f"{metric} of {running.name}", history, _STEP_SECONDS)


def _say(console: Console, sentence: str) -> None:
    """Print a sentence, wrapped at the width of the output."""
    console.print(sentence, markup=False, highlight=False)


def _share(value: float | None, digits: int = 1) -> str:
    """A share as a percentage; a dash where it has none."""
    return "-" if value is None or not math.isfinite(value) else f"{100 * value:,.{digits}f}%"


def _ratio(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:,.3f}"


def check_model(name: str) -> str:
    """The name of a model, or a usage error that lists them."""
    if name not in NAMES:
        raise typer.BadParameter(f"--model must be one of {', '.join(NAMES)}, got '{name}'")
    return name


def train(
    source: SourceArgument,
    folder: Annotated[Path, typer.Option("--output", help="Folder to save the model in.", file_okay=False)],
    model: Annotated[str, typer.Option(help=f"One of {', '.join(NAMES)}.")] = Ensemble.name,
    column: ColumnOption = None,
    horizon: Annotated[
        list[int] | None,
        typer.Option(help="Steps ahead to forecast; repeatable. Default: 1, 2, 3, 6 and 12.", min=1, max=MAX_HORIZON),
    ] = None,
    season: SeasonOption = None,
    seed: SeedOption = 0,
    *,
    resume: Annotated[bool, typer.Option("--resume", help="Continue with the model in the folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train and save a model of a load.

    It is scored out of sample and saved with its scaling, features and scores.

    With --resume the saved model learns the new values, and is fitted again starting from its present weights.
    """
    check_model(model)
    check_model_folder(folder)
    saved = load_model(folder) if resume else None
    series = load_source(source, column)
    if saved is not None:
        learnt, card = saved
        with progress_bar("training") as progress:
            card = continue_training(learnt, card, series, progress=progress)
    else:
        with progress_bar(f"training {model}") as progress:
            learnt, card = train_model(series, model, horizon or HORIZONS, season or (), seed, progress)
    save_model(folder, learnt, card)
    if as_json:
        print_json(asdict(card) | {"drifts": learnt.drifts, "folder": str(folder)}, indent=2)
    else:
        _show_card(card, learnt.drifts, folder, Console())


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _show_card(card: ModelCard, drifts: int, folder: Path, console: Console) -> None:
    title = f"{card.model} on {card.series}: the last {VALIDATION:.0%}, forecast before they were learnt"
    table = plain_table(title, "steps ahead", "RMSE", "of last value's", "MAPE", "sMAPE", "in 80 % interval")
    for steps, scores in card.scores.items():
        table.add_row(
            Text(steps), format_number(_known(scores["rmse"])), _ratio(scores["relative_rmse"]),
            _share(scores["mape"]), _share(scores["smape"]), _share(scores["coverage_80"], 0),
        )  # fmt: skip
    console.print(table)
    times = "once, followed by a new fit" if drifts == 1 else f"{drifts:,} times, each followed by a new fit"
    drift = f"drift was detected {times}" if drifts else "no drift was detected"
    _say(console, f"{card.values:,} values learnt; {drift}.")
    console.print(f"Saved in {folder}", markup=False, highlight=False, soft_wrap=True)  # whole, to be copied


def forecast(
    source: SourceArgument,
    horizon: Annotated[int, typer.Option(help="Steps to forecast.", min=1, max=MAX_HORIZON)] = 12,
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
    saved = load_model(Path(model)) if _is_folder(model) else None
    if saved is None:
        check_model(model)
    series = load_source(source, column)
    learnt = _continue(series, *saved) if saved is not None else _learn(series, model, horizon, season or [], seed)
    with damage_of_saved("forecast") if saved is not None else nullcontext():
        ahead = learnt.forecast(horizon)
    if plot is not None:
        known = np.array([value for value in series.values if value is not None])
        draw_forecast(known, ahead, plot)
    if as_json:
        print_json(forecast_data(series, learnt, ahead), indent=2)
    else:
        _show_forecast(series, learnt, ahead, Console())


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):  # no valid name of a file
        return False


def _learn(series: Series, name: str, horizon: int, season: list[int], seed: int) -> LoadModel | Ensemble:
    horizons = [each for each in HORIZONS if each < horizon] + [horizon]
    model = make(name, horizons, seasons_of(series, season), seed)
    with progress_bar(f"learning {series.name}") as progress:
        learn_quickly(model, series.values[-LEARNT:], progress)
    return model


def _continue(series: Series, model: LoadModel | Ensemble, card: ModelCard) -> LoadModel | Ensemble:
    with progress_bar("learning new values") as progress:
        continue_training(model, card, series, retrain=False, progress=progress)
    return model


def forecast_data(series: Series, model: LoadModel | Ensemble, ahead: SeriesForecast) -> dict[str, Any]:
    """The forecast as plain values, a row a step."""
    bounds, median = {level: ahead.interval(level / 100) for level in (80, 95)}, ahead.median
    steps = [
        {
            "step": step + 1,
            **({} if (at := _time(series, step)) is None else {"at": at}),
            "mean": float(ahead.mean[step]),
            "median": float(median[step]),
            **{f"low_{level}": float(low[step]) for level, (low, _) in bounds.items()},
            **{f"high_{level}": float(high[step]) for level, (_, high) in bounds.items()},
        }
        for step in range(ahead.horizon)
    ]
    why = model.explain(1).sentence if isinstance(model, Ensemble) else None
    return {"series": series.name, "model": model.name, "values": len(series.values), "why": why, "steps": steps}


def _time(series: Series, step: int) -> float | None:
    """When a step ahead begins, in seconds since 1970; None if the series has no times."""
    if series.last_at is None or series.step_seconds is None:
        return None
    return series.last_at + (step + 1) * series.step_seconds


def _show_forecast(series: Series, model: LoadModel | Ensemble, ahead: SeriesForecast, console: Console) -> None:
    title = f"{series.name} after {len(series.values):,} values, by {model.name}"
    first = "step" if _time(series, 0) is None else "time"
    table = plain_table(title, first, "mean", "median", "80 % interval", "95 % interval")
    intervals, median = (ahead.interval(0.8), ahead.interval(0.95)), ahead.median
    for step in range(ahead.horizon):
        cells = (f"{format_number(low[step])} - {format_number(high[step])}" for low, high in intervals)
        at = _time(series, step)
        when = f"{step + 1:,}" if at is None else local_date(at, "%Y-%m-%d %H:%M:%S")
        table.add_row(when, format_number(ahead.mean[step]), format_number(median[step]), *cells)
    console.print(table)
    if isinstance(model, Ensemble):
        for sentence in dict.fromkeys(model.explain(steps).sentence for steps in (1, ahead.horizon)):
            _say(console, sentence)


def evaluate(
    source: SourceArgument,
    model: Annotated[list[str] | None, typer.Option(help="A model to include; repeatable. Default: all.")] = None,
    horizon: Annotated[
        list[int] | None, typer.Option(help="Steps ahead; repeatable. Default: 1 and 3.", min=1, max=MAX_HORIZON)
    ] = None,
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

    RMSE is of the mean, also relative to the last value's; MAPE and sMAPE are of the median. The next columns are
    the share of values inside the 80 % and 95 % intervals, the time to learn the series before the scored part, and the
    time per scored value, fits included. The ensemble consists of the models that are included.
    """
    check_plot(plot)
    names = [name for name in (check_model(each) for each in model or []) if name != Ensemble.name]
    series = load_source(source, column)
    horizons = horizon or [1, 3]
    ensemble = make_ensemble(horizons, seasons_of(series, season or ()), seed, names or None)
    with progress_bar(f"evaluating on {series.name}") as progress:
        results = roll_ensemble(ensemble, series.values[-LEARNT:], share, progress)
    wanted = set(horizons)
    if plot is not None:
        place = next(index for index, each in enumerate(results[0].horizons) if each.steps in wanted)
        draw_backtest(results[0], place, plot, latest)
    if as_json:
        print_json(scores_data(series.name, results, wanted), indent=2)
    else:
        _show_scores(series.name, results, wanted, share, ensemble, Console())


def scores_data(series: str, results: tuple[Backtest, ...], wanted: set[int]) -> dict[str, Any]:
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


def _show_scores(
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
                rolled.name, format_number(scores.rmse), _ratio(scores.relative_rmse), _share(scores.mape),
                _share(scores.smape), _share(scores.coverage_80, 0),
                _share(scores.coverage_95, 0), f"{rolled.learn_seconds:.1f} s", f"{1000 * rolled.step_seconds:.2f} ms",
            )  # fmt: skip
        console.print(table)
        _say(console, ensemble.explain(horizon.steps).sentence)
    cadence = ", ".join(f"{member.name} {member.refit_every:,}" for member in ensemble.members if member.refit_every)
    if cadence:
        _say(console, f"Values between two fits (drift causes another): {cadence}.")
