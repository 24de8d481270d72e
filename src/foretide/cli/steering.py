"""`foretide route|admission|target show|set`: what a running pipeline is told, from any terminal."""

from __future__ import annotations

import json
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.table import Table

from foretide.cli.console import AppOption, ControlFolderOption, JsonOption, parse_duration_option
from foretide.codec import to_json
from foretide.control.world.setup import Quantile, Target
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.orders import TargetOrder
from foretide.routing.table import parse_ratio
from foretide.status.pipelines import RoutesState, find_folder, read_routes

route = typer.Typer(help="Show and set the routes of a running pipeline.", no_args_is_help=True)


@route.command("show")
def show_routes(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the published routes, the version in force, and the rows of each task in the last batch."""
    routes = read_routes(find_folder(app, control_folder))
    if as_json:
        typer.echo(to_json(routes))
        return
    console = Console(highlight=False)
    console.print(f"published: version {routes.version}; in force: {_in_force(routes)}")
    console.print(_routes_table(routes))


@route.command("set")
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


def _routes_table(routes: RoutesState) -> Table:
    table = Table("edge", "task", "share", "rows in the last batch", box=None, pad_edge=False)
    for name, edge in routes.edges.items():
        for task, share in enumerate(edge.shares):
            rows = "-" if edge.rows is None else f"{edge.rows[task]:,}"
            table.add_row(name if task == 0 else "", str(task), f"{share:.1%}", rows)
    return table


admission = typer.Typer(help="Show and set the admission limits of a running pipeline.", no_args_is_help=True)


@admission.command("show")
def show_limits(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the limits that were set while the pipeline runs."""
    limits = find_folder(app, control_folder).orders.admission()
    if as_json:
        typer.echo(json.dumps(limits))
    else:
        typer.echo("\n".join(f"{spout}: {rows} rows per batch" for spout, rows in limits.items()) or "no limit is set")


@admission.command("set")
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


target = typer.Typer(help="Show and set the latency target of a running pipeline.", no_args_is_help=True)


@target.command("show")
def show_target(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the target in force."""
    target = _target(find_folder(app, control_folder))
    typer.echo(to_json(target) if as_json else describe_target(target))


@target.command("set")
def set_target(
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    latency: Annotated[
        str | None, typer.Option(metavar="DURATION", help="T_max, such as 2s; 'none' for no latency target.")
    ] = None,
    relaxed: Annotated[
        str | None, typer.Option(metavar="DURATION", help="T_min: below it, processors are released.")
    ] = None,
    quantile: Annotated[str | None, typer.Option(help=f"Latency of which tuples: {', '.join(get_args(Quantile))}.")] = (
        None
    ),
    budget: Annotated[
        str | None, typer.Option(metavar="N", help="K_max, the maximum of processors; 'none' for no limit.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Change the target of a running pipeline, from the next control cycle on.

    Options that are not given leave their part of the target unchanged.
    """
    order = TargetOrder(
        "none" if latency == "none" else None if latency is None else parse_duration_option(latency),
        None if relaxed is None else parse_duration_option(relaxed),
        _parse_quantile(quantile),
        "none" if budget == "none" else _parse_budget(budget),
    )
    if order == TargetOrder():
        raise typer.BadParameter("nothing to change; give --latency, --relaxed, --quantile or --budget")
    folder = find_folder(app, control_folder)
    target = order.apply(_target(folder))
    folder.orders.set_target(order)
    typer.echo(to_json(target) if as_json else f"{describe_target(target)}, from the next control cycle on")


def _target(folder: ControlFolder) -> Target:
    control = folder.status.control()
    return folder.orders.target().apply(Target() if control is None else control.target)


def _parse_quantile(text: str | None) -> Any:
    if text is not None and text not in get_args(Quantile):
        raise typer.BadParameter(f"--quantile must be one of {', '.join(get_args(Quantile))}, got '{text}'")
    return text


def _parse_budget(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"--budget must be a number of processors or 'none', got '{text}'")
    return int(text)


def describe_target(target: Target) -> str:
    """The target in a few words.

    >>> describe_target(Target(2.0, budget=4))
    'p99 latency below 2 s, at most 4 processors'
    """
    latency = f"{target.quantile} latency below {target.latency:g} s" if target.latency else "no latency target"
    relaxed = f", released below {target.relaxed:g} s" if target.relaxed else ""
    return f"{latency}{relaxed}, {f'at most {target.budget} processors' if target.budget else 'no budget'}"
