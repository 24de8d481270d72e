"""`foretide list|status|advice|stop|drain|restart`: running pipelines, from any terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Annotated

import typer

from foretide.cli.console import (
    AppOption,
    Console,
    ControlFolderOption,
    JsonOption,
    answer,
    compact_table,
    echo,
    format_ago,
    parse_whole,
    plain_values,
    print_json,
)
from foretide.cli.holding import ForOption, describe
from foretide.cli.progress import progress
from foretide.cli.steering import request_restart
from foretide.control.target_record import TargetRecord, describe_target, reasons, verdict
from foretide.control_folder import by_hand
from foretide.control_folder.facts import MAX_POOL, MAX_STATE_PARTITIONS
from foretide.control_folder.folder import ControlFolder, ControlStatus, PipelineStatus
from foretide.control_folder.orders import RestartOrder, held_place, new_order_id
from foretide.control_folder.supervision import SupervisorStatus
from foretide.dates import local_date
from foretide.errors import ControlError, ControlFolderError, ForetideError
from foretide.status.pipelines import PipelineState, find_folder, is_running, list_running, read_state, starting_words
from foretide.status.pipelines import list_pipelines as read_pipelines

_STOP_SECONDS = 120.0
_STOP_POLL_SECONDS = 0.2
_MAX_LINES = 5
_NO_ADVICE = "nobody would work out advice"
_NOT_FOLLOWED = "no batch was reported: no process follows a query with this control folder (ft.control would)"


_ENDED = "no process on this machine runs this pipeline now; this is what it wrote last"


def list_pipelines(*, as_json: JsonOption = False) -> None:
    """List the pipelines that run on this machine."""
    found = read_pipelines()
    if as_json:
        print_json(found)
    elif not found:
        starting = starting_words()
        echo(f"no pipeline runs on this machine{f'; {starting}' if starting else ''}")
    else:
        table = compact_table("pipeline", "process", "last batch", "control", "target")
        for each in found:
            batch = "-" if each.batch is None else f"{each.batch:,}"
            control = "none" if each.mode is None else f"{each.mode}: {', '.join(each.policies)}"
            control = "?" if each.problems else control
            table.add_row(each.name, str(each.pid), batch, control, _target_state(each.target))
        Console().print(table)
        for each in found:  # whole, so that it can be copied
            echo(f"control folder of {each.name}: {each.control_folder}")
            _say_problems(each.problems)
    if any(each.problems for each in found):
        raise typer.Exit(1)


def _target_state(record: TargetRecord | None) -> str:
    """Whether a pipeline holds its target, in a few words for a table."""
    if record is None or record.held is None:
        if record is None or record.target.latency is None:
            return "none"
        return "warming up" if record.warming_up else "unknown"
    percent = 100 * record.missed / record.measurements if record.measurements else 0.0
    return "held" if record.held else f"missed, {percent:.0f} %"


def _say_problems(problems: Iterable[str]) -> None:
    for problem in problems:
        echo(f"problem: {problem}", err=True)


def status(app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False) -> None:
    """Show the state of a pipeline and its control loop.

    The last batch, the target, recent decisions and forecasts, and problems.
    """
    folder = find_folder(app, control_folder)
    state = read_state(folder)
    running = is_running(folder)
    if as_json:
        print_json({"running": running, **plain_values(state)})
    else:
        _show_state(state, followed=running)
    if state.problems:
        raise typer.Exit(1)


def _show_state(state: PipelineState, *, followed: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    batch = () if state.batch is None and state.problems else _batch_lines(state.batch, followed=followed)
    control = () if state.control is None and state.problems else _control_lines(state.control)
    for line in (*batch, *control, *_supervisor_lines(state.supervisor)):
        console.print(line, markup=False)
    unsigned = [place for place in state.drained if held_place(place) not in state.held]
    if unsigned:
        console.print(f"drained: {', '.join(unsigned)}", markup=False)
    for line in describe(state.held, time.time()):
        console.print(line, markup=False)
    _say_problems(state.problems)


def _batch_lines(batch: PipelineStatus | None, *, followed: bool) -> Iterator[str]:
    if batch is None:
        yield "no batch has finished yet" if followed else _NOT_FOLLOWED
        return
    if not followed:
        yield _ENDED
    finished = format_ago(batch.finished, time.time())
    if batch.idle:
        yield f"idle: it waits for rows, and none has come yet; the first look at its sources ended {finished}"
        yield from (f"problem: {problem}" for problem in batch.problems)
        return
    version = "the default split" if batch.route_version is None else f"version {batch.route_version}"
    routes = f", routes: {version}" if batch.edges or batch.route_version is not None else ""
    yield f"batch {batch.batch:,}: {batch.input_rows:,} rows, finished {finished}{routes}"
    yield from (f"alarm: {message}" for message in batch.alarms)
    yield from (f"problem: {problem}" for problem in batch.problems)


def _control_lines(control: ControlStatus | None) -> Iterator[str]:
    if control is None:
        yield "control: not attached"
        return
    state = "ended" if control.ended else f"last cycle {format_ago(control.at, time.time())}"
    mode = "paused" if control.paused else control.mode
    yield f"control ({mode}): {', '.join(control.policies)}; {describe_target(control.target)}; {state}"
    if control.record is not None and control.record.target.latency is not None:
        held, *counted = verdict(control.record).split("; ")
        yield from (held, *(f"  {line}" for line in (*counted, *reasons(control.record))))
    yield from (f"join '{name}': {each.describe()}" for name, each in control.joins.items())
    yield from (f"  decision {each.id}: {each.summary}" for each in control.decisions[-_MAX_LINES:])
    yield from (f"  forecast: {sentence}" for sentence in control.forecasts[-_MAX_LINES:])
    yield from (f"  problem: {problem}" for problem in control.problems)
    if control.latency_basis is not None:
        yield f"  latency is measured from: {control.latency_basis}"
    if control.advice:
        more = f", and {len(control.advice) - 1} more" if len(control.advice) > 1 else ""
        yield f"  advice: {control.advice[0].sentence}; `foretide advice` says how{more}"


def advice(app: AppOption = None, control_folder: ControlFolderOption = None, *, as_json: JsonOption = False) -> None:
    """Show what could be changed in a query, and what that would save.

    It is worked out from the last batches, for what the control loop cannot change while the query runs.
    """
    found = by_hand.read_loop(find_folder(app, control_folder), _NO_ADVICE).advice
    if as_json:
        print_json(found)
        return
    if not found:
        echo("no advice: nothing that would pay was found, or too few batches have been measured yet")
    console = Console(highlight=False, soft_wrap=True)
    for number, each in enumerate(found, 1):
        console.print(f"{number}. {each.sentence}\n   how: {each.how}", markup=False)


def _supervisor_lines(supervisor: SupervisorStatus | None) -> Iterator[str]:
    if supervisor is not None:
        state = "ended" if supervisor.ended else f"process {supervisor.pid}"
        last = "" if supervisor.at is None else f"; it {supervisor.last_exit} on {local_date(supervisor.at)}"
        times = "once" if supervisor.restarts == 1 else f"{supervisor.restarts} times"
        yield f"supervisor: {state}; driver restarted {times}{last}"


def stop(
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    *,
    wait: Annotated[bool, typer.Option(help="Wait until it has stopped.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Stop a pipeline after its current batch.

    A later start on the same checkpoint continues from there.
    """
    folder = find_folder(app, control_folder)
    if not is_running(folder):
        raise ControlFolderError(f"no pipeline is running with the control folder '{folder.location}'")
    folder.orders.request_stop()
    if wait:
        with progress("waiting for the end of the batch"):
            _await_stop(folder)
    state = "stopped" if wait else "stop requested"
    answer({"control_folder": folder.location, "state": state}, state, as_json=as_json)


