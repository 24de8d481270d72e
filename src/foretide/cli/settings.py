"""`foretide settings`: the settings in force, and where each came from; and the options of commands that take them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from foretide.cli.console import Console, JsonOption, Text, print_json
from foretide.control.policies.registry import POLICIES
from foretide.settings.load import EffectiveSetting, effective_settings, load_settings
from foretide.settings.settings import Settings

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The settings file; by default FORETIDE_CONFIG, or foretide.toml in this folder."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as guards.cooldown=30; repeatable."),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help=f"One of {', '.join(POLICIES)}; repeatable, the first one has priority.",
    ),
]


HistoryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--history",
        metavar="SOURCE",
        help="Earlier load: a CSV, Parquet or Prometheus JSON file, or a store; repeatable.",
    ),
]
EventOption = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="EVENT", help="An announced event, such as '2026-11-27 18:00 1h x3'; repeatable."),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="FOLDER", help="A model of `foretide train` that forecasts the load.")
]


def settings(
    config: ConfigOption = None,
    sets: SetOption = None,
    policies: PolicyOption = None,
    *,
    show_all: Annotated[
        bool, typer.Option("--all", help="Also show advanced settings that have their default.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the settings in force, and where each comes from.

    A flag, the environment, a file, or the default.
    """
    found = effective_settings(chosen_settings(config, sets, policies))
    if as_json:
        print_json({each.setting.path: {"value": each.value, "source": each.source} for each in found})
    else:
        shown = [each for each in found if show_all or each.setting.scope is None or each.source != "default"]
        Console(soft_wrap=True).print(_table(shown))


def _table(found: list[EffectiveSetting]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    for each in found:
        style = "dim" if each.source == "default" else None
        table.add_row(each.setting.path, Text(each.setting.shown(each.value)), Text(each.source), style=style)
    return table


def handed_in(
    history: Sequence[str] | None = None, model: str | None = None, events: Sequence[str] | None = None
) -> list[str]:
    """The options that hand something to the forecasts, as settings.

    >>> handed_in(["load.csv"], "models/load")
    ['forecasts.history=["load.csv"]', 'forecasts.model=models/load']
    """
    lists = [
        f"forecasts.{name}={json.dumps(given)}" for name, given in (("history", history), ("events", events)) if given
    ]
    return lists if model is None else [*lists, f"forecasts.model={model}"]


def chosen_settings(
    config: Path | None = None, sets: Sequence[str] | None = None, policies: Sequence[str] | None = None
) -> Settings:
    """The settings in force; `--policy a --policy b` is `--set control.policies=a,b`.

    >>> chosen_settings(policies=["hot_keys", "prediction_error"]).control.policies
    ('hot_keys', 'prediction_error')
    """
    ranked = [f"control.policies={','.join(policies)}"] if policies else []
    return load_settings(config, [*(sets or ()), *ranked])
