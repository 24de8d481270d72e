"""`foretide demo`: the product's story. A slow executor and a surge, without control and with it, side by side."""

from __future__ import annotations

import contextlib
import json
import logging
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

from foretide.apps.app import Load
from foretide.apps.disturbance import cpu_hog, pin, pin_executors
from foretide.apps.registry import APPS, find_app
from foretide.apps.verify import Verification, is_over, origin_of, replay_of, verify
from foretide.cli.pipelines import JsonOption
from foretide.cli.run.run import warm_up
from foretide.cli.run.view import BatchRow, sample_of
from foretide.cli.spark_log import spark_log
from foretide.control.decisions.explain import summary
from foretide.control.world.latency import Latency
from foretide.runtime.loop.attach import control
from foretide.runtime.pipeline.submit import Pipeline, submit
from foretide.settings.load import load_settings
from foretide.spark.executors.listing import driver_pid
from foretide.spark.session import session
from foretide.topology.sinks import Parquet

if TYPE_CHECKING:
    from foretide.control.decisions.decision import Decision
    from foretide.runtime.loop.controller import Controller
    from foretide.spark.sources.replay import ReplayPlan

_APP = "url-count"
_VICTIM, _NEIGHBOUR = "0", "1"
_EVERY = 4.0
_GRACE = 90.0
_LOOPS = 24


@dataclass
class Run:
    """What one of the two runs showed."""

    name: str
    samples: list[BatchRow] = field(default_factory=list)
    decisions: list[tuple[float, str]] = field(default_factory=list)
    foreseen: list[tuple[float, float]] = field(default_factory=list)
    verdict: Verification | None = None

    def p99(self, since: float, until: float) -> float | None:
        """The worst p99 of the batches that ended in a part of the run."""
        found = [s.p99 for s in self.samples if s.p99 is not None and since <= s.ended < until]
        return max(found) if found else None


@dataclass(frozen=True)
class Script:
    """What happens when, in seconds of the replay."""

    seconds: float
    slow_at: float
    surge_at: float
    surge: float

    @property
    def parts(self) -> dict[str, tuple[float, float]]:
        """The parts of the run."""
        return {
            "all is well": (self.slow_at / 3, self.slow_at),
            "an executor is slow": (self.slow_at, self.surge_at),
            "and the load surges": (self.surge_at, self.seconds),
        }


