"""`foretide run APP`: runs an application under a replayed load, shows it live, and verifies its output.

Spark is loaded only after everything that can be checked was checked, and not at all by a supervisor.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from foretide.apps.app import APPS, RATES, Load, find_app
from foretide.cli.console import ClientConfigOption, DurationOption, JsonOption, PlotOption, check_plot, echo
from foretide.cli.running.beside import DashboardOption, dashboard_beside
from foretide.cli.running.preflight import (
    SPARK_LOG,
    check_control,
    check_home,
    check_load,
    check_master,
    check_output_mode,
    check_temporary,
    ended_by_signals,
    only_run,
    output_folder,
)
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
from foretide.control.world.setup import Target
from foretide.errors import BatchTimeoutError, ForetideError, PipelineFailedError, RestartFailedError
from foretide.runtime.driver_supervisor import CRASHED, DriverSupervisor, RestartLimits
from foretide.settings.settings import Settings
from foretide.spark.kafka_options import read_options
from foretide.topology.modes import MICRO_BATCH, REAL_TIME, Mode

_REPLAY_RATE, _KAFKA_RATE = 20_000.0, 1000.0
MASTERS = {MICRO_BATCH.name: "local[2]", REAL_TIME.name: "local[32]"}
"""The default master URL by mode: real-time mode needs a slot for each task."""


def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="APP", help="The application; see `foretide apps`.")] = "url-count",
    duration: Annotated[float, DurationOption(show_default="40s", help="Length of the replay.")] = 40.0,
    rate: Annotated[
        float | None,
        typer.Option(
            show_default="20000, through Kafka 1000",
            help="Mean rows per second; some applications have a lower default.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated rows.")] = 7,
    ratio: Annotated[str, typer.Option(help="New split of an edge midway, such as 4:3:1, or 'none'.")] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for output and checkpoint; on a cluster, one that all hosts share. Default: a temporary one.",
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(show_default="local[2], in real-time mode local[32]", help="Master URL of Spark.")
    ] = None,
    mode: Annotated[Mode, typer.Option(help="How Spark runs the query.")] = "micro-batch",
    servers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Kafka brokers; implies --kafka. Default: a broker of its own."),
    ] = None,
    client_config: ClientConfigOption = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    history: HistoryOption = None,
    model: ModelOption = None,
    event: EventOption = None,
    latency: Annotated[float | None, DurationOption(help="Target of the p99 latency, such as 2s.")] = None,
    max_executors: Annotated[
        int | None, typer.Option(min=1, help="Maximum executors that the control loop may ask for.")
    ] = None,
    plot: PlotOption = None,
    max_restarts: Annotated[
        int | None,
        typer.Option(
            min=0,
            show_default="10",
            help="Maximum restarts in a row; a driver that ran for 5 minutes resets the count.",
        ),
    ] = None,
    *,
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Feed the application through Kafka; in real-time mode this is always so."),
    ] = False,
    supervise: Annotated[
        bool, typer.Option("--supervise", help="Start a driver that dies again, from its checkpoint.")
    ] = False,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
    dashboard: DashboardOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run an application, a topology of your own, or a PySpark program.

    Midway an edge of the application is split in a new ratio, or, if a policy or a target is given, the control loop
    controls the pipeline. At the end the output is compared, row by row, with the expected output.

    `foretide run my_job.py ARGUMENTS` runs a PySpark program as it is and controls its queries; `foretide run
    my_module:topology` runs a topology. Their options: `foretide run --help my_job.py`, `foretide run --help
    my_module:topology`.
    """
    if max_restarts is not None and not (supervise or supervised):
        raise typer.BadParameter("--max-restarts requires --supervise")
    if name not in APPS:
        find_app(name)
    through_kafka = kafka or servers is not None or mode == REAL_TIME.name
    if supervise and mode == REAL_TIME.name:
        raise typer.BadParameter("--supervise requires --mode micro-batch; a failed real-time query is started again")
    if supervise and through_kafka:
        raise typer.BadParameter("--supervise requires the replayed load: leave out --kafka and --servers")
    if client_config is not None and servers is None:
        raise typer.BadParameter("--client-config requires --servers")
    client = {} if client_config is None else read_options(client_config)
    default_rate = RATES.get(name, _KAFKA_RATE if through_kafka else _REPLAY_RATE)
    rate = default_rate if rate is None else rate
    master = MASTERS[mode] if master is None else master
    check_load(duration, rate, 1, 1)
    check_master(master)
    executors = [] if max_executors is None else [f"control.max_executors={max_executors}"]
    given = [*(sets or ()), *executors, *handed_in(history, model, event)]
    settings = chosen_settings(config, given, policy)
    target = wanted_target(settings, latency)
    check_control(settings, target, handed_in=any((history, model, event)))
    if not through_kafka:
        check_output_mode(settings.run.output_mode)
    check_plot(plot)
    check_temporary()
    check_home()
    with (
        ended_by_signals(),
        nullcontext(_tell_nobody) if supervised else only_run(name) as tell,
        output_folder(output, name, may_exist=supervised) as folder,
        dashboard_beside(dashboard, partial(echo, err=as_json)),
    ):
        tell(folder / "checkpoint" / "foretide")
        if supervise:
            code = _supervise(context, name, folder, max_restarts)
        else:
            load, app = Load(duration, rate, seed), find_app(name)
            app.check()
            chosen = ratio or ("none" if target else app.ratio)
            from foretide.cli.running.run_app import RunOptions, run_app  # noqa: PLC0415 - loads Spark

            options = RunOptions(app, load, folder, master, chosen, settings, target, plot, as_json, supervised)
            if through_kafka:
                from foretide.cli.running.kafka_run import Brokers  # noqa: PLC0415
                from foretide.cli.running.run_kafka import run_kafka  # noqa: PLC0415

                brokers = None if servers is None else Brokers(servers, client)
                code = 0 if run_kafka(options, mode, brokers) else 1
            else:
                with _crashes(folder / SPARK_LOG) if supervised else nullcontext():
                    code = 0 if run_app(options) else 1
    if code:
        raise typer.Exit(code)


