"""`foretide target show|set`: the latency and the processors that a running pipeline is held to."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import typer

from foretide.cli.options import AppOption, ControlFolderOption, JsonOption, parse_duration_option
from foretide.codec import to_json
from foretide.control.world.setup import Quantile, Target
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.orders import TargetOrder
from foretide.status.pipelines import find_folder

app = typer.Typer(help="Show and set the latency target of a running pipeline.", no_args_is_help=True)


@app.command()
def show(app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False) -> None:
    """Show the target in force."""
    target = _target(find_folder(app, control_folder))
    typer.echo(to_json(target) if as_json else describe_target(target))


@app.command("set")
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

    What is not given stays as it is.
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