def demo(
    seconds: Annotated[float, typer.Option(min=20, help="Length of each of the two runs.")] = 48.0,
    rate: Annotated[float, typer.Option(min=100, help="Mean rows a second before the surge.")] = 6_000.0,
    picture: Annotated[Path | None, typer.Option(help="Where the picture goes (needs the extra 'plot').")] = Path(
        "foretide-demo.png"
    ),
    *,
    as_json: JsonOption = False,
) -> None:
    """Slow an executor down and let the load surge, without control and with it.

    Both runs take about two minutes together. A table and a plot compare their latencies.
    """
    logging.getLogger("foretide").addHandler(logging.NullHandler())
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    script = Script(seconds, slow_at=seconds / 4, surge_at=seconds * 2 / 3, surge=1.6)
    console.print("Starting Spark with two executors ...")
    with spark_log(Path(tempfile.gettempdir()) / "foretide-demo-spark.log"):
        spark = session("local-cluster[2,1,1024]", "foretide-demo", {"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    console.print("Warming up ...")
    warm_up(spark, find_app(_APP), Load(seconds=60.0, rate=rate), short_batches=5)
    pinned = _as_two_machines(spark.sparkContext)
    with tempfile.TemporaryDirectory(prefix="foretide-demo-") as folder:
        runs = [
            _run(spark, Path(folder) / name, script, rate, pinned, console, controlled=controlled)
            for name, controlled in (("off", False), ("on", True))
        ]
    spark.stop()
    if picture is not None:
        _draw(runs, script, picture, console)
    if as_json:
        typer.echo(json.dumps([_as_data(run, script) for run in runs]))
    else:
        _conclude(runs, script, console)
    if not all(run.verdict and run.verdict.exact for run in runs):
        raise typer.Exit(1)


def _as_two_machines(context: Any) -> dict[str, int]:
    """Two cores play two machines: an executor each, and the driver beside the one that is left alone."""
    pinned = pin_executors(context.applicationId)
    for process in (os.getpid(), driver_pid(context)):
        pin(process, pinned[_NEIGHBOUR])
    return pinned


def _run(
    spark: Any, folder: Path, script: Script, rate: float, pinned: dict[str, int], console: Console, *, controlled: bool
) -> Run:
    app = find_app(_APP)
    load = Load(script.seconds, rate, surge=(script.surge_at, script.surge))
    topology = app.build(load)
    plan = replay_of(topology)
    run = Run("control on" if controlled else "control off")
    console.rule(f"{run.name}: {APPS[app.name]}, {plan.total_rows:,} rows in {script.seconds:g} s")
    pipeline = submit(spark, topology, Parquet(str(folder / "output")), str(folder / "checkpoint"))
    pipeline.on_report(lambda report, alarms: run.samples.append(sample_of(report, alarms, plan, app.edge)))
    controller = control(pipeline, target=Latency(p99="3s"), settings=load_settings(env={})) if controlled else None
    _watch(pipeline, controller, run, script, plan, pinned, console)
    pipeline.stop()
    pipeline.raise_failure()
    run.verdict = verify(pipeline, plan, app.result, lambda rows: app.truth(rows, load))
    return run


def _watch(
    pipeline: Pipeline,
    controller: Controller | None,
    run: Run,
    script: Script,
    plan: ReplayPlan,
    pinned: dict[str, int],
    console: Console,
) -> None:
    """Play the script: say what happens, and what the control loop makes of it."""
    begun: float | None = None
    latest, shown = time.time() + script.seconds + _GRACE, 0.0
    if controller is not None:
        controller.on_decision(lambda decision: _tell(decision, run, origin_of(pipeline), console))
    with contextlib.ExitStack() as stack:
        events = _events(script, stack, pinned, console)
        while pipeline.running and not is_over(pipeline, plan) and time.time() < latest:
            time.sleep(0.1)
            if not pipeline.reports:
                continue
            begun = begun or origin_of(pipeline)
            elapsed = time.time() - begun
            while events and elapsed >= events[0][0]:
                events.pop(0)[1]()
            if run.samples and elapsed >= shown + _EVERY:
                shown = elapsed
                console.print(_line(elapsed, run, controller))


def _events(
    script: Script, stack: contextlib.ExitStack, pinned: dict[str, int], console: Console
) -> list[tuple[float, Callable[[], None]]]:
    def slow() -> None:
        console.print(f"[bold red]>> executor {_VICTIM} is slowed down: {_LOOPS} busy loops on its core[/]")
        stack.enter_context(cpu_hog(pinned, _VICTIM, _LOOPS))

    def surge() -> None:
        console.print(f"[bold red]>> the load surges, {script.surge:g} times as high[/]")

    def end() -> None:
        console.print("[dim]>> the replay is over; what waits is worked off without the disturbance[/]")
        stack.close()

    return [(script.slow_at, slow), (script.surge_at, surge), (script.seconds, end)]


def _tell(decision: Decision, run: Run, begun: float, console: Console) -> None:
    if decision.chosen:
        run.decisions.append((decision.at - begun, summary(decision)))
        console.print(f"[bold green]>> decision {decision.id}: {summary(decision)}[/]")


def _line(elapsed: float, run: Run, controller: Controller | None) -> str:
    last = run.samples[-1]
    timed = next((sample for sample in reversed(run.samples) if sample.p99 is not None), last)
    rows = f"{last.rows / last.seconds if last.seconds else 0:7,.0f} rows/s"
    latency = f"latency p50 {timed.p50 or 0:5.2f} s  p99 {timed.p99 or 0:5.2f} s  backlog {last.backlog or 0:7,}"
    return f"t={elapsed:5.1f} s  batch {last.batch:3}  {rows}  {latency}{_foreseen(elapsed, run, controller)}"


def _foreseen(elapsed: float, run: Run, controller: Controller | None) -> str:
    """The load that is expected, and by which model."""
    outlook = None if controller is None else controller.outlook("arrival_rate", "requests")
    if outlook is None:
        return ""
    point = outlook.at(10.0)
    run.foreseen.append((elapsed + point.seconds, point.mean))
    vote = "" if outlook.may_vote else ", no vote yet"
    return f"  foreseen in {point.seconds:g} s: {point.mean:,.0f}/s ({outlook.by}{vote})"


def _conclude(runs: list[Run], script: Script, console: Console) -> None:
    table = Table("worst p99 latency, seconds", *(run.name for run in runs), title_justify="left")
    for name, (since, until) in script.parts.items():
        table.add_row(name, *(_seconds(run.p99(since, until)) for run in runs))
    table.add_row("rows lost or doubled", *(_exactness(run) for run in runs))
    console.print(table)
    for at, says in runs[-1].decisions:
        console.print(f"  t={at:5.1f} s  {says}")
    exact = all(run.verdict and run.verdict.exact for run in runs)
    console.print("[bold green]Nothing was lost, in either run.[/]" if exact else "[bold red]Rows differ.[/]")


def _exactness(run: Run) -> str:
    return "not known" if run.verdict is None else f"{run.verdict.missing + run.verdict.surplus}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _as_data(run: Run, script: Script) -> dict[str, Any]:
    return {
        "run": run.name,
        "worst_p99_seconds": {name: run.p99(*span) for name, span in script.parts.items()},
        "decisions": [{"at": at, "says": says} for at, says in run.decisions],
        "verdict": None if run.verdict is None else asdict(run.verdict),
    }


def _draw(runs: list[Run], script: Script, picture: Path, console: Console) -> None:
    from foretide.cli.run.demo_plot import draw_demo  # noqa: PLC0415 - matplotlib is an extra
    from foretide.errors import EnvironmentNotReadyError  # noqa: PLC0415

    try:
        draw_demo(runs, script, picture)
    except EnvironmentNotReadyError as error:
        console.print(f"no picture: {error}")
    else:
        console.print(f"picture: {picture}")
