"""`foretide route show|set`: routes of a running pipeline, from another terminal."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from foretide.cli.pipelines import AppOption, ControlOption, JsonOption, find_folder
from foretide.routing.table import RouteTable, parse_ratio

app = typer.Typer(help="Show and set the routes of a running pipeline.", no_args_is_help=True)


@app.command()
def show(app: AppOption = None, control: ControlOption = None, *, as_json: JsonOption = False) -> None:
    """Show the published routes, what is in force, and the rows each task got in the last batch."""
    folder = find_folder(app, control)
    table, status = folder.routes(), folder.status()
    if as_json:
        typer.echo(json.dumps(_as_data(table, status)))
        return
    in_force = status.get("route_version")
    Console().print(f"published: version {table.version}; in force: {_in_force(in_force, status)}", highlight=False)
    Console().print(_as_table(table, status))


@app.command("set")
def set_route(
    edge: Annotated[str, typer.Argument(help="The edge: the bolt it leads into.")],
    ratio: Annotated[str, typer.Argument(help="One weight for each task, such as 4:3:1; 0 bypasses a task.")],
    app: AppOption = None,
    control: ControlOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Split an edge in a new ratio, from the next batch on, without a restart."""
    folder = find_folder(app, control)
    table = folder.change_routes(lambda table: table.split(edge, parse_ratio(edge, ratio)))
    shares = [round(share, 4) for share in table.edges[edge].shares]
    if as_json:
        typer.echo(json.dumps({"edge": edge, "version": table.version, "shares": shares}))
    else:
        parts = " : ".join(f"{share:.1%}" for share in shares)
        typer.echo(f"{edge} is split {parts} from the next batch on (version {table.version})")


def _in_force(version: Any, status: dict[str, Any]) -> str:
    if not status:
        return "not yet known (no batch has finished)"
    return f"version {version} in batch {status['batch']}" if version is not None else "the default split"


def _as_data(table: RouteTable, status: dict[str, Any]) -> dict[str, Any]:
    edges = {name: {"pool": route.pool, "shares": route.shares} for name, route in table.edges.items()}
    return {"version": table.version, "edges": edges, "in_force": status}


def _as_table(table: RouteTable, status: dict[str, Any]) -> Table:
    shown = Table("edge", "task", "share", "rows in the last batch", box=None, pad_edge=False)
    for name, route in table.edges.items():
        rows = status.get("edges", {}).get(name, {}).get("per_task") or ["-"] * route.pool
        for task, share in enumerate(route.shares):
            shown.add_row(name if task == 0 else "", str(task), f"{share:.1%}", f"{rows[task]}")
    return shown
