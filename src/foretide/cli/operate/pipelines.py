"""`foretide list|status|stop|drain|restart`: running pipelines, from any terminal."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from foretide.cli.pipelines import ControlOption, JsonOption, find_folder
from foretide.control_folder.folder import ControlFolder
from foretide.errors import ControlFolderError
from foretide.status.running import list_running

AppArgument = Annotated[
    str | None, typer.Argument(metavar="[APP]", help="The running pipeline; needed only if there are several.")
]
_WAIT = 120.0
_RECENT = 5


def list_pipelines(*, as_json: JsonOption = False) -> None:
    """List the pipelines that run on this machine."""
    found = [(running, ControlFolder(running.control)) for running in list_running()]
    if as_json:
        typer.echo(
            json.dumps([asdict(running) | {"control_loop": bool(folder.control())} for running, folder in found])
        )
        return
    if not found:
        typer.echo("no pipeline runs on this machine")
        return
    table = Table("pipeline", "process", "last batch", "control", "control folder", box=None, pad_edge=False)
    for running, folder in found:
        batch, control = folder.status().get("batch", "-"), folder.control()
        loop = f"{control['mode']}: {', '.join(control['policies'])}" if control else "none"
        table.add_row(running.name, str(running.pid), str(batch), loop, running.control)
    Console().print(table)


def status(app: AppArgument = None, control: ControlOption = None, *, as_json: JsonOption = False) -> None:
    """Show the state of a pipeline and its control loop.

    The last batch, the target, recent decisions and forecasts, and problems.
    """
    folder = find_folder(app, control)
    batch, loop = folder.status(), folder.control()
    if as_json:
        whole = {"batch": batch, "control": loop, "drained": sorted(folder.drained()), "admission": folder.admission()}
        typer.echo(json.dumps(whole))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in [*_batch_lines(batch), *_loop_lines(loop), *_drained_lines(folder)]:
        console.print(line, markup=False)


def _batch_lines(batch: dict[str, Any]) -> list[str]:
    if not batch:
        return ["no batch has finished yet"]
    age = max(0.0, time.time() - batch["finished"])
    rows, version = batch["input_rows"], batch["route_version"]
    line = f"batch {batch['batch']}: {rows:,} rows, finished {age:.0f} s ago, routes version {version}"
    return [line] + [f"alarm: {message}" for message in batch.get("alarms", [])]


def _loop_lines(loop: dict[str, Any]) -> list[str]:
    if not loop:
        return ["control: none is attached"]
    target = loop["target"]
    held = f"{target['quantile']} latency below {target['latency']:g} s" if target["latency"] else "no latency target"
    budget = f", at most {target['budget']} processors" if target["budget"] else ""
    age = max(0.0, time.time() - loop["at"])
    state = "ended" if loop.get("ended") else f"last cycle {age:.0f} s ago"
    lines = [f"control ({loop['mode']}): {', '.join(loop['policies'])}; {held}{budget}; {state}"]
    lines += [f"  decision {each['id']}: {each['says']}" for each in loop["decisions"][-_RECENT:]]
    lines += [f"  forecast: {sentence}" for sentence in loop["forecasts"][-_RECENT:]]
    return lines + [f"  problem: {problem}" for problem in loop["problems"]]


def _drained_lines(folder: ControlFolder) -> list[str]:
    drained = sorted(folder.drained())
    return [f"drained: {', '.join(drained)}"] if drained else []


def stop(
    app: AppArgument = None,
    control: ControlOption = None,
    *,
    wait: Annotated[bool, typer.Option(help="Wait until it has stopped.")] = True,
) -> None:
    """Stop a pipeline after its current batch.

    A later start on the same checkpoint continues from there.
    """
    folder = find_folder(app, control)
    if all(running.control != folder.location for running in list_running()):
        raise ControlFolderError(f"nothing runs on '{folder.location}', so there is nothing to stop")
    folder.want_stop()
    end = time.monotonic() + _WAIT
    while wait and any(running.control == folder.location for running in list_running()):
        if time.monotonic() > end:
            raise ControlFolderError(f"asked to stop, but after {_WAIT:g} s it still runs; its batch may hang")
        time.sleep(0.2)
    typer.echo("stopped" if wait else "asked to stop")


def drain(
    place: Annotated[str, typer.Argument(metavar="HOST", help="A host, or the id of an executor.")],
    app: Annotated[str | None, typer.Option("--app", help="The pipeline; all that run here unless said.")] = None,
    control: ControlOption = None,
    *,
    back: Annotated[bool, typer.Option("--back", help="Let it have tasks again.")] = False,
) -> None:
    """Take a host or an executor out of service.

    It gets no more tasks from the next batch on, until it is released.
    """
    if control or app:
        folders = [find_folder(app, control)]
    else:
        folders = [ControlFolder(running.control) for running in list_running()] or [find_folder(None, None)]
    for folder in folders:
        folder.drain(place, back=back)
        loop = "" if folder.control() and not folder.control().get("ended") else " once a control loop is attached"
        does = "has tasks again" if back else "gets no more tasks"
        typer.echo(f"{place} {does} from the next batch on{loop} ({folder.location})")


def restart(
    app: AppArgument = None,
    control: ControlOption = None,
    state_partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions that Spark's state is to have.")
    ] = None,
    pool: Annotated[list[str] | None, typer.Option(help="Tasks behind an edge, such as `extract=6`.")] = None,
    reason: Annotated[str, typer.Option(help="Why, for the journal.")] = "a person asked for it",
) -> None:
    """Restart a pipeline from its checkpoint.

    For changes that cannot be made while it runs. The control loop performs the restart.
    """
    folder = find_folder(app, control)
    loop = folder.control()
    if not loop or loop.get("ended"):
        raise ControlFolderError("a restart is done by the control loop, and none is attached to that pipeline")
    pools = dict(_pool(each) for each in pool or [])
    folder.want_restart({"at": time.time(), "reason": reason, "state_partitions": state_partitions, "pools": pools})
    typer.echo("asked for; `foretide status` tells when it was done")


def _pool(text: str) -> tuple[str, int]:
    edge, _, tasks = text.partition("=")
    if not edge or not tasks.isdecimal() or int(tasks) < 1:
        raise typer.BadParameter(f"'{text}' is no pool; write the edge and its tasks, such as extract=6")
    return edge, int(tasks)