def _await_stop(folder: ControlFolder) -> None:
    end = time.monotonic() + _STOP_SECONDS
    while is_running(folder):
        if time.monotonic() > end:
            raise ControlFolderError(f"the pipeline did not stop within {_STOP_SECONDS:g} s; its batch may hang")
        time.sleep(_STOP_POLL_SECONDS)


def drain(
    place: Annotated[str, typer.Argument(metavar="HOST", help="A host, or the id of an executor.")],
    app: Annotated[
        str | None, typer.Option("--app", metavar="NAME", help="Name of the pipeline. Default: all that are running.")
    ] = None,
    control_folder: ControlFolderOption = None,
    seconds: ForOption = None,
    *,
    release: Annotated[bool, typer.Option("--release", help="Put it back into service.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take a host or an executor out of service.

    The control loop gives it no more tasks until it is released, unless too few workers would be left.
    """
    found = partial(find_folder, app, control_folder)
    running = [] if control_folder or app else list_running()
    folders = [partial(ControlFolder, each.control_folder) for each in running] or [found]
    unknown: list[ForetideError] = []
    failed: list[ForetideError] = []
    done: list[str] = []
    for find in folders:
        try:
            folder = find()
            _drain(folder, place, seconds, release=release)
            done.append(folder.location)
        except ControlError as error:
            unknown.append(error)
        except ForetideError as error:
            failed.append(error)
    effect = "gets tasks again" if release else "gets no more tasks"
    text = f"requested: {place} {effect}; see `foretide status` ({', '.join(done)})"
    if done and not (failed and as_json):  # stdout has one JSON value: the error
        answer({"place": place, "release": release, "control_folders": done}, text, as_json=as_json)
    _say_problems(map(str, failed[1:]))
    if failed or len(unknown) == len(folders):
        raise (failed or unknown)[0]


def _drain(folder: ControlFolder, place: str, seconds: float | None, *, release: bool) -> None:
    """Drain or release a place in one pipeline; ControlError if the pipeline does not have it."""
    if release:
        by_hand.undrain(folder, place)
    else:
        by_hand.drain(folder, place, seconds)


def restart(
    app: AppOption = None,
    control_folder: ControlFolderOption = None,
    state_partitions: Annotated[
        str | None, typer.Option(metavar="N", help="New number of partitions of Spark's state.")
    ] = None,
    pool: Annotated[
        list[str] | None, typer.Option(metavar="EDGE=TASKS", help="New number of tasks behind an edge; repeatable.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason, for the journal.")] = "requested by a user",
    *,
    as_json: JsonOption = False,
) -> None:
    """Restart a pipeline from its checkpoint.

    For changes that cannot be made while it runs; without any it is restarted as it is. The control loop performs the
    restart, once.
    """
    partitions = None
    if state_partitions is not None:
        partitions = parse_whole(state_partitions, "--state-partitions", MAX_STATE_PARTITIONS)
    pools = _parse_pools(pool or [])
    folder = find_folder(app, control_folder)
    order = RestartOrder(new_order_id(), reason, partitions, pools)
    changes = "" if partitions or pools else " without changes"
    request_restart(folder, order, f"restart{changes}", as_json=as_json)


def _parse_pools(texts: Iterable[str]) -> dict[str, int]:
    pools: dict[str, int] = {}
    for text in texts:
        edge, _, tasks = text.partition("=")
        if not edge or not tasks:
            raise typer.BadParameter(f"--pool must be EDGE=TASKS, such as extract=6, got '{text}'")
        if edge in pools:
            raise typer.BadParameter(f"--pool is given twice for '{edge}'")
        pools[edge] = parse_whole(tasks, f"the pool of '{edge}'", MAX_POOL)
    return pools
