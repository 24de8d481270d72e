"""`foretide demo url-count|join|foresight`: what control does, shown live.

`url-count` slows an executor, without control and with it. `join` joins taxi orders with vehicle positions; hot cells
are found and split while it runs. `foresight` adds replicas before the load rises.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from foretide.apps.app import APPS, Load, find_app
from foretide.apps.experiment import Verification, cpu_hog, origin_of, pin, pin_executors
from foretide.cli.console import Console, DurationOption, JsonOption, PlotOption, print_json
from foretide.cli.running.application import AppRun, spark_session, warm_up
from foretide.cli.running.beside import DashboardOption, dashboard_beside
from foretide.cli.running.demo_foresight import foresight
from foretide.cli.running.demo_join import check_demo_plot, join
from foretide.cli.running.demo_real_time import check_connector, show_real_time
from foretide.cli.running.demo_report import DEFAULT_REPORT, ReportOption, check_report, write_report
from foretide.cli.running.ending import control_data, show_exactness, show_target, stopped_line
from foretide.cli.running.preflight import (
    SPARK_LOG,
    check_home,
    check_load,
    check_temporary,
    ended_by_signals,
    only_run,
    run_folder,
)
from foretide.control.decisions.explain import summary
from foretide.control.world.setup import Latency
from foretide.errors import EnvironmentNotReadyError
from foretide.reports.plots import BatchRow, Disturbances, PlottedRun, draw_comparison
from foretide.runtime.loop.attach import control
from foretide.settings.load import load_settings
from foretide.spark.executors import driver_pid
from foretide.topology.modes import MICRO_BATCH, REAL_TIME, Mode

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.runtime.loop.controller import Controller


_APP = "url-count"
_SLOWED, _OTHER = "0", "1"
_NAME = "demo-url-count"
_LINE_SECONDS = 4.0
_BUSY_LOOPS = 24
_SURGE = 1.6
_FORECAST_SECONDS = 10.0

_TARGET = Latency(p99="3s")
app = typer.Typer(help="Run a demonstration.", no_args_is_help=True)


@dataclass
class DemoRun:
    """One of the two runs. `stopped` is what is said if `foretide stop` has ended it."""

    name: str
    batches: list[BatchRow]
    decisions: list[tuple[float, str]] = field(default_factory=list)
    forecasts: list[tuple[float, float]] = field(default_factory=list)
    controller: Controller | None = None
    stopped: str | None = None
    verification: Verification | None = None
    target: dict[str, Any] | None = None

    def worst_p99(self, start: float, end: float) -> float | None:
        """The worst p99 of the batches that ended in a part of the run."""
        found = [each.p99 for each in self.batches if each.p99 is not None and start <= each.ended < end]
        return max(found) if found else None


_RATES = {MICRO_BATCH.name: 6_000.0, REAL_TIME.name: 100.0}


@app.command("url-count")
def url_count(
    duration: Annotated[float, DurationOption(show_default="60s", help="Length of the load, at least 20s.")] = 60.0,
    rate: Annotated[
        float | None,
        typer.Option(
            show_default="100, in micro-batch mode 6000", help="Mean rows per second before the surge, at least 100."
        ),
    ] = None,
    plot: PlotOption = Path("foretide-demo.png"),
    report: ReportOption = DEFAULT_REPORT,
    mode: Annotated[
        Mode, typer.Option(help="Real-time mode reads from a Kafka broker of its own; micro-batch mode needs none.")
    ] = "real-time",
    *,
    dashboard: DashboardOption = False,
    as_json: JsonOption = False,
) -> None:
    """Slow an executor down, without control and with it.

    In real-time mode two queries run side by side, one of them under control. In micro-batch mode one runs after the
    other, and the load surges, too. A table, a plot and a report compare them; it takes about two minutes.
    """
    check_load(duration, _RATES[mode] if rate is None else rate, 20, 100)
    check_demo_plot(plot)
    check_report(report)
    check_temporary()
    check_home()
    if not hasattr(os, "sched_setaffinity"):
        raise EnvironmentNotReadyError("this demonstration requires Linux: it gives each executor a core of its own")
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    if mode == REAL_TIME.name and (reason := check_connector()) is not None:
        console.print(f"Real-time mode cannot be shown: {reason}\nMicro-batch mode is shown instead.", style="yellow")
        mode, rate = "micro-batch", None
    rate = _RATES[mode] if rate is None else rate
    if mode == REAL_TIME.name:
        beside = dashboard_beside(dashboard, console.print)
        with ended_by_signals(), only_run(_NAME) as tell, run_folder("demo") as folder, beside:
            exact = show_real_time(duration, rate, (plot, report), folder, tell, console, as_json=as_json)
        if not exact:
            raise typer.Exit(1)
        return
    disturbances = Disturbances(slow_at=duration / 4, surge_at=duration * 2 / 3, end=duration)
    with (
        ended_by_signals(),
        only_run(_NAME) as tell,
        run_folder("demo") as folder,
        dashboard_beside(dashboard, console.print),
        spark_session("local-cluster[2,1,1024]", "foretide-demo", 2, folder / SPARK_LOG, console) as spark,
    ):
        warm_up(spark, find_app(_APP), console, folder, Load(seconds=60.0, rate=rate), short_batches=5)
        cores = _pin_to_cores(spark.sparkContext)
        runs = []
        for name, controlled in (("off", False), ("on", True)):
            tell(folder / name / "checkpoint" / "foretide")
            runs.append(_run(spark, folder / name, disturbances, rate, cores, console, controlled=controlled))
            if runs[-1].stopped is not None:
                break
        write_report({run.name: folder / name for run, name in zip(runs, ("off", "on"), strict=False)}, report, console)
    if plot is not None and len(runs) > 1:  # one that was stopped is compared with nothing
        _draw(runs, disturbances, plot, console)
    if as_json:
        print_json([_to_data(run, disturbances) for run in runs])
    else:
        _conclude(runs, disturbances, console)
    if not all(run.verification is None or run.verification.exact for run in runs):
        raise typer.Exit(1)


def _pin_to_cores(context: Any) -> dict[str, int]:
    """Two cores act as two machines: one executor each, and the driver beside the one that is not slowed."""
    cores = pin_executors(context.applicationId)
    for process in (os.getpid(), driver_pid(context)):
        pin(process, cores[_OTHER])
    return cores


def _run(
    spark: Any,
    folder: Path,
    disturbances: Disturbances,
    rate: float,
    cores: dict[str, int],
    console: Console,
    *,
    controlled: bool,
) -> DemoRun:
    load = Load(disturbances.end, rate, surge=(disturbances.surge_at, _SURGE))
    with AppRun.start(spark, find_app(_APP), load, folder, name=_NAME) as replay:
        run = DemoRun("control on" if controlled else "control off", replay.batches)
        console.rule(f"{run.name}: {APPS[_APP]}, {replay.plan.total_rows:,} rows in {disturbances.end:g} s")
        if controlled:
            run.controller = controller = control(replay.pipeline, target=_TARGET, settings=load_settings(env={}))
            controller.on_decision(lambda decision: _show_decision(decision, run, origin_of(replay.pipeline), console))
        with contextlib.ExitStack() as stack:
            replay.watch(_Turn(replay, run, _events(disturbances, stack, cores, console), console))
        stopped = replay.stop_and_ask()
        run.verification = replay.verify_stopped() if stopped else replay.verify()
        run.stopped = stopped_line(replay.pipeline.last_batch, run.verification) if stopped else None
        run.target = replay.compared_with(_TARGET)
    return run


class _Turn:
    """Causes the disturbances in their time, and prints a line every few seconds."""

    def __init__(
        self,
        replay: AppRun,
        run: DemoRun,
        events: list[tuple[float, Callable[[], None]]],
        console: Console,
    ) -> None:
        self._replay, self._run = replay, run
        self._events, self._console = events, console
        self._shown = 0.0

    def __call__(self) -> None:
        if not self._run.batches:
            return
        elapsed = time.time() - origin_of(self._replay.pipeline)
        while self._events and elapsed >= self._events[0][0]:
            self._events.pop(0)[1]()
        if elapsed >= self._shown + _LINE_SECONDS:
            self._shown = elapsed
            self._console.print(_line(elapsed, self._run) + _forecast(elapsed, self._run))


def _events(
    disturbances: Disturbances, stack: contextlib.ExitStack, cores: dict[str, int], console: Console
) -> list[tuple[float, Callable[[], None]]]:
    def slow() -> None:
        console.print(f">> executor {_SLOWED} is slowed down: {_BUSY_LOOPS} busy loops on its core", style="bold red")
        stack.enter_context(cpu_hog(cores, _SLOWED, _BUSY_LOOPS))

    def surge() -> None:
        console.print(f">> the load surges to {_SURGE:g} times its rate", style="bold red")

    def end() -> None:
        console.print(">> the replay is over; the backlog is processed without the disturbance", style="dim")
        stack.close()

    return [(disturbances.slow_at, slow), (disturbances.surge_at, surge), (disturbances.end, end)]


def _show_decision(decision: Decision, run: DemoRun, origin: float, console: Console) -> None:
    if decision.chosen:
        run.decisions.append((decision.at - origin, summary(decision)))
        console.print(f">> decision {decision.id}: {summary(decision)}", style="bold green", markup=False)


def _line(elapsed: float, run: DemoRun) -> str:
    last = run.batches[-1]
    timed = next((batch for batch in reversed(run.batches) if batch.p99 is not None), last)
    latency = f"latency p50 {timed.p50 or 0:5.2f} s  p99 {timed.p99 or 0:5.2f} s  backlog {last.backlog or 0:7,}"
    return f"t={elapsed:5.1f} s  batch {last.batch:3}  {last.rate:7,.0f} rows/s  {latency}"


def _forecast(elapsed: float, run: DemoRun) -> str:
    """The expected load, and the model that it comes from."""
    controller = run.controller
    forecast = None if controller is None else controller.forecast("arrival_rate", "requests")
    if controller is None or forecast is None:
        return ""
    point = forecast.at(_FORECAST_SECONDS)
    run.forecasts.append((elapsed + point.seconds, point.mean))
    trusted = controller.is_trusted("arrival_rate", "requests", point.seconds)
    trust = "" if trusted else ", not trusted yet"
    return f"  forecast for {point.seconds:g} s: {point.mean:,.0f}/s ({forecast.by}{trust})"


def _parts(disturbances: Disturbances) -> dict[str, tuple[float, float]]:
    slow_at, surge_at, end = disturbances.slow_at, disturbances.surge_at, disturbances.end
    return {
        "before": (slow_at / 3, slow_at),
        "with a slow executor": (slow_at, surge_at),
        "with a surge of the load, too": (surge_at, end),
    }


def _conclude(runs: list[DemoRun], disturbances: Disturbances, console: Console) -> None:
    table = Table("worst p99 latency, seconds", *(run.name for run in runs), title_justify="left")
    for name, (start, end) in _parts(disturbances).items():
        worst = [run.worst_p99(start, end) for run in runs]
        table.add_row(name, *("-" if value is None else f"{value:.2f}" for value in worst))
    found = [run.verification for run in runs]
    lost = ("not compared" if v is None else f"{v.missing + v.surplus}" for v in found)
    table.add_row("rows lost or duplicated", *lost)
    console.print(table)
    for at, text in runs[-1].decisions:
        console.print(f"  t={at:5.1f} s  {text}")
    for run in runs:
        show_target(console, None if run.controller is None else run.controller.record, run.target, run.name)
        if run.stopped is not None:
            console.print(f"{run.name}: {run.stopped}")
    show_exactness(console, found, "No row was lost, in either run.", "Rows differ.")


def _to_data(run: DemoRun, disturbances: Disturbances) -> dict[str, Any]:
    return {
        "run": run.name,
        "worst_p99_seconds": {name: run.worst_p99(*part) for name, part in _parts(disturbances).items()},
        "decisions": [{"at": at, "summary": text} for at, text in run.decisions],
        "stopped": run.stopped is not None,
        "verification": None if run.verification is None else asdict(run.verification),
        "target": run.target,
        "control": None if run.controller is None else control_data(run.controller),
    }


def _draw(runs: list[DemoRun], disturbances: Disturbances, plot: Path, console: Console) -> None:
    plotted = [PlottedRun(run.name, run.batches, [at for at, _ in run.decisions], run.forecasts) for run in runs]
    try:
        draw_comparison(plotted, disturbances, plot, _TARGET.latency)
    except EnvironmentNotReadyError as error:
        console.print(f"no plot: {error}")
    else:
        console.print(f"plot: {plot}")


app.command()(join)
app.command()(foresight)
