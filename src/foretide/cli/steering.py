"""`foretide route|admission|target|mode show|set|release`: what a running pipeline is told, from any terminal.

Orders for what does not exist are refused here, before anything is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, cast, get_args

import typer
from rich.table import Table

from foretide.cli.console import (
    AppOption,
    Console,
    ControlFolderOption,
    JsonOption,
    answer,
    compact_table,
    echo,
    parse_duration_option,
    parse_whole,
    print_json,
)
from foretide.cli.holding import ForOption, describe, length, release
from foretide.control.target_record import describe_target
from foretide.control.world.setup import Quantile
from foretide.control_folder import by_hand
from foretide.control_folder.facts import MAX_POOL
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.orders import (
    HELD_MODE,
    HELD_TARGET,
    MAX_BUDGET,
    MAX_ROWS,
    LoopMode,
    RestartOrder,
    TargetOrder,
    new_order_id,
)
from foretide.routing.table import RouteTable, parse_ratio
from foretide.status.pipelines import RoutesState, find_folder, is_running, read_routes

_SHOWN = 30

route = typer.Typer(help="Show and set the routes of a running pipeline.", no_args_is_help=True)


@route.command("show")
def show_routes(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the published routes, the version in force, and the rows of each task in the last batch."""
    folder = find_folder(app, control_folder)
    routes = read_routes(folder)
    if as_json:
        print_json(routes)
        return
    console = Console(highlight=False)
    console.print(f"published: version {routes.version}; in force: {_in_force(routes, followed=is_running(folder))}")
    console.print(_routes_table(routes))
    _show_held(folder, "edge ")


