"""`foretide route|admission|target show|set`: what a running pipeline is told, from any terminal.

Orders for what does not exist are refused here, before anything is written.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, get_args

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
    print_json,
)
from foretide.control.world.setup import Quantile, Target
from foretide.control_folder.facts import PipelineFacts, check_admission, check_restart
from foretide.control_folder.folder import ControlFolder, ControlStatus
from foretide.control_folder.orders import MAX_BUDGET, MAX_ROWS, RestartOrder, TargetOrder, new_order_id
from foretide.errors import ActionError, ControlError, ControlFolderError
from foretide.routing.table import parse_ratio
from foretide.status.pipelines import RoutesState, find_folder, read_routes

_SHOWN = 30

route = typer.Typer(help="Show and set the routes of a running pipeline.", no_args_is_help=True)


@route.command("show")
def show_routes(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the published routes, the version in force, and the rows of each task in the last batch."""
    routes = read_routes(find_folder(app, control_folder))
    if as_json:
        print_json(routes)
        return
    console = Console(highlight=False)
    console.print(f"published: version {routes.version}; in force: {_in_force(routes)}")
    console.print(_routes_table(routes))


@route.command("set")
def set_route(
    edge: Annotated[str, typer.Argument(metavar="EDGE", help="The edge: the bolt it leads into.")],
    ratio: Annotated[
        str, typer.Argument(metavar="RATIO", help="One weight per task, such as 4:3:1; 0 bypasses a task.")
    ],
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
        print_json({"edge": edge, "version": table.version, "shares": shares})
    else:
        parts = " : ".join(f"{share:.1%}" for share in shares)
        echo(f"{edge} is split {parts} from the next batch on (version {table.version})")


def _in_force(routes: RoutesState) -> str:
    batch = routes.in_force
    if batch is None:
        return "unknown (no batch has finished)"
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
    limits = find_folder(app, control_folder).orders.admission()
    if as_json:
        print_json(limits)
    else:
        echo("\n".join(f"{spout}: {rows} rows per batch" for spout, rows in limits.items()) or "no limit is set")


@admission.command("set")
def set_limit(
    spout: Annotated[str, typer.Argument(metavar="SPOUT", help="The spout.")],
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="Rows per batch, or 'none' for no limit.")],
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    *,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the query with the limit, for spouts that need it (Kafka).")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Set the limit of a spout, from the next batch on.

    Spark fixes the limit of a Kafka spout when the query starts: with --restart the control loop restarts it.
    """
    limit = None if rows == "none" else parse_whole(rows, "ROWS", MAX_ROWS)
    folder = find_folder(app, control_folder)
    if restart and spout in read_facts(folder).restart_limits:
        order = RestartOrder(new_order_id(), f"limit of spout '{spout}'", admission={spout: limit})
        request_restart(folder, order, "restart with the limit", as_json=as_json)
        return
    if limit is not None or spout not in folder.orders.admission():
        check_admission(spout, read_facts(folder))
    folder.orders.limit_admission(spout, limit)
    text = f"{spout}: {'no limit' if limit is None else f'{limit} rows per batch'} from the next batch on"
    answer({"spout": spout, "rows": limit}, text, as_json=as_json)


target = typer.Typer(help="Show and set the latency target of a running pipeline.", no_args_is_help=True)


@target.command("show")
def show_target(
    app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the target in force."""
    target = _target(find_folder(app, control_folder))
    if as_json:
        print_json(target)
    else:
        echo(describe_target(target))


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
        "none" if budget == "none" else None if budget is None else parse_whole(budget, "--budget", MAX_BUDGET),
    )
    if order == TargetOrder():
        raise typer.BadParameter("nothing to change; give --latency, --relaxed, --quantile or --budget")
    folder = find_folder(app, control_folder)
    read_loop(folder, "no target would be held")
    target = order.apply(_target(folder))
    folder.orders.set_target(order)
    if as_json:
        print_json(target)
    else:
        echo(f"{describe_target(target)}, from the next control cycle on")


def _target(folder: ControlFolder) -> Target:
    control = folder.status.control()
    return folder.orders.target().apply(Target() if control is None else control.target)


def _parse_quantile(text: str | None) -> Any:
    if text is not None and text not in get_args(Quantile):
        raise typer.BadParameter(f"--quantile must be one of {', '.join(get_args(Quantile))}, got '{text}'")
    return text


def parse_whole(text: str, name: str, most: int) -> int:
    """A whole number from 1 to `most`, from the text of an option or argument."""
    digits = text.lstrip("0")
    if not text.isascii() or not text.isdecimal() or len(digits) > len(str(most)) or not 1 <= int(digits or 0) <= most:
        raise typer.BadParameter(f"{name} must be a whole number between 1 and {most}, got '{text[:_SHOWN]}'")
    return int(digits)


def read_facts(folder: ControlFolder) -> PipelineFacts:
    """What the pipeline is made of."""
    facts = folder.status.facts()
    if facts is None:
        raise ControlFolderError(f"no pipeline has started with the control folder '{folder.location}' yet")
    return facts


def request_restart(folder: ControlFolder, order: RestartOrder, what: str, *, as_json: bool) -> None:
    """Have the control loop restart the query; an error if nobody would, or the order does not fit the pipeline."""
    if read_loop(folder, "nobody would restart it").mode == "advise":
        raise ActionError("the control loop, which would restart the pipeline, only advises (mode 'advise')")
    facts = read_facts(folder)
    check_restart(order, facts)
    _check_change(order, facts)
    replaced = folder.orders.request_restart(order)
    instead = "" if replaced is None else f"; it replaces the pending restart ({replaced.reason})"
    values = {**asdict(order), "replaces": None if replaced is None else replaced.id}
    answer(values, f"{what} requested{instead}; see `foretide status`", as_json=as_json)


def _check_change(order: RestartOrder, facts: PipelineFacts) -> None:
    """Refuse a restart that is to change pools, and would change none."""
    same = [f"'{edge}' has {tasks} tasks" for edge, tasks in order.pools.items() if facts.pools[edge] == tasks]
    if same and len(same) == len(order.pools) and order.state_partitions is None:
        raise ActionError(
            f"the restart would change nothing: {', '.join(same)} already; without --pool it is restarted as it is"
        )


def read_loop(folder: ControlFolder, consequence: str) -> ControlStatus:
    """The control loop, which obeys orders."""
    control = folder.status.control()
    if control is None or control.ended:
        state = "is attached to" if control is None else "runs any more for"
        raise ControlError(f"no control loop {state} the pipeline with '{folder.location}': {consequence}")
    return control


def describe_target(target: Target) -> str:
    """The target in a few words.

    >>> describe_target(Target(2.0, budget=4))
    'p99 latency below 2 s, at most 4 processors'
    """
    latency = f"{target.quantile} latency below {target.latency:g} s" if target.latency else "no latency target"
    relaxed = f", released below {target.relaxed:g} s" if target.relaxed else ""
    return f"{latency}{relaxed}, {f'at most {target.budget} processors' if target.budget else 'no budget'}"
