"""`foretide run [OPTIONS] SCRIPT.py [ARGUMENTS]`: runs a PySpark program as it is, and controls its queries.

Spark gets the settings that must be there before its start, unless the program or whoever started it sets them. All
else is as `python SCRIPT.py ARGUMENTS` would do it: working folder, arguments, output, exit code.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from foretide.cli.console import DurationOption, echo, plain_values
from foretide.cli.exits import ScriptExit
from foretide.cli.running.preflight import check_control, check_home, ended_by_signals
from foretide.cli.running.run import wanted_target
from foretide.cli.settings import (
    ConfigOption,
    EventOption,
    HistoryOption,
    ModelOption,
    PolicyOption,
    SetOption,
    chosen_settings,
    handed_in,
)
from foretide.runtime.shutdown import within
from foretide.runtime.threads import guarded
from foretide.settings.settings import Settings

_STOP_SECONDS = 20.0


def run_script(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="A PySpark program.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENTS", help="Arguments of the program: all that follows it.")
    ] = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    history: HistoryOption = None,
    model: ModelOption = None,
    event: EventOption = None,
    latency: Annotated[float | None, DurationOption(help="Target of the p99 latency, such as 2s.")] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write what is said of each query at the end to FILE, as JSON.", dir_okay=False
        ),
    ] = None,
    *,
    act: Annotated[
        bool, typer.Option("--act", help="Carry out what the control loops decide. Default: advise only.")
    ] = False,
) -> None:
    """Run a PySpark program without changing it, and control every streaming query that it starts.

    Options of this command come before the program's name. Without --act the control loops only advise; see
    `foretide status` and `foretide advice` in another terminal. At the end stderr says of each query whether its target
    was held, and what the control loop did.
    """
    if not os.path.isfile(script):  # noqa: PTH113 - False for a name that no file can have
        raise typer.BadParameter(f"there is no file '{script}'", param_hint="SCRIPT")
    if summary is not None and not summary.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder '{summary.parent}' does not exist", param_hint="--summary")
    settings = chosen_settings(config, [*(sets or ()), *handed_in(history, model, event)], policy)
    settings.to_control()
    target = wanted_target(settings, latency) or settings.target
    check_control(settings, target)
    check_home()
    with ended_by_signals():
        code = _run(script, arguments or [], settings, target, "act" if act else "advise", summary)
    if code:
        raise ScriptExit(code)


def _run(
    script: Path, arguments: Sequence[str], settings: Settings, target: Any, mode: Any, summary: Path | None
) -> int:
    from foretide.cli.running.watched import NotedAttach  # noqa: PLC0415 - loads Spark
    from foretide.runtime.loop.watch import Watch  # noqa: PLC0415
    from foretide.spark.executors import QUARANTINE_SETTINGS  # noqa: PLC0415
    from foretide.spark.session_events import is_classic, prepared_sessions  # noqa: PLC0415

    watches: list[Watch] = []
    loops = NotedAttach(None, target, mode, settings)

    def attach(session: Any) -> None:
        if is_classic(session):
            guarded(lambda: watches.append(Watch(session, loops).start()), "watching the queries of the program")

    with prepared_sessions(QUARANTINE_SETTINGS, attach):
        try:
            return run_as_main(script, arguments)
        except KeyboardInterrupt:
            within(_STOP_SECONDS, lambda: _stop_queries(watches), "stopping the queries of the program")
            raise
        finally:
            for each in watches:
                within(_STOP_SECONDS, each.stop, "ending the control of the program's queries")
            for line in loops.lines():
                echo(line, err=True)
            if summary is not None:
                _write(summary, loops.data())


def _write(summary: Path, data: dict[str, Any]) -> None:
    try:
        summary.write_text(json.dumps(plain_values(data), allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        echo(f"foretide: cannot write '{summary}': {error.strerror}", err=True)


def run_as_main(script: Path, arguments: Sequence[str]) -> int:
    """Run a program as Python would, and return its exit code. What it raises is printed as Python prints it."""
    before, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent.resolve()))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        if isinstance(ended.code, str):
            echo(ended.code, err=True)
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except Exception as error:  # noqa: BLE001 - the program's own
        traceback.print_exception(type(error), error, _own_frames(error, script))
        return 1
    finally:
        sys.argv, sys.path[:] = before, path
    return 0


def _own_frames(error: BaseException, script: Path) -> Any:
    """The traceback from the program's own first line on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(script):
        trace = trace.tb_next
    return trace or error.__traceback__


def _stop_queries(watches: Sequence[Any]) -> None:
    for each in watches:
        each.stop_queries()