@route.command("set")
def set_route(
    edge: Annotated[str, typer.Argument(metavar="EDGE", help="The edge: the bolt it leads into.")],
    ratio: Annotated[
        str, typer.Argument(metavar="RATIO", help="One weight per task, such as 4:3:1; 0 bypasses a task.")
    ],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    seconds: ForOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Split an edge in a new ratio, from the next batch on, without a restart.

    The control loop leaves the edge alone until it is released, or for the time given.
    """
    folder, weights = find_folder(app, control_folder), parse_ratio(edge, ratio)
    _route(folder, edge, lambda table: table.split(edge, weights), f"split {ratio}", seconds, as_json=as_json)


@route.command("replicas")
def set_replicas(
    edge: Annotated[str, typer.Argument(metavar="EDGE", help="The edge: the bolt it leads into.")],
    replicas: Annotated[str, typer.Argument(metavar="N", help="Active tasks of its pool.")],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    seconds: ForOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Use the first N tasks behind an edge, from the next batch on, without a restart.

    The control loop leaves the edge alone until it is released, or for the time given.
    """
    count = parse_whole(replicas, "N", MAX_POOL)
    folder = find_folder(app, control_folder)
    _route(folder, edge, lambda table: table.activate(edge, count), f"{count} replicas", seconds, as_json=as_json)


@route.command("release")
def release_route(
    edge: Annotated[str, typer.Argument(metavar="EDGE", help="The edge that was set by hand.")],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Let the control loop change an edge again that was set by hand."""
    release(find_folder(app, control_folder), f"edge {edge}", as_json=as_json)


def _route(
    folder: ControlFolder,
    edge: str,
    change: Callable[[RouteTable], RouteTable],
    words: str,
    seconds: float | None,
    *,
    as_json: bool,
) -> None:
    """Publish a changed route, and hold it. What does not fit is refused before anything is written."""
    table, order = by_hand.change_route(folder, edge, change, words, seconds)
    shares = [round(share, 4) for share in table.edges[edge].shares]
    parts = " : ".join(f"{share:.1%}" for share in shares)
    text = f"{edge} is split {parts} from the next batch on (version {table.version}); {length(order)}"
    values = {"edge": edge, "version": table.version, "shares": shares, "held": order}
    answer(values, text, as_json=as_json)


def _show_held(folder: ControlFolder, start: str) -> None:
    """What people hold, of the subjects that begin so."""
    held = {subject: order for subject, order in folder.orders.held().items() if subject.startswith(start)}
    for line in describe(held, time.time()):
        echo(line)


def _in_force(routes: RoutesState, *, followed: bool) -> str:
    batch = routes.in_force
    if batch is None:
        return (
            "unknown (no batch has finished)" if followed else "unknown (no process reports batches; ft.control would)"
        )
    return "the default split" if batch.route_version is None else f"version {batch.route_version}, batch {batch.batch}"


def _routes_table(routes: RoutesState) -> Table:
    table = compact_table("edge", "task", "share", "rows in the last batch")
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
    folder = find_folder(app, control_folder)
    limits = folder.orders.admission()
    if as_json:
        print_json(limits)
        return
    echo("\n".join(f"{spout}: {rows:,} rows per batch" for spout, rows in limits.items()) or "no limit is set")
    _show_held(folder, "spout ")


@admission.command("set")
def set_limit(
    spout: Annotated[str, typer.Argument(metavar="SPOUT", help="The spout.")],
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="Rows per batch, or 'none' for no limit.")],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    seconds: ForOption = None,
    *,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the query with the limit, for spouts that need it (Kafka).")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Set the limit of a spout, from the next batch on.

    The control loop leaves it alone until it is released, or for the time given.

    Spark fixes the limit of a Kafka spout when the query starts: with --restart the control loop restarts it.
    """
    limit = None if rows == "none" else parse_whole(rows, "ROWS", MAX_ROWS)
    folder = find_folder(app, control_folder)
    if restart and spout in by_hand.read_facts(folder).restart_limits:
        order = RestartOrder(new_order_id(), f"limit of spout '{spout}'", admission={spout: limit})
        request_restart(folder, order, "restart with the limit", as_json=as_json)
        return
    held = by_hand.limit_admission(folder, spout, limit, seconds)
    text = f"{spout}: {held.words} from the next batch on; {length(held)}"
    answer({"spout": spout, "rows": limit, "held": held}, text, as_json=as_json)


@admission.command("release")
def release_limit(
    spout: Annotated[str, typer.Argument(metavar="SPOUT", help="The spout whose limit was set by hand.")],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Let the control loop change the limit of a spout again that was set by hand."""
    release(find_folder(app, control_folder), f"spout {spout}", as_json=as_json)


target = typer.Typer(help="Show and set the latency target of a running pipeline.", no_args_is_help=True)


@target.command("show")
def show_target(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the target in force."""
    folder = find_folder(app, control_folder)
    target = by_hand.target_in_force(folder)
    if as_json:
        print_json(target)
        return
    echo(describe_target(target))
    _show_held(folder, HELD_TARGET)


@target.command("release")
def release_target(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Go back to the target that the control loop began with."""
    folder = find_folder(app, control_folder)
    by_hand.release_target(folder)
    text = "the target is again the one that the control loop began with, from the next control cycle on"
    answer({"released": HELD_TARGET}, text, as_json=as_json)


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
    seconds: ForOption = None,
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
        "none" if budget == "none" else None if budget is None else parse_whole(budget, "--budget", MAX_BUDGET),
    )
    if order == TargetOrder():
        raise typer.BadParameter("nothing to change; give --latency, --relaxed, --quantile or --budget")
    folder = find_folder(app, control_folder)
    target, held = by_hand.change_target(folder, order, seconds)
    if as_json:
        print_json(target)
    else:
        echo(f"{describe_target(target)}, from the next control cycle on; {length(held)}")


mode = typer.Typer(help="Show and set what the control loop of a running pipeline does.", no_args_is_help=True)


@mode.command("show")
def show_mode(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Show whether the control loop acts, only advises, or is paused."""
    folder = find_folder(app, control_folder)
    loop = by_hand.read_loop(folder, "it has no mode")
    words: LoopMode = "pause" if loop.paused else loop.mode
    answer({"mode": words}, words, as_json=as_json)
    if not as_json:
        _show_held(folder, HELD_MODE)


@mode.command("set")
def set_mode(
    wanted: Annotated[str, typer.Argument(metavar="MODE", help=f"One of {', '.join(get_args(LoopMode))}.")],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    seconds: ForOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Let the control loop act, only advise, or pause, from its next cycle on.

    A loop that is paused still carries out orders of people.
    """
    if wanted not in get_args(LoopMode):
        raise typer.BadParameter(f"MODE must be one of {', '.join(get_args(LoopMode))}, got '{wanted[:_SHOWN]}'")
    held = by_hand.change_mode(find_folder(app, control_folder), cast("LoopMode", wanted), seconds)
    text = f"{held.words}, from its next cycle on; {length(held)}"
    answer({"mode": wanted, "held": held}, text, as_json=as_json)


@mode.command("release")
def release_mode(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Go back to the mode that the control loop began with."""
    by_hand.release_mode(find_folder(app, control_folder))
    text = "the control loop is again in the mode that it began with, from its next cycle on"
    answer({"released": HELD_MODE}, text, as_json=as_json)


def _parse_quantile(text: str | None) -> Any:
    if text is not None and text not in get_args(Quantile):
        raise typer.BadParameter(f"--quantile must be one of {', '.join(get_args(Quantile))}, got '{text}'")
    return text


def request_restart(folder: ControlFolder, order: RestartOrder, what: str, *, as_json: bool) -> None:
    """Have the control loop restart the query; an error if nobody would, or the order does not fit the pipeline."""
    replaced = by_hand.request_restart(folder, order)
    instead = "" if replaced is None else f"; it replaces the pending restart ({replaced.reason})"
    values = {**asdict(order), "replaces": None if replaced is None else replaced.id}
    answer(values, f"{what} requested{instead}; see `foretide status`", as_json=as_json)
