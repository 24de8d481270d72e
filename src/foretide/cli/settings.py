"""`foretide settings`: every setting in force, and where it came from."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foretide.cli.options import JsonOption
from foretide.cli.settings_options import ConfigOption, PolicyOption, SetOption, chosen_settings
from foretide.settings.kinds import said
from foretide.settings.load import LoadedSettings, in_force


def settings(
    config: ConfigOption = None, sets: SetOption = None, policies: PolicyOption = None, *, as_json: JsonOption = False
) -> None:
    """Show every setting in force, and where it comes from.

    A flag, the environment, a file, or the default.
    """
    found = in_force(chosen_settings(config, sets, policies))
    if as_json:
        typer.echo(json.dumps({each.key: {"value": each.value, "source": each.source} for each in found}))
    else:
        Console(soft_wrap=True).print(_table(found))


def _table(found: list[LoadedSettings]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    for each in found:
        given = each.source != "default"
        table.add_row(each.key, Text(said(each.value)), Text(each.source), style=None if given else "dim")
    return table
