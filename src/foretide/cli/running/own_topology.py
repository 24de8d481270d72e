"""`foretide run MODULE:NAME`: runs a topology of one's own until it ends or is stopped.

Everything that can be checked is checked before Spark is started.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.cli.console import Console, DurationOption, JsonOption, print_json
from foretide.cli.running.preflight import (
    SPARK_LOG,
    check_home,
    check_master,
    check_store,
    check_temporary,
    ended_by_signals,
    only_run,
    output_folder,
)
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
from foretide.errors import PipelineFailedError, PipelineNotFoundError, TopologyError
from foretide.formatting import format_duration
from foretide.secrets import masked
from foretide.topology.graph import Topology
from foretide.topology.sinks import Console as ConsoleSink
from foretide.topology.sinks import Json, Parquet, Sink, Table
from foretide.topology.validate import find_problems

if TYPE_CHECKING:
    from foretide.control.world.setup import Target
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.pipeline.submit import Pipeline
    from foretide.settings.settings import Settings

_SINKS: Mapping[str, Callable[[str], Sink]] = {"parquet": Parquet, "json": Json, "table": Table}
_POLL_SECONDS = 0.2
_LINE_SECONDS = 5.0


def run_topology(
    reference: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A Topology, or a function without arguments that returns one.")
    ],
    sink: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:PLACE",
            show_default="parquet in the output folder",
            help="parquet:FOLDER, json:FOLDER, table:NAME or console.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for output and checkpoint; a checkpoint in it is continued. Default: a temporary one.",
        ),
    ] = None,
    master: Annotated[str, typer.Option(help="Master URL of Spark.")] = "local[2]",
    duration: Annotated[
        float | None, DurationOption(show_default="until it ends or is stopped", help="Stop after this time.")
    ] = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    history: HistoryOption = None,
    model: ModelOption = None,
    event: EventOption = None,
    latency: Annotated[float | None, DurationOption(help="Target of the p99 latency, such as 2s.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run a topology of your own. The module is imported from the working folder or an installed package.

    If a policy or a target is given, the control loop controls it. Ctrl-C and `foretide stop` stop it between batches.
    """
    topology = find_topology(reference)
    chosen = None if sink is None else parse_sink(sink)
    check_master(master)
    settings = chosen_settings(config, [*(sets or ()), *handed_in(history, model, event)], policy)
    check_temporary()
    check_home()
    check_store(settings.to_run().monitoring)
    with (
        ended_by_signals(),
        only_run(topology.name) as tell,
        output_folder(output, topology.name, may_exist=True) as folder,
    ):
        tell(folder / "checkpoint" / "foretide")
        target = wanted_target(settings, latency)
        summary = _run(topology, chosen, folder, master, duration, settings, target, as_json=as_json)
    if as_json:
        print_json(summary)


def find_topology(reference: str) -> Topology:
    """Import a topology.

    Raises:
        PipelineNotFoundError: The module cannot be imported, has no such name, or that is no topology.
        TopologyError: It is not valid.
    """
    module, _, name = reference.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        where = f"in '{folder}' or an installed package" if error.name == module.partition(".")[0] else f"({error})"
        raise PipelineNotFoundError(f"cannot import '{module}': there is no such module {where}") from error
    except AttributeError as error:
        raise PipelineNotFoundError(f"'{reference}': {error}") from error
    except Exception as error:
        raise PipelineNotFoundError(f"cannot import '{module}': {type(error).__name__}: {error}") from error
    if callable(found) and not isinstance(found, Topology):
        try:
            found = found()
        except TypeError as error:
            raise PipelineNotFoundError(f"'{reference}' must be callable without arguments: {error}") from error
    if not isinstance(found, Topology):
        kind = type(found).__name__
        raise PipelineNotFoundError(
            f"'{reference}' is of type {kind}; it must be a ft.Topology, or a function that returns one"
        )
    problems = find_problems(found)
    if problems:
        raise TopologyError(found.name, problems)
    return found


def parse_sink(text: str) -> Sink:
    """A sink from the text of the option.

    >>> parse_sink("json:out/clicks"), parse_sink("console")
    (Json(path='out/clicks'), Console(rows=20))
    """
    kind, _, place = text.partition(":")
    if text == "console":
        return ConsoleSink()
    if kind not in _SINKS or not place:
        raise typer.BadParameter(f"--sink must be parquet:FOLDER, json:FOLDER, table:NAME or console, got '{text}'")
    return _SINKS[kind](place)


def _run(
    topology: Topology,
    sink: Sink | None,
    folder: Path,
    master: str,
    duration: float | None,
    settings: Settings,
    target: Target | None,
    *,
    as_json: bool,
) -> dict[str, Any]:
    from foretide.cli.running.application import STOP_SECONDS, spark_session  # noqa: PLC0415 - loads Spark
    from foretide.runtime.loop.attach import control  # noqa: PLC0415
    from foretide.runtime.pipeline.submit import submit  # noqa: PLC0415
    from foretide.runtime.shutdown import within  # noqa: PLC0415

    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    chosen = sink or Parquet(str(folder / "output"))
    with spark_session(master, topology.name, _cores(master), folder / SPARK_LOG, console) as spark:
        pipeline = submit(spark, topology, chosen, str(folder / "checkpoint"), settings.to_run())
        console.print(f"'{topology.name}' runs; output and checkpoint: {folder}", markup=False)
        try:
            if target is not None:
                control(pipeline, target=target, settings=settings)
            _wait(pipeline, duration, console)
        except BaseException:
            within(STOP_SECONDS, pipeline.stop, "stopping the pipeline")
            raise
        pipeline.stop()
        _raise_failure(pipeline)
        reports = list(pipeline.reports)
        rows = sum(report.input_rows for report in reports)
        console.print(f"stopped after batch {pipeline.last_batch}; {rows:,} rows in {len(reports)} batches")
    alarms = [alarm.message for alarm in pipeline.alarms]
    return {"topology": topology.name, "batches": len(reports), "rows": rows, "alarms": alarms, "folder": str(folder)}


def _wait(pipeline: Pipeline, duration: float | None, console: Console) -> None:
    """Say every few seconds what the last batch was, until the pipeline has ended or the time is over."""
    end = None if duration is None else time.monotonic() + duration
    said, due = -1, 0.0
    while pipeline.running and (end is None or time.monotonic() < end):
        if pipeline.last_batch > said and time.monotonic() >= due:
            said, due = pipeline.last_batch, time.monotonic() + _LINE_SECONDS
            console.print(_line(pipeline.reports[-1]))
        time.sleep(_POLL_SECONDS)


def _line(report: BatchReport) -> str:
    return f"batch {report.batch}: {report.input_rows:,} rows in {format_duration(report.duration)}"


def _raise_failure(pipeline: Pipeline) -> None:
    try:
        pipeline.raise_failure()
    except Exception as error:
        cause = masked(str(error).strip().partition("\n")[0]) or type(error).__name__
        raise PipelineFailedError(pipeline.topology.name, pipeline.last_batch, cause) from error


def _cores(master: str) -> int:
    """Partitions of Spark's state: as many as local mode has cores."""
    found = re.match(r"local\[(\d+)", master)
    return int(found[1]) if found else os.cpu_count() or 2
