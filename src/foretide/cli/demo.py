"""`foretide demo url-count|join`: what control does, shown live.

`url-count` slows an executor and lets the load surge, without control and with it, side by side. `join` joins taxi
orders with vehicle positions; hot cells are found and split while it runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from foretide.apps.app import APPS, Load, find_app
from foretide.apps.experiment import Verification, cpu_hog, origin_of, pin, pin_executors
from foretide.apps.taxi_join import City, build
from foretide.cli.console import DurationOption, JsonOption, PlotOption, check_at_least
from foretide.cli.run import AppRun, spark_session, warm_up
from foretide.control.decisions.explain import summary
from foretide.control.policies.hot_keys import HotKeySettings
from foretide.control.world.setup import Latency
from foretide.control_folder.folder import ControlFolder
from foretide.errors import EnvironmentNotReadyError
from foretide.joins.settings import WindowSettings
from foretide.reports import BatchRow, Disturbances, PlottedRun, draw_comparison
from foretide.runtime.loop.attach import control
from foretide.settings.load import load_settings
from foretide.settings.settings import Settings
from foretide.spark.executors import driver_pid

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.runtime.loop.controller import Controller


_APP = "url-count"
_SLOWED, _OTHER = "0", "1"
_LINE_SECONDS, _JOIN_LINE_SECONDS = 4.0, 5.0
_BUSY_LOOPS = 24
_SURGE = 1.6
_FORECAST_SECONDS = 10.0

app = typer.Typer(help="Run a demonstration.", no_args_is_help=True)


@dataclass
class DemoRun:
    """One of the two runs."""

    name: str
    batches: list[BatchRow]
    decisions: list[tuple[float, str]] = field(default_factory=list)
    forecasts: list[tuple[float, float]] = field(default_factory=list)
    verification: Verification | None = None

    def worst_p99(self, start: float, end: float) -> float | None:
        """The worst p99 of the batches that ended in a part of the run."""
        found = [each.p99 for each in self.batches if each.p99 is not None and start <= each.ended < end]
        return max(found) if found else None


@app.command("url-count")
def url_count(
    duration: Annotated[
        float, DurationOption(show_default="48s", help="Length of each of the two runs, at least 20s.")
    ] = 48.0,
    rate: Annotated[float, typer.Option(min=100, help="Mean rows per second before the surge.")] = 6_000.0,
    plot: PlotOption = Path("foretide-demo.png"),
    *,
    as_json: JsonOption = False,
) -> None:
    """Slow an executor down and let the load surge, without control and with it.

    Both runs take about two minutes together. A table and a plot compare their latencies.
    """
    check_at_least(20, duration)
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    disturbances = Disturbances(slow_at=duration / 4, surge_at=duration * 2 / 3, end=duration)
    log_file = Path(tempfile.gettempdir()) / "foretide-demo-spark.log"
    with spark_session("local-cluster[2,1,1024]", "foretide-demo", 2, log_file, console) as spark:
        warm_up(spark, find_app(_APP), console, Load(seconds=60.0, rate=rate), short_batches=5)
        cores = _pin_to_cores(spark.sparkContext)
        with tempfile.TemporaryDirectory(prefix="foretide-demo-") as folder:
            runs = [
                _run(spark, Path(folder) / name, disturbances, rate, cores, console, controlled=controlled)
                for name, controlled in (("off", False), ("on", True))
            ]
    if plot is not None:
        _draw(runs, disturbances, plot, console)
    if as_json:
        typer.echo(json.dumps([_to_data(run, disturbances) for run in runs]))
    else:
        _conclude(runs, disturbances, console)
    if not all(run.verification and run.verification.exact for run in runs):
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
    replay = AppRun.start(spark, find_app(_APP), load, folder)
    run = DemoRun("control on" if controlled else "control off", replay.batches)
    console.rule(f"{run.name}: {APPS[_APP]}, {replay.plan.total_rows:,} rows in {disturbances.end:g} s")
    controller = None
    if controlled:
        controller = control(replay.pipeline, target=Latency(p99="3s"), settings=load_settings(env={}))
        controller.on_decision(lambda decision: _show_decision(decision, run, origin_of(replay.pipeline), console))
    with contextlib.ExitStack() as stack:
        replay.watch(_Turn(replay, run, controller, _events(disturbances, stack, cores, console), console))
    replay.stop()
    run.verification = replay.verify()
    return run


class _Turn:
    """Causes the disturbances in their time, and prints a line every few seconds."""

    def __init__(
        self,
        replay: AppRun,
        run: DemoRun,
        controller: Controller | None,
        events: list[tuple[float, Callable[[], None]]],
        console: Console,
    ) -> None:
        self._replay, self._run, self._controller = replay, run, controller
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
            self._console.print(_line(elapsed, self._run) + _forecast(elapsed, self._run, self._controller))


def _events(
    disturbances: Disturbances, stack: contextlib.ExitStack, cores: dict[str, int], console: Console
) -> list[tuple[float, Callable[[], None]]]:
    def slow() -> None:
        console.print(f"[bold red]>> executor {_SLOWED} is slowed down: {_BUSY_LOOPS} busy loops on its core[/]")
        stack.enter_context(cpu_hog(cores, _SLOWED, _BUSY_LOOPS))

    def surge() -> None:
        console.print(f"[bold red]>> the load surges to {_SURGE:g} times its rate[/]")

    def end() -> None:
        console.print("[dim]>> the replay is over; the backlog is processed without the disturbance[/]")
        stack.close()

    return [(disturbances.slow_at, slow), (disturbances.surge_at, surge), (disturbances.end, end)]


def _show_decision(decision: Decision, run: DemoRun, origin: float, console: Console) -> None:
    if decision.chosen:
        run.decisions.append((decision.at - origin, summary(decision)))
        console.print(f"[bold green]>> decision {decision.id}: {summary(decision)}[/]")


def _line(elapsed: float, run: DemoRun) -> str:
    last = run.batches[-1]
    timed = next((batch for batch in reversed(run.batches) if batch.p99 is not None), last)
    latency = f"latency p50 {timed.p50 or 0:5.2f} s  p99 {timed.p99 or 0:5.2f} s  backlog {last.backlog or 0:7,}"
    return f"t={elapsed:5.1f} s  batch {last.batch:3}  {last.rate:7,.0f} rows/s  {latency}"


def _forecast(elapsed: float, run: DemoRun, controller: Controller | None) -> str:
    """The expected load, and the model that it comes from."""
    forecast = None if controller is None else controller.forecast("arrival_rate", "requests")
    if forecast is None:
        return ""
    point = forecast.at(_FORECAST_SECONDS)
    run.forecasts.append((elapsed + point.seconds, point.mean))
    trust = "" if forecast.may_vote else ", not trusted yet"
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
    table.add_row("rows lost or duplicated", *("unknown" if v is None else f"{v.missing + v.surplus}" for v in found))
    console.print(table)
    for at, text in runs[-1].decisions:
        console.print(f"  t={at:5.1f} s  {text}")
    exact = all(each and each.exact for each in found)
    console.print("[bold green]No row was lost, in either run.[/]" if exact else "[bold red]Rows differ.[/]")


def _to_data(run: DemoRun, disturbances: Disturbances) -> dict[str, Any]:
    return {
        "run": run.name,
        "worst_p99_seconds": {name: run.worst_p99(*part) for name, part in _parts(disturbances).items()},
        "decisions": [{"at": at, "summary": text} for at, text in run.decisions],
        "verification": None if run.verification is None else asdict(run.verification),
    }


def _draw(runs: list[DemoRun], disturbances: Disturbances, plot: Path, console: Console) -> None:
    plotted = [PlottedRun(run.name, run.batches, [at for at, _ in run.decisions], run.forecasts) for run in runs]
    try:
        draw_comparison(plotted, disturbances, plot)
    except EnvironmentNotReadyError as error:
        console.print(f"no plot: {error}")
    else:
        console.print(f"plot: {plot}")


@app.command()
def join(
    duration: Annotated[float, DurationOption(show_default="60s", help="Length of the replay, at least 10s.")] = 60.0,
    orders: Annotated[float, typer.Option(min=1, help="Mean orders per second; twice as many positions.")] = 400.0,
    zipf: Annotated[float, typer.Option(min=0, max=3, help="Skew of the cells of the map: Zipf's exponent.")] = 1.6,
    partitions: Annotated[int, typer.Option(min=2, help="Partitions of the join.")] = 4,
    master: Annotated[str, typer.Option(help="Master URL of Spark.")] = "local[2]",
    *,
    as_json: JsonOption = False,
) -> None:
    """Join taxi orders with vehicle positions by cell.

    Hot cells move, and the control loop splits them while the join runs.
    """
    check_at_least(10, duration)
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    city = City(seconds=duration, orders=orders, positions=2 * orders, zipf=zipf, move_every=duration)
    log_file = Path(tempfile.gettempdir()) / "foretide-join-spark.log"
    with (
        tempfile.TemporaryDirectory(prefix="foretide-join-") as folder,
        spark_session(master, "foretide-join", partitions, log_file, console) as spark,
    ):
        found = _run_join(spark, city, Path(folder), console)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        console.print(_conclusion(found))


def _run_join(spark: Any, city: City, place: Path, console: Console) -> dict[str, Any]:
    folder = ControlFolder(str(place / "checkpoint" / "foretide"))
    joined = build(spark, city, folder)
    output = place / "output"
    writer = joined.writeStream.queryName("taxi-join").format("parquet").option("path", str(output))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(processingTime="1 second").start()
    hot_keys = HotKeySettings(windows=WindowSettings(5.0), min_saving=0.0)  # few rows: balance is what is shown
    settings = Settings(policies={"hot_keys": hot_keys})
    controller = control(query, ["hot_keys"], settings=settings, control_folder=folder.location)
    decisions: list[str] = []

    def show(decision: Decision) -> None:
        if decision.chosen:
            decisions.append(summary(decision))
            console.print(f"[bold green]>> decision {decision.id}: {decisions[-1]}[/]")

    controller.on_decision(show)
    imbalance = _watch(query, controller, city.seconds, console)
    query.stop()
    controller.stop()
    rows = spark.read.schema(joined.schema).parquet(str(output)).count() if output.exists() else 0
    return {"imbalance": imbalance, "decisions": decisions, "rows": rows}


def _watch(query: Any, controller: Controller, seconds: float, console: Console) -> list[tuple[float, float]]:
    """Print the load imbalance (LI) of the partitions every few seconds, and return it."""
    found: list[tuple[float, float]] = []
    start = time.monotonic()
    while query.isActive and time.monotonic() < start + seconds + _JOIN_LINE_SECONDS:
        time.sleep(_JOIN_LINE_SECONDS)
        view = controller.joins.get("join")
        if view is None or view.imbalance is None:
            continue
        elapsed = time.monotonic() - start
        found.append((round(elapsed, 1), round(view.imbalance, 3)))
        measured = "" if view.measured_imbalance is None else f" ({view.measured_imbalance:.2f} by rows of tasks)"
        cells, batch = len(view.plan.grids), query.lastProgress.batchId
        console.print(f"t={elapsed:5.1f} s  LI {view.imbalance:5.2f}{measured}  {cells} cells placed  batch {batch}")
    if query.exception():
        raise query.exception()
    return found


def _conclusion(found: dict[str, Any]) -> str:
    values = [value for _, value in found["imbalance"]]
    if not values:
        return "No window of keys was complete; use a longer --duration."
    third = max(1, len(values) // 3)
    first, last = max(values[: (len(values) + 1) // 2]), sum(values[-third:]) / third
    return f"LI was {first:.2f} at first and {last:.2f} at the end; {found['rows']:,} rows were joined."
