"""`foretide admission show|set`: how many rows a replay spout may hand out a batch, while it runs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from foretide.cli.pipelines import AppOption, ControlOption, JsonOption, find_folder

app = typer.Typer(help="Show and set the admission limits of a running pipeline.", no_args_is_help=True)


@app.command()
def show(app: AppOption = None, control: ControlOption = None, *, as_json: JsonOption = False) -> None:
    """Show the limits that were set while the pipeline runs."""
    limits = find_folder(app, control).admission()
    if as_json:
        typer.echo(json.dumps(limits))
    else:
        typer.echo("\n".join(f"{spout}: {rows} rows a batch" for spout, rows in limits.items()) or "no limit was set")


@app.command("set")
def set_limit(
    spout: Annotated[str, typer.Argument(help="The spout.")],
    rows: Annotated[str, typer.Argument(help="Rows a batch, or `none` to lift the limit.")],
    app: AppOption = None,
    control: ControlOption = None,
) -> None:
    """Set the limit of a spout, from the next batch on."""
    if rows != "none" and not rows.isdecimal():
        raise typer.BadParameter(f"'{rows}' is neither a number of rows nor 'none'")
    find_folder(app, control).limit_admission(spout, None if rows == "none" else int(rows))
    typer.echo(f"{spout}: {'no limit' if rows == 'none' else f'{rows} rows a batch'} from the next batch on")
