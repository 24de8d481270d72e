"""`foretide train SOURCE`: train a forecaster, score it on what was held back, and save it."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from foretide.cli.forecast.histories import load_history
from foretide.cli.forecast.tables import SOURCE_HELP, check_model, number, progress_bar, table_of
from foretide.forecasting.load.base import HORIZONS
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import NAMES
from foretide.forecasting.saved import ModelCard, load_model, save_model
from foretide.forecasting.training import VALIDATION, go_on
from foretide.forecasting.training import train as train_model


def train(
    source: Annotated[str, typer.Argument(help=SOURCE_HELP)],
    folder: Annotated[Path, typer.Option("--to", help="The folder to save the model in.", file_okay=False)],
    model: Annotated[str, typer.Option(help=f"One of {', '.join(NAMES)}.")] = Ensemble.name,
    column: Annotated[str | None, typer.Option(help="Of a file; by default its last column of numbers.")] = None,
    horizon: Annotated[
        list[int] | None,
        typer.Option(help="Steps ahead that matter; repeat for several. 1, 2, 3, 6 and 12 by default.", min=1),
    ] = None,
    season: Annotated[list[int] | None, typer.Option(help="A season in steps; by default day and week.", min=2)] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.", min=0)] = 0,
    resume: Annotated[
        bool, typer.Option("--continue", help="Go on with the model in the folder: learn what is new.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was saved as JSON.")] = False,
) -> None:
    """Train and save a model of a load.

    It is scored out of sample and saved with its scaling, features and scores.

    With --continue the saved model learns what the series has gained since and is fitted again from where it was.
    """
    series = load_history(source, column)
    if resume:
        learnt, card = load_model(folder)
        with progress_bar("going on") as progress:
            card = go_on(learnt, card, series, progress=progress)
    else:
        with progress_bar(f"training {model}") as progress:
            learnt, card = train_model(series, check_model(model), horizon or HORIZONS, season or (), seed, progress)
    save_model(folder, learnt, card)
    if json:
        typer.echo(jsonlib.dumps(asdict(card) | {"drifts": learnt.drifts, "folder": str(folder)}, indent=2))
    else:
        _show(card, learnt.drifts, folder, Console())


def _show(card: ModelCard, drifts: int, folder: Path, console: Console) -> None:
    title = f"{card.model} on {card.series}: the last {VALIDATION:.0%}, foreseen before it was learnt"
    table = table_of(title, "steps ahead", "RMSE", "of last value's", "MAPE", "sMAPE", "in 80 % interval")
    for steps, scores in card.scores.items():
        table.add_row(
            steps, number(scores["rmse"]), f"{scores['relative_rmse']:.3f}", f"{scores['mape']:.1%}",
            f"{scores['smape']:.1%}", f"{scores['coverage_80']:.0%}",
        )  # fmt: skip
    console.print(table)
    noticed = "no drift was noticed" if not drifts else f"drift was noticed {drifts} times and answered by a new fit"
    console.print(f"{card.values:,} values learnt; {noticed}. Saved in {folder}", highlight=False, soft_wrap=True)
