"""`foretide train SOURCE`: train a model, score it on values that were held back, and save it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
from foretide.cli.options import JsonOption
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import HORIZONS, NAMES
from foretide.forecasting.saved import VALIDATION, ModelCard, continue_training, load_model, save_model
from foretide.forecasting.saved import train as train_model


def train(
    source: SourceArgument,
    folder: Annotated[Path, typer.Option("--output", help="Folder to save the model in.", file_okay=False)],
    model: Annotated[str, typer.Option(help=f"One of {', '.join(NAMES)}.")] = Ensemble.name,
    column: ColumnOption = None,
    horizon: Annotated[
        list[int] | None,
        typer.Option(help="Steps ahead to forecast; repeatable. Default: 1, 2, 3, 6 and 12.", min=1),
    ] = None,
    season: SeasonOption = None,
    seed: SeedOption = 0,
    *,
    resume: Annotated[bool, typer.Option("--resume", help="Continue with the model in the folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train and save a model of a load.

    It is scored out of sample and saved with its scaling, features and scores.

    With --resume the saved model learns the values that are new, and is fitted again from where it was.
    """
    series = load_source(source, column)
    if resume:
        learnt, card = load_model(folder)
        with progress_bar("training") as progress:
            card = continue_training(learnt, card, series, progress=progress)
    else:
        with progress_bar(f"training {model}") as progress:
            learnt, card = train_model(series, check_model(model), horizon or HORIZONS, season or (), seed, progress)
    save_model(folder, learnt, card)
    if as_json:
        typer.echo(json.dumps(asdict(card) | {"drifts": learnt.drifts, "folder": str(folder)}, indent=2))
    else:
        _show(card, learnt.drifts, folder, Console())


def _show(card: ModelCard, drifts: int, folder: Path, console: Console) -> None:
    title = f"{card.model} on {card.series}: the last {VALIDATION:.0%}, forecast before they were learnt"
    table = plain_table(title, "steps ahead", "RMSE", "of last value's", "MAPE", "sMAPE", "in 80 % interval")
    for steps, scores in card.scores.items():
        table.add_row(
            steps, format_number(scores["rmse"]), f"{scores['relative_rmse']:.3f}", f"{scores['mape']:.1%}",
            f"{scores['smape']:.1%}", f"{scores['coverage_80']:.0%}",
        )  # fmt: skip
    console.print(table)
    drift = "no drift was detected" if not drifts else f"drift was detected {drifts} times, each followed by a new fit"
    console.print(f"{card.values:,} values learnt; {drift}. Saved in {folder}", highlight=False, soft_wrap=True)
