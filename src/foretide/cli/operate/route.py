"""`foretide route show|set`: routes of a running pipeline, from any terminal."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from foretide.cli.options import AppOption, ControlFolderOption, JsonOption
from foretide.codec import to_json
from foretide.routing.table import parse_ratio
from foretide.status.pipelines import RoutesState, find_folder, read_routes

app = typer.Typer(help="Show and set the routes of a running pipeline.", no_args_is_help=True)


@app.command()
def show(app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False) -> None:
    """Show the published routes, the version in force, and the rows of each task in the last batch."""
    routes = read_routes(find_folder(app, control_folder))
    if as_json:
        typer.echo(to_json(routes))
        return
    console = Console(highlight=False)
    console.print(f"published: version {routes.version}; in force: {_in_force(routes)}")
    console.print(_table(routes))


@app.command("set")
def set_route(
    edge: Annotated[str, typer.Argument(help="The edge: the bolt it leads into.")],
    ratio: Annotated[str, typer.Argument(help="One weight per task, such as 4:3:1; 0 bypasses a task.")],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Split an edge in a new ratio, from the next batch on, without a restart."""
    folder = find_folder(app, control_folder)
    table = folder.change_routes(lambda table: table.split(edge, parse_ratio(edge, ratio)))
    shares = [round(share, 4) for share in table.edges[edge].shares]
    if as_json:
        typer.echo(json.dumps({"edge": edge, "version": table.version, "shares": shares}))
    else:
        parts = " : ".join(f"{share:.1%}" for share in shares)
        typer.echo(f"{edge} is split {parts} from the next batch on (version {table.version})")


def _in_force(routes: RoutesState) -> str:
    batch = routes.in_force
    if batch is None:
        return "unknown (no batch has finished)"
    return "the default split" if batch.route_version is None else f"version {batch.route_version}, batch {batch.batch}"


def _table(routes: RoutesState) -> Table:
    table = Table("edge", "task", "share", "rows in the last batch", box=None, pad_edge=False)
    for name, edge in routes.edges.items():
        for task, share in enumerate(edge.shares):
            rows = "-" if edge.rows is None else f"{edge.rows[task]:,}"
            table.add_row(name if task == 0 else "", str(task), f"{share:.1%}", rows)
    return table
