"""The demonstration in real-time mode: an executor is slowed down, without control and with it."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from foretide.apps.app import App, Load, find_app
from foretide.apps.experiment import Verification, cpu_hog, pin_executors
from foretide.cli.console import Console, print_json
from foretide.cli.running.application import spark_session, target_verdict
from foretide.cli.running.preflight import SPARK_LOG
from foretide.cli.running.real_time import RealTimeRun, introduction, line, real_time_of, warm_up
from foretide.control.decisions.explain import summary
from foretide.control.world.setup import Latency
from foretide.errors import EnvironmentNotReadyError
from foretide.reports import LatencyRun, draw_latencies
from foretide.runtime.loop.attach import control
from foretide.settings.load import load_settings
from foretide.spark.jars import KAFKA_BROKER, KAFKA_CONNECTOR, jars_of
from foretide.spark.kafka_broker import Broker, admin_client
from foretide.spark.versions import REAL_TIME, check_has
from foretide.topology.graph import Bolt, Native

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretide.control.decisions.decision import Decision
    from foretide.topology.graph import Topology
    from foretide.topology.sources import Source

_APP, _NAME = "url-count", "demo-url-count"
_MASTER = "local-cluster[2,16,1024]"
_SLOWED = "0"
_BUSY_LOOPS = 32
_LINE_SECONDS = 2.0
_WORK = "sha2(repeat(url, 12000), 256) >= ''"
"""About half a millisecond for each tuple; always true."""

_SETTLED_SECONDS = 6.0
_TARGET = Latency(p99="100ms")
_LEVELS = {"p50": 0.5, "p99": 0.99}


@dataclass
class DemoRun:
    """One of the two runs: its latencies in milliseconds by part, and what was decided."""

    name: str
    run: RealTimeRun
    decisions: list[tuple[float, str]] = field(default_factory=list)
    verification: Verification | None = None
    target: dict[str, Any] | None = None

    def latencies(self, parts: dict[str, tuple[float, float]]) -> dict[str, dict[str, float | None]]:
        """p50 and p99 of each part of the run."""
        found = {
            name: {"p50": self.run.latency(0.5, *part), "p99": self.run.latency(0.99, *part)}
            for name, part in parts.items()
        }
        return {
            name: {level: None if value is None else value * 1000 for level, value in each.items()}
            for name, each in found.items()
        }


def check_connector() -> str | None:
    """Why real-time mode cannot be shown; None if it can."""
    try:
        check_has(REAL_TIME)
        admin_client("localhost:1")
        for library in (KAFKA_CONNECTOR, KAFKA_BROKER):
            jars_of(library)
    except EnvironmentNotReadyError as error:
        return str(error)
    return None


def show_real_time(
    duration: float,
    rate: float,
    plot: Path | None,
    folder: Path,
    tell: Callable[[Path], None],
    console: Console,
    *,
    as_json: bool,
) -> bool:
    """Run without control and with it, print a table and draw a plot; whether both outputs are exact."""
    slow_at, parts = duration / 4, _parts(duration)
    console.print("Starting a Kafka broker ...")
    with (
        Broker(folder / "kafka") as broker,
        spark_session(_MASTER, "foretide-demo", 2, folder / SPARK_LOG, console, "real-time") as spark,
    ):
        settings = load_settings(env={})
        app = _with_work(find_app(_APP))
        warm_up(spark, app, broker.address, folder, settings.to_run(), console)
        cores = pin_executors(spark.sparkContext.applicationId)  # two cores act as two machines
        runs = []
        for name in ("control off", "control on"):
            part = folder / name.replace(" ", "-")
            tell(part / "checkpoint" / "foretide")
            load = Load(duration, rate)
            with RealTimeRun.start(spark, app, load, part, settings.to_run(), broker.address, _NAME) as run:
                made = DemoRun(name, run)
                console.rule(name)
                console.print(introduction(run))
                if name == "control on":
                    controller = control(run.pipeline, target=_TARGET, settings=settings)
                    controller.on_decision(partial(_note, made, console))
                with contextlib.ExitStack() as stack:
                    run.watch(_Turn(run, slow_at, stack, cores, console))
                run.stop()
                made.verification, made.target = run.verify(), run.compared_with(_TARGET)
            runs.append(made)
    if plot is not None:
        _draw(runs, slow_at, plot, console)
    if as_json:
        print_json([_to_data(each, parts) for each in runs])
    else:
        _conclude(runs, parts, console)
    return all(each.verification is not None and each.verification.exact for each in runs)


def _with_work(app: App) -> App:
    """The application with more work on each tuple behind the edge, so that a slow executor is felt there."""
    form = real_time_of(app)

    def build(source: Source) -> Topology:
        topology = form.build(source)
        edge = topology.component(app.edge)
        assert isinstance(edge, Bolt)  # noqa: S101 - applications say which of their edges is split
        assert isinstance(edge.operator, Native)  # noqa: S101
        work = edge.operator.work
        heavy = replace(edge, work=Native(lambda rows: work(rows).where(_WORK)))
        return replace(topology, bolts=[heavy if bolt is edge else bolt for bolt in topology.bolts])

    return replace(app, real_time=replace(form, build=build))


def _parts(duration: float) -> dict[str, tuple[float, float]]:
    slow_at = duration / 4
    return {
        "before": (_SETTLED_SECONDS, slow_at),
        "the first 2 s with a slow executor": (slow_at, slow_at + 2),
        "after that": (slow_at + 2, duration),
    }


def _note(made: DemoRun, console: Console, decision: Decision) -> None:
    if decision.chosen:
        made.decisions.append((decision.at - made.run.origin, summary(decision)))
        console.print(f">> decision {decision.id}: {summary(decision)}", style="bold green", markup=False)


class _Turn:
    """Slows the executor down in its time, and prints a line every other second."""

    def __init__(
        self, run: RealTimeRun, slow_at: float, stack: contextlib.ExitStack, cores: dict[str, int], console: Console
    ) -> None:
        self._run, self._slow_at, self._stack, self._cores, self._console = run, slow_at, stack, cores, console
        self._slowed, self._shown = False, 0.0

    def __call__(self, elapsed: float) -> None:
        run = self._run
        if not self._slowed and elapsed >= self._slow_at:
            self._slowed = True
            text = f">> executor {_SLOWED} is slowed down: {_BUSY_LOOPS} busy loops on its core"
            self._console.print(text, style="bold red")
            self._stack.enter_context(cpu_hog(self._cores, _SLOWED, _BUSY_LOOPS))
        if run.seconds and run.seconds[-1].at >= self._shown + _LINE_SECONDS:
            self._shown = run.seconds[-1].at
            self._console.print(line(run.seconds[-1], run.edge))


def _conclude(runs: list[DemoRun], parts: dict[str, tuple[float, float]], console: Console) -> None:
    table = Table("latency of results, ms: p50 / p99", *(each.name for each in runs), title_justify="left")
    found = [each.latencies(parts) for each in runs]
    for name in parts:
        table.add_row(name, *(f"{_shown(each[name]['p50'])} / {_shown(each[name]['p99'])}" for each in found))
    checks = [each.verification for each in runs]
    table.add_row("results missing or wrong", *("unknown" if v is None else f"{v.missing + v.surplus}" for v in checks))
    console.print(table)
    for at, text in runs[-1].decisions:
        console.print(f"  t={at:5.1f} s  {text}", markup=False)
    for each in runs:
        if each.target is not None:
            console.print(f"{each.name}: {target_verdict(**each.target)}")
    exact = all(v is not None and v.exact for v in checks)
    text = "No tuple was lost or counted twice, in either run." if exact else "The results differ."
    console.print(text, style="bold green" if exact else "bold red")


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _to_data(made: DemoRun, parts: dict[str, tuple[float, float]]) -> dict[str, Any]:
    return {
        "run": made.name,
        "latency_ms": made.latencies(parts),
        "decisions": [{"at": at, "summary": text} for at, text in made.decisions],
        "verification": None if made.verification is None else asdict(made.verification),
        "target": made.target,
    }


def _draw(runs: list[DemoRun], slow_at: float, plot: Path, console: Console) -> None:
    plotted = [LatencyRun(each.name, each.run.by_second(), [at for at, _ in each.decisions]) for each in runs]
    try:
        draw_latencies(plotted, slow_at, (_TARGET.latency or 0.0) * 1000, plot)
    except EnvironmentNotReadyError as error:
        console.print(f"no plot: {error}")
    else:
        console.print(f"plot: {plot}")
