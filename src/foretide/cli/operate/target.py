"""`foretide target show|set`: what a running pipeline is held to."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from foretide.cli.operate.pipelines import AppArgument
from foretide.cli.pipelines import ControlOption, JsonOption, find_folder
from foretide.control.world.setup import Target
from foretide.control_folder.folder import ControlFolder
from foretide.durations import parse_duration
from foretide.errors import ControlSettingError

app = typer.Typer(help="Show and set the latency target of a running pipeline.", no_args_is_help=True)
_QUANTILES = ("mean", "p50", "p95", "p99")


@app.command()
def show(name: AppArgument = None, control: ControlOption = None, *, as_json: JsonOption = False) -> None:
    """Show what is held at present."""
    target = _held(find_folder(name, control))
    typer.echo(json.dumps(target) if as_json else _words(target))


@app.command("set")
def set_target(
    name: AppArgument = None,
    latency: Annotated[str | None, typer.Option(help="T_max, such as `2s`; `none` holds no latency.")] = None,
    relaxed: Annotated[str | None, typer.Option(help="T_min: below it, processors may be given back.")] = None,
    quantile: Annotated[str | None, typer.Option(help="Of which tuples: mean, p50, p95 or p99.")] = None,
    budget: Annotated[str | None, typer.Option(help="K_max, most processors to use; `none` for no limit.")] = None,
    control: ControlOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Change the target of a running pipeline, from the next control cycle on; what is not named stays."""
    folder = find_folder(name, control)
    changes: dict[str, Any] = {}
    if latency is not None:
        changes["latency"] = None if latency == "none" else parse_duration(latency)
    if relaxed is not None:
        changes["relaxed"] = parse_duration(relaxed)
    if quantile is not None:
        changes["quantile"] = _quantile(quantile)
    if budget is not None:
        changes["budget"] = None if budget == "none" else _whole(budget)
    if not changes:
        raise ControlSettingError("nothing to change; give --latency, --relaxed, --quantile or --budget")
    after = {**_held(folder), **changes}
    Target(after.get("latency"), after.get("relaxed") or 0.0, after.get("quantile") or "p99", after.get("budget"))
    folder.set_target(changes)
    typer.echo(json.dumps(after) if as_json else f"{_words(after)} from the next control cycle on")


def _held(folder: ControlFolder) -> dict[str, Any]:
    return {**folder.control().get("target", {}), **folder.target()}


def _quantile(text: str) -> str:
    if text not in _QUANTILES:
        raise ControlSettingError(f"there is no quantile '{text}'; give one of {', '.join(_QUANTILES)}")
    return text


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ControlSettingError(f"'{text}' is no budget; give a number of processors from 1, or 'none'")
    return int(text)


def _words(target: dict[str, Any]) -> str:
    latency, relaxed, budget = target.get("latency"), target.get("relaxed"), target.get("budget")
    held = f"{target.get('quantile', 'p99')} latency below {latency:g} s" if latency else "no latency is held"
    below = f", given back below {relaxed:g} s" if relaxed else ""
    return f"{held}{below}, {f'at most {budget} processors' if budget else 'no budget'}"
