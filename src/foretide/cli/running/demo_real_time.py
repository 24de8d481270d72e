"""The demonstration in real-time mode: two queries side by side, one with control, while an executor is slowed down.

They share executors and run at the same time, so that whatever else disturbs the machine disturbs both.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from foretide.apps.app import App, Load, find_app
from foretide.apps.experiment import Verification, cpu_hog, pin_executors
from foretide.cli.console import Console, print_json
from foretide.cli.running.application import spark_session
from foretide.cli.running.demo_report import write_report
from foretide.cli.running.ending import control_data, show_exactness, show_target, stopped_line
from foretide.cli.running.kafka_results import verify, verify_stopped
from foretide.cli.running.kafka_run import Brokers, KafkaRun, introduction, real_time_of, warm_up, watch
from foretide.cli.running.preflight import SPARK_LOG
from foretide.control.decisions.explain import summary
from foretide.control.world.setup import Latency
from foretide.errors import EnvironmentNotReadyError
from foretide.formatting import format_duration
from foretide.reports.plots import LatencyRun, draw_latencies
from foretide.runtime.loop.attach import control
from foretide.settings.load import load_settings
from foretide.spark.jars import KAFKA_BROKER, KAFKA_CONNECTOR, jars_of
from foretide.spark.kafka_broker import Broker, admin_client
from foretide.spark.versions import REAL_TIME, check_has
from foretide.topology.graph import Bolt, Native
from foretide.workloads.curve import Curve

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretide.control.decisions.decision import Decision
    from foretide.runtime.loop.controller import Controller
    from foretide.topology.graph import Topology
    from foretide.topology.sources import Source

_APP, _NAME = "url-count", "demo-url-count"
_PLAIN_NAME = f"{_NAME}-without-control"
_MASTER = "local-cluster[2,32,1024]"
_SLOWED = "0"
_BUSY_LOOPS = 32
_LINE_SECONDS = 2.0
_ROUNDS = 8
_MAX_WARM_UP_RATE = 200.0
"""Two cores can do this with the work on each tuple."""

_LEAD_SECONDS, _REACTION_SECONDS = 8.0, 5.0
"""What comes before is left out: while both runs start, Java compiles and Python imports on the same cores."""

BEFORE, AFTER = "before", "after that"
_TASKS_SECONDS = 60.0
_TARGET = Latency(p99="100ms")
_TARGET_MS = 100.0
_LEVELS = {"p50": 0.5, "p99": 0.99}


@dataclass
class DemoRun:
    """One of the two runs, and what was decided.

    Attributes:
        slowed: When the executor was slowed, in seconds since 1970; 0 before that.
        stopped: What is said if `foretide stop` has ended it.
    """

    name: str
    run: KafkaRun
    slowed: float = 0.0
    decisions: list[tuple[float, str]] = field(default_factory=list)
    controller: Controller | None = None
    stopped: str | None = None
    verification: Verification | None = None
    target: dict[str, Any] | None = None

    def end(self) -> None:
        """Stop it, and compare its results; those of a run that was stopped before, with the rows that it took."""
        stopped = not self.run.pipeline.running
        self.run.stop()
        self.verification = verify_stopped(self.run) if stopped else verify(self.run)
        self.stopped = stopped_line(self.run.pipeline.last_batch, self.verification) if stopped else None
        self.target = self.run.results.compared_with(_TARGET)

    def latencies(self) -> dict[str, dict[str, float | None]]:
        """p50 and p99 of each part of the run, in milliseconds."""
        slow_at = self.slowed - self.run.origin if self.slowed else float("inf")
        parts = {
            BEFORE: (_LEAD_SECONDS, slow_at),
            f"first {_REACTION_SECONDS:g} s with a slow executor": (slow_at, slow_at + _REACTION_SECONDS),
            AFTER: (slow_at + _REACTION_SECONDS, float("inf")),
        }
        found = {
            name: {level: self.run.results.quantile(share, *part) for level, share in _LEVELS.items()}
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
    files: tuple[Path | None, Path | None],
    folder: Path,
    tell: Callable[[Path], None],
    console: Console,
    *,
    as_json: bool,
) -> bool:
    """Run without control and with it at once, and compare them; whether both outputs are exact.

    `files` are those of the plot and of the report, None for one that is not wanted.
    """
    plot, report = files
    console.print("Starting a Kafka broker ...")
    with (
        Broker(folder / "kafka") as broker,
        spark_session(_MASTER, "foretide-demo", 2, folder / SPARK_LOG, console, "real-time") as spark,
    ):
        settings = load_settings(env={})
        app = _with_work(find_app(_APP))
        brokers = Brokers(broker.address)
        warm_up(spark, app, brokers, folder, settings.to_run(), console, rate=min(rate, _MAX_WARM_UP_RATE))
        cores = pin_executors(spark.sparkContext.applicationId)  # two cores act as two machines
        tell(folder / "with-control" / "checkpoint" / "foretide")
        with contextlib.ExitStack() as stack:
            start = partial(_start, spark, app, Load(_LEAD_SECONDS + duration, rate), folder, brokers, stack)
            plain, controlled = (
                DemoRun("without control", start(_PLAIN_NAME, "without-control")),
                DemoRun("with control", start(_NAME, "with-control")),
            )
            runs = [plain, controlled]
            console.print(introduction(controlled.run), "Two queries do this side by side; one is under control.")
            controller = control(
                controlled.run.pipeline, target=_TARGET, settings=settings, min_executors=2, max_executors=2
            )
            controlled.controller = controller
            controller.on_decision(partial(_note, controlled, console))
            turn = _Turn(runs, _LEAD_SECONDS + duration / 4, cores, console)
            stack.callback(turn.end)
            watch([each.run for each in runs], turn, turn.end)
            for each in runs:
                each.end()
        write_report({each.name: folder / each.name.replace(" ", "-") for each in runs}, report, console)
    if plot is not None:
        _draw(runs, plot, console)
    if as_json:
        print_json([_to_data(each) for each in runs])
    else:
        _conclude(runs, console)
    return all(each.verification is None or each.verification.exact for each in runs)


def _start(
    spark: Any, app: App, load: Load, folder: Path, brokers: Brokers, stack: contextlib.ExitStack, name: str, part: str
) -> KafkaRun:
    """Start one of the two queries. One of Spark's batches lasts longer than the load.

    The executors that get no more tasks are those of the application. A batch that ended earlier would thus let the
    query without control profit from the decisions for the other one.
    """
    settings = replace(load_settings(env={}).to_run(), batch=f"{2 * load.seconds + _TASKS_SECONDS:.0f} seconds")
    curve = Curve.constant(load.rate, load.seconds)  # so that what is seen is the work of the busy loops
    run = KafkaRun.start(spark, app, load, folder / part, settings, brokers, name, curve=curve)
    return stack.enter_context(run)


def _with_work(app: App) -> App:
    """The application with more work on each tuple behind the edge, so that a slow executor is felt there."""
    form = real_time_of(app)

    def build(source: Source) -> Topology:
        topology = form.build(source)
        edge = topology.component(app.edge)
        assert isinstance(edge, Bolt)  # noqa: S101 - applications say which of their edges is split
        assert isinstance(edge.operator, Native)  # noqa: S101
        work = edge.operator.work
        heavy = replace(edge, work=Native(lambda rows: work(rows).where(_work())))
        return replace(topology, bolts=[heavy if bolt is edge else bolt for bolt in topology.bolts])

    return replace(app, real_time=replace(form, build=build))


def _work() -> str:
    """A condition that is always true, and takes some milliseconds."""
    hashed = "url"
    for _ in range(_ROUNDS):
        hashed = f"sha2(repeat({hashed}, 6000), 256)"
    return f"{hashed} >= ''"


def _note(made: DemoRun, console: Console, decision: Decision) -> None:
    if decision.chosen:
        made.decisions.append((decision.at - made.run.origin, summary(decision)))
        console.print(f">> decision {decision.id}: {summary(decision)}", style="bold green", markup=False)


class _Turn:
    """Slows the executor down in its time, and prints a line every other second."""

    def __init__(self, runs: list[DemoRun], slow_at: float, cores: dict[str, int], console: Console) -> None:
        self._runs, self._slow_at, self._cores, self._console = runs, slow_at, cores, console
        self._loops = contextlib.ExitStack()
        self._shown = 0.0

    def __call__(self) -> None:
        now = time.time()
        elapsed = now - self._runs[0].run.origin
        if not self._runs[0].slowed and elapsed >= self._slow_at:
            text = f">> executor {_SLOWED} is slowed down: {_BUSY_LOOPS} busy loops on its core"
            self._console.print(text, style="bold red")
            self._loops.enter_context(cpu_hog(self._cores, _SLOWED, _BUSY_LOOPS))
            for each in self._runs:
                each.slowed = time.time()
        if elapsed >= self._shown + _LINE_SECONDS and all(each.run.seconds for each in self._runs):
            self._shown = elapsed
            self._console.print(
                f"t={elapsed - _LEAD_SECONDS:5.1f} s  " + "   ".join(map(_moment, self._runs)), markup=False
            )

    def end(self) -> None:
        """Stop the busy loops: what is left is processed without them."""
        self._loops.close()


def _moment(made: DemoRun) -> str:
    """The latency of a run over the last seconds, and how the tuples are split."""
    last = made.run.seconds[-1]
    tasks = "" if last.per_task is None else " split " + ":".join(f"{rows:,}" for rows in last.per_task)
    return f"{made.name}: p50 {_shown(last.p50):>7} p99 {_shown(last.p99):>8} ms{tasks}"


def _conclude(runs: list[DemoRun], console: Console) -> None:
    table = Table("latency of results, ms: p50 / p99", *(each.name for each in runs), title_justify="left")
    found = [each.latencies() for each in runs]
    for name in found[0]:
        table.add_row(name, *(f"{_shown(each[name]['p50'])} / {_shown(each[name]['p99'])}" for each in found))
    seconds = [[p99 <= _TARGET_MS for at, _, p99 in each.run.by_second() if at >= _LEAD_SECONDS] for each in runs]
    table.add_row(f"seconds with p99 below {_TARGET_MS:g} ms", *(f"{sum(each)} of {len(each)}" for each in seconds))
    checks = [each.verification for each in runs]
    wrong = ("not compared" if v is None else f"{v.missing + v.surplus}" for v in checks)
    table.add_row("results missing or wrong", *wrong)
    console.print(table)
    for place, (at, text) in enumerate(runs[-1].decisions, 1):
        since = at + runs[-1].run.origin - runs[0].run.origin - _LEAD_SECONDS
        console.print(f"  {place}  t={since:5.1f} s  {text}", markup=False)
    for each in runs:
        record = None if each.controller is None else each.controller.record
        show_target(console, record, each.target, each.name)
        if each.stopped is not None:
            console.print(f"{each.name}: {each.stopped}")
    if not any(each.stopped for each in runs):
        console.print(comparison(found[0], found[1], _TARGET_MS, os.getloadavg()[0], os.cpu_count() or 1))
    show_exactness(console, checks, "No tuple was lost or counted twice, in either run.", "The results differ.")
    console.print("See also: foretide demo foresight (a forecast adds replicas before the load rises), demo join")


Latencies = Mapping[str, Mapping[str, float | None]]


def comparison(plain: Latencies, controlled: Latencies, target: float, load: float, cores: int) -> str:
    """What control brought, in a sentence; or that the machine was too busy to tell.

    >>> calm, late = {"p50": 5.0, "p99": 40.0}, {"p50": 900.0, "p99": 12_000.0}
    >>> comparison({"before": calm, "after that": late}, {"before": calm, "after that": calm}, 100.0, 1.5, 8)
    'Once the executor was slow, 99% of the results took up to 12 s without control, and 40 ms with it.'
    >>> comparison({"before": late}, {"before": late}, 100.0, 48.2, 2)  # doctest: +ELLIPSIS
    'This machine was too busy for the comparison: half of the results took more than 900 ms before ... (load 48...
    """
    before = [each[BEFORE]["p50"] for each in (plain, controlled)]
    if any(each is not None and each > target for each in before):
        least = format_duration(min(each for each in before if each is not None) / 1000)
        return (
            f"This machine was too busy for the comparison: half of the results took more than {least} before the "
            f"executor was slowed down (load {load:.0f} on {cores} cores). Run it again when less else is running."
        )
    after = [each[AFTER]["p99"] for each in (plain, controlled)]
    if None in after:
        return "No results came after the executor was slowed down."
    without, with_it = (format_duration((each or 0.0) / 1000) for each in after)
    return (
        f"Once the executor was slow, 99% of the results took up to {without} without control, and {with_it} with it."
    )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _to_data(made: DemoRun) -> dict[str, Any]:
    return {
        "run": made.name,
        "latency_ms": made.latencies(),
        "decisions": [{"at": at, "summary": text} for at, text in made.decisions],
        "stopped": made.stopped is not None,
        "verification": None if made.verification is None else asdict(made.verification),
        "target": made.target,
        "control": None if made.controller is None else control_data(made.controller),
    }


def _since(began: float, made: DemoRun) -> list[tuple[float, float, float]]:
    """Its latency by the second, counted from a moment."""
    return [(at + made.run.origin - began, p50, p99) for at, p50, p99 in made.run.by_second()]


def _draw(runs: list[DemoRun], plot: Path, console: Console) -> None:
    began = runs[0].run.origin + _LEAD_SECONDS
    plotted = [
        LatencyRun(
            each.name,
            [(at, p50, p99) for at, p50, p99 in _since(began, each) if at >= 0],
            [at + each.run.origin - began for at, _ in each.decisions],
        )
        for each in runs
    ]
    try:
        draw_latencies(plotted, runs[0].slowed - began if runs[0].slowed else None, _TARGET_MS, plot)
    except EnvironmentNotReadyError as error:
        console.print(f"no plot: {error}")
    else:
        console.print(f"plot: {plot}")
