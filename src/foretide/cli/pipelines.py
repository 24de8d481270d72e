"""`foretide list|status|stop|drain|restart`: running pipelines, from any terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from foretide.cli.console import AppOption, ControlFolderOption, JsonOption
from foretide.cli.steering import describe_target
from foretide.codec import to_json
from foretide.control_folder.folder import ControlFolder, ControlStatus, PipelineStatus
from foretide.control_folder.orders import RestartOrder
from foretide.errors import ControlFolderError
from foretide.status.pipelines import find_folder, list_running, read_state
from foretide.status.pipelines import list_pipelines as read_pipelines

_STOP_SECONDS = 120.0
_STOP_POLL_SECONDS = 0.2
_MAX_LINES = 5


def list_pipelines(*, as_json: JsonOption = False) -> None:
    """List the pipelines that run on this machine."""
    found = read_pipelines()
    if as_json:
        typer.echo(to_json(found))
    elif not found:
        typer.echo("no pipeline runs on this machine")
    else:
        table = Table("pipeline", "process", "last batch", "control", "control folder", box=None, pad_edge=False)
        for each in found:
            batch = "-" if each.batch is None else str(each.batch)
            control = "none" if each.mode is None else f"{each.mode}: {', '.join(each.policies)}"
            table.add_row(each.name, str(each.pid), batch, control, each.control_folder)
        Console().print(table)


def status(app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False) -> None:
    """Show the state of a pipeline and its control loop.

    The last batch, the target, recent decisions and forecasts, and problems.
    """
    state = read_state(find_folder(app, control_folder))
    if as_json:
        typer.echo(to_json(state))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in (*_batch_lines(state.batch), *_control_lines(state.control)):
        console.print(line, markup=False)
    if state.drained:
        console.print(f"drained: {', '.join(state.drained)}", markup=False)


def _batch_lines(batch: PipelineStatus | None) -> Iterator[str]:
    if batch is None:
        yield "no batch has finished yet"
        return
    age = max(0.0, time.time() - batch.finished)
    yield f"batch {batch.batch}: {batch.input_rows:,} rows, finished {age:.0f} s ago, routes {batch.route_version}"
    yield from (f"alarm: {message}" for message in batch.alarms)


def _control_lines(control: ControlStatus | None) -> Iterator[str]:
    if control is None:
        yield "control: not attached"
        return
    state = "ended" if control.ended else f"last cycle {max(0.0, time.time() - control.at):.0f} s ago"
    yield f"control ({control.mode}): {', '.join(control.policies)}; {describe_target(control.target)}; {state}"
    yield from (f"  decision {each.id}: {each.summary}" for each in control.decisions[-_MAX_LINES:])
    yield from (f"  forecast: {sentence}" for sentence in control.forecasts[-_MAX_LINES:])
    yield from (f"  problem: {problem}" for problem in control.problems)


def stop(
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    *,
    wait: Annotated[bool, typer.Option(help="Wait until it has stopped.")] = True,
) -> None:
    """Stop a pipeline after its current batch.

    A later start on the same checkpoint continues from there.
    """
    folder = find_folder(app, control_folder)
    if not _is_running(folder):
        raise ControlFolderError(f"no pipeline is running with the control folder '{folder.location}'")
    folder.orders.request_stop()
    end = time.monotonic() + _STOP_SECONDS
    while wait and _is_running(folder):
        if time.monotonic() > end:
            raise ControlFolderError(f"the pipeline did not stop within {_STOP_SECONDS:g} s; its batch may hang")
        time.sleep(_STOP_POLL_SECONDS)
    typer.echo("stopped" if wait else "stop requested")


def _is_running(folder: ControlFolder) -> bool:
    return any(running.control_folder == folder.location for running in list_running())


def drain(
    place: Annotated[str, typer.Argument(metavar="HOST", help="A host, or the id of an executor.")],
    app: Annotated[
        str | None, typer.Option("--app", metavar="NAME", help="Name of the pipeline. Default: all that are running.")
    ] = None,
    control_folder: ControlFolderOption = None,
    *,
    release: Annotated[bool, typer.Option("--release", help="Put it back into service.")] = False,
) -> None:
    """Take a host or an executor out of service.

    It gets no more tasks from the next batch on, until it is released.
    """
    if control_folder or app:
        folders = [find_folder(app, control_folder)]
    else:
        folders = [ControlFolder(each.control_folder) for each in list_running()] or [find_folder(None, None)]
    for folder in folders:
        folder.orders.drain(place, release=release)
        effect = "gets tasks again" if release else "gets no more tasks"
        when = "" if read_state(folder).controlled else " once a control loop is attached"
        typer.echo(f"{place} {effect} from the next batch on{when} ({folder.location})")


def restart(
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    state_partitions: Annotated[
        int | None, typer.Option(min=1, help="New number of partitions of Spark's state.")
    ] = None,
    pool: Annotated[
        list[str] | None, typer.Option(metavar="EDGE=TASKS", help="New number of tasks behind an edge; repeatable.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason, for the journal.")] = "requested by a user",
) -> None:
    """Restart a pipeline from its checkpoint.

    For changes that cannot be made while it runs. The control loop performs the restart.
    """
    folder = find_folder(app, control_folder)
    if not read_state(folder).controlled:
        raise ControlFolderError("the control loop performs restarts, and none is attached to this pipeline")
    pools = dict(_parse_pool(each) for each in pool or [])
    folder.orders.request_restart(RestartOrder(time.time(), reason, state_partitions, pools))
    typer.echo("restart requested; see `foretide status`")


def _parse_pool(text: str) -> tuple[str, int]:
    edge, _, tasks = text.partition("=")
    if not edge or not tasks.isdecimal() or int(tasks) < 1:
        raise typer.BadParameter(f"--pool must be EDGE=TASKS, such as extract=6, got '{text}'")
    return edge, int(tasks)
