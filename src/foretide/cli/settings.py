"""`foretide settings`: the settings in force, and where each came from."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foretide.cli.options import JsonOption
from foretide.cli.settings_options import ConfigOption, PolicyOption, SetOption, chosen_settings
from foretide.settings.load import EffectiveSetting, effective_settings
from foretide.settings.reference import display


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
        typer.echo(json.dumps({each.setting.path: {"value": each.value, "source": each.source} for each in found}))
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
        table.add_row(each.setting.path, Text(display(each.value)), Text(each.source), style=style)
    return table
