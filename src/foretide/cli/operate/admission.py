"""`foretide admission show|set`: the rows that a replay spout may emit per batch."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from foretide.cli.options import AppOption, ControlFolderOption, JsonOption
from foretide.status.pipelines import find_folder

app = typer.Typer(help="Show and set the admission limits of a running pipeline.", no_args_is_help=True)


@app.command()
def show(app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False) -> None:
    """Show the limits that were set while the pipeline runs."""
    limits = find_folder(app, control_folder).orders.admission()
    if as_json:
        typer.echo(json.dumps(limits))
    else:
        typer.echo("\n".join(f"{spout}: {rows} rows per batch" for spout, rows in limits.items()) or "no limit is set")


@app.command("set")
def set_limit(
    spout: Annotated[str, typer.Argument(help="The spout.")],
    rows: Annotated[str, typer.Argument(help="Rows per batch, or 'none' for no limit.")],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
) -> None:
    """Set the limit of a spout, from the next batch on."""
    if rows != "none" and not rows.isdecimal():
        raise typer.BadParameter(f"ROWS must be a number of rows or 'none', got '{rows}'")
    find_folder(app, control_folder).orders.limit_admission(spout, None if rows == "none" else int(rows))
    typer.echo(f"{spout}: {'no limit' if rows == 'none' else f'{rows} rows per batch'} from the next batch on")