def wanted_target(settings: Settings, latency: float | None) -> Target | None:
    """What the control loop has to hold; None when neither a policy nor a target is given, so that no loop is needed.

    >>> wanted_target(Settings(), 1.0), wanted_target(Settings(), None)
    (Target(latency=1.0, relaxed=0.0, quantile='p99', budget=None), None)
    """
    if latency is not None:
        return replace(settings.target, latency=latency, quantile="p99")
    asked = any(key.partition(".")[0] in {"control", "target"} for key in settings.origins)
    return settings.target if asked else None


def _tell_nobody(_control_folder: Path) -> None:
    """The supervisor has told other processes already."""


def _supervise(context: typer.Context, name: str, folder: Path, max_restarts: int | None) -> int:
    control_folder = folder / "checkpoint" / "foretide"
    limits = RestartLimits() if max_restarts is None else RestartLimits(max_restarts)
    say = partial(echo, err=True)
    return DriverSupervisor(name, driver_command(context, folder), control_folder, limits, say).run()


def driver_command(context: Any, folder: Path) -> list[str]:
    """The command of the driver: as this one, in a given folder, and supervised."""
    given = {**context.params, "output": folder, "supervise": False, "supervised": True, "dashboard": False}
    words = [sys.executable, "-m", "foretide", "run"]
    for parameter in context.command.params:
        value = given.get(parameter.name)
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is True:
            words.append(parameter.opts[0])
        elif value not in (None, False, ""):
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"{parameter.opts[0]}={each}" for each in values]
    return words


@contextmanager
def _crashes(log_file: Path) -> Iterator[None]:
    """A failure of the driver, other than a refusal, ends it with the exit code for which it is started again."""
    try:
        yield
    except (PipelineFailedError, BatchTimeoutError, RestartFailedError) as error:
        problem = str(error)
    except (ForetideError, typer.Exit):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the checkpoint can be continued
        with log_file.open("a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        problem = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}; see {log_file}"
    else:
        return
    echo(f"foretide: {problem}", err=True)
    sys.stdout.flush()
    os._exit(CRASHED)  # whatever threads of the driver still do
