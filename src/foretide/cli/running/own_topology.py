"""`foretide run MODULE:NAME`: runs a topology of one's own until it ends or is stopped.

Everything that can be checked is checked before Spark is started.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretide.cli.console import ClientConfigOption, Console, DurationOption, JsonOption, print_json
from foretide.cli.running.ending import control_data, show_control, target_data
from foretide.cli.running.preflight import (
    SPARK_LOG,
    check_control,
    check_home,
    check_master,
    check_sink,
    check_temporary,
    ended_by_signals,
    only_run,
    output_folder,
)
from foretide.cli.running.run import MASTERS, wanted_target
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
from foretide.spark.kafka_options import read_options
from foretide.spark.versions import REAL_TIME as NEEDED_FOR_REAL_TIME
from foretide.spark.versions import check_has
from foretide.topology.graph import Topology
from foretide.topology.modes import MODES, REAL_TIME, Mode
from foretide.topology.sinks import Console as ConsoleSink
from foretide.topology.sinks import Json, KafkaSink, Parquet, Sink, Table
from foretide.topology.validate import find_problems

if TYPE_CHECKING:
    from foretide.control.world.setup import Target
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.pipeline.submit import Pipeline
    from foretide.settings.run import RunSettings
    from foretide.settings.settings import Settings

_SINKS: Mapping[str, Callable[[str], Sink]] = {"parquet": Parquet, "json": Json, "table": Table}
_REAL_TIME_PARTITIONS = 2
"""Of Spark's state: in real-time mode each of them takes a slot."""

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
            help="parquet:FOLDER, json:FOLDER, table:NAME, kafka:SERVERS/TOPIC or console. In the name of a topic "
            "`{stream}` stands for the output stream.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for output and checkpoint; a checkpoint in it is continued. Default: a temporary one.",
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(show_default="local[2], in real-time mode local[32]", help="Master URL of Spark.")
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option(show_default="run.mode", help="How Spark runs the query; real-time mode is from Kafka to Kafka."),
    ] = None,
    client_config: ClientConfigOption = None,
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
    chosen = None if sink is None else parse_sink(sink, None if client_config is None else read_options(client_config))
    if client_config is not None and not isinstance(chosen, KafkaSink):
        raise typer.BadParameter("--client-config requires --sink kafka:SERVERS/TOPIC")
    given = [] if mode is None else [f"run.mode={mode}"]
    settings = chosen_settings(config, [*(sets or ()), *given, *handed_in(history, model, event)], policy)
    mode = settings.run.mode
    master = MASTERS[mode] if master is None else master
    check_master(master)
    run_settings = settings_for(settings, chosen)
    _check_mode(topology, chosen, run_settings)
    target = wanted_target(settings, latency)
    check_control(settings, target, handed_in=any((history, model, event)))
    check_temporary()
    check_home()
    check_sink(chosen or Parquet(str(output or Path.cwd())), settings.run.output_mode)
    with (
        ended_by_signals(),
        only_run(topology.name) as tell,
        output_folder(output, topology.name, may_exist=True) as folder,
    ):
        tell(folder / "checkpoint" / "foretide")
        sink_in_folder = chosen or Parquet(str(folder / "output"))
        job = OwnJob(topology, sink_in_folder, folder, master, duration, settings, run_settings, target)
        summary = _run(job, as_json=as_json)
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
        with redirect_stdout(sys.stderr):  # stdout is for what the command says, such as JSON
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


def parse_sink(text: str, options: Mapping[str, str] | None = None) -> Sink:
    """A sink from the text of the option, and options for the clients of Kafka.

    >>> parse_sink("json:out/clicks"), parse_sink("console")
    (Json(path='out/clicks'), Console(rows=20))
    >>> parse_sink("kafka:a:9092,b:9092/clicks-{stream}")
    KafkaSink(servers='a:9092,b:9092', topic='clicks-{stream}', key=None)
    """
    kind, _, place = text.partition(":")
    if text == "console":
        return ConsoleSink()
    servers, _, topic = place.partition("/")
    if kind == "kafka" and servers and topic:
        return KafkaSink(servers, topic, options=options or {})
    if kind not in _SINKS or not place:
        raise typer.BadParameter(
            f"--sink must be parquet:FOLDER, json:FOLDER, table:NAME, kafka:SERVERS/TOPIC or console, got '{text}'"
        )
    return _SINKS[kind](place)


def settings_for(settings: Settings, sink: Sink | None) -> RunSettings:
    """The settings of the run; the guarantee is what mode and sink can give, unless it was set."""
    chosen = settings.to_run()
    if "run.guarantee" in settings.origins:
        return chosen
    chosen = chosen.in_mode(chosen.mode)
    too_strong = sink is not None and not sink.transactional and chosen.guarantee == "exactly-once"
    return replace(chosen, guarantee="at-least-once") if too_strong else chosen


def _check_mode(topology: Topology, sink: Sink | None, settings: RunSettings) -> None:
    """Refuse what the mode cannot do, before Spark is started."""
    if settings.mode == REAL_TIME.name:
        check_has(NEEDED_FOR_REAL_TIME)
        if sink is None:
            raise typer.BadParameter("real-time mode requires --sink kafka:SERVERS/TOPIC")
    if sink is not None:
        problems = list(MODES[settings.mode].problems(topology, sink, settings.guarantee))
        if problems:
            raise TopologyError(topology.name, problems)


@dataclass(frozen=True)
class OwnJob:
    """A topology, and how it is run."""

    topology: Topology
    sink: Sink
    folder: Path
    master: str
    duration: float | None
    settings: Settings
    run_settings: RunSettings
    target: Target | None


def _run(job: OwnJob, *, as_json: bool) -> dict[str, Any]:
    from foretide.cli.running.application import STOP_SECONDS, spark_session  # noqa: PLC0415 - loads Spark
    from foretide.runtime.loop.attach import control  # noqa: PLC0415
    from foretide.runtime.pipeline.submit import submit  # noqa: PLC0415
    from foretide.runtime.shutdown import within  # noqa: PLC0415

    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    topology, folder, mode, controller = job.topology, job.folder, job.run_settings.mode, None
    partitions = _REAL_TIME_PARTITIONS if mode == REAL_TIME.name else _cores(job.master)
    with spark_session(job.master, topology.name, partitions, folder / SPARK_LOG, console, mode) as spark:
        pipeline = submit(spark, topology, job.sink, str(folder / "checkpoint"), job.run_settings)
        console.print(f"'{topology.name}' runs; output and checkpoint: {folder}", markup=False)
        try:
            if job.target is not None:
                controller = control(pipeline, target=job.target, settings=job.settings)
            _wait(pipeline, job.duration, console)
        except BaseException:
            within(STOP_SECONDS, pipeline.stop, "stopping the pipeline")
            raise
        pipeline.stop()
        _raise_failure(pipeline)
        reports = list(pipeline.reports)
        rows = sum(report.input_rows for report in reports)
        console.print(f"stopped after batch {pipeline.last_batch}; {rows:,} rows in {len(reports)} batches")
    if controller is not None:
        show_control(console, controller)
    summary: dict[str, Any] = {
        "topology": topology.name,
        "batches": len(reports),
        "rows": rows,
        "alarms": [alarm.message for alarm in pipeline.alarms],
        "folder": str(folder),
        "target": None if controller is None else target_data(controller.record),
    }
    return summary if controller is None else summary | {"control": control_data(controller)}


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
