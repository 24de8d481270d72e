"""What `foretide run` does once its options are checked: starts Spark, runs the application, compares the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretide.apps.app import App, Load
from foretide.apps.experiment import Verification
from foretide.cli.console import Console, print_json
from foretide.cli.progress import progress
from foretide.cli.running.application import AppRun, spark_session, warm_up
from foretide.cli.running.ending import control_data, show_control, stopped_line
from foretide.cli.running.preflight import SPARK_LOG
from foretide.cli.running.view import open_view
from foretide.control.decisions.decision import Decision
from foretide.control.decisions.explain import summary
from foretide.control.world.setup import Target
from foretide.reports.plots import draw_run
from foretide.routing.table import RouteTable, parse_ratio
from foretide.runtime.loop.attach import control
from foretide.runtime.loop.controller import Controller
from foretide.settings.settings import Settings
from foretide.store.database import database_url, shown
from foretide.topology.graph import Bolt, Topology


@dataclass(frozen=True)
class RunOptions:
    """What `foretide run` was asked for. Without a `target` no control loop is attached.

    `supervised` is set for a driver that a supervisor has started: it continues the checkpoint of the one before it.
    """

    app: App
    load: Load
    folder: Path
    master: str
    ratio: str
    settings: Settings
    target: Target | None
    plot: Path | None
    as_json: bool
    supervised: bool


def run_app(options: RunOptions) -> bool:
    """Run an application and print the result; whether the output is the expected one, as far as it was compared."""
    app, settings, target = options.app, options.settings, options.target
    split = check_ratio(options.ratio, app.build(options.load), app.edge)
    console = Console(stderr=options.as_json)
    with spark_session(options.master, f"foretide-{app.name}", 2, options.folder / SPARK_LOG, console) as spark:
        warm_up(spark, app, console, options.folder)
        start = AppRun.resume if options.supervised else AppRun.start
        with start(spark, app, options.load, options.folder, settings.to_run()) as replay:
            view = open_view(console, app, replay.plan, split)
            controller = None
            if target is not None:
                controller = control(replay.pipeline, target=target, settings=settings)
                controller.on_decision(SayDecisions(view.say))
            with view:
                replay.watch(_Midway(replay, view, split, controller))
                view.update(replay.batches)
            stopped = replay.stop_and_ask()
            with progress("comparing the output"):
                verification = replay.verify_stopped() if stopped else replay.verify()
        if options.plot is not None:
            draw_run(replay.batches, options.plot, app.edge, None if target is None else target.latency)
        summarized = _summary(replay, verification, options, stopped=stopped)
        if controller is not None:
            summarized["control"] = control_data(controller)
        if options.as_json:
            print_json(summarized)
        else:
            if verification is not None:
                view.conclude(console, replay.pipeline, verification, summarized)
            if stopped:
                console.print(stopped_line(replay.pipeline.last_batch, verification), soft_wrap=True, highlight=False)
            if controller is not None:
                show_control(console, controller, summarized["target"])
    return verification is None or verification.exact


class SayDecisions:
    """Says each decision in a line, but not again and again that a guard stops the same."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._stopped: set[tuple[str, str]] = set()

    def __call__(self, decision: Decision) -> None:
        """Say it, unless it only repeats what the one before it said."""
        stopped = {(done.guard, done.before.target) for done in decision.guards if done.after is None}
        before, self._stopped = self._stopped, stopped
        if decision.chosen or not stopped or stopped != before:
            self._say(f"decision {decision.id}: {summary(decision)}")


class _Midway:
    """Shows the run, and publishes the new split when half of the load curve is over."""

    def __init__(self, run: AppRun, view: Any, ratio: str | None, controller: Controller | None) -> None:
        self._run, self._view, self._ratio, self._controller = run, view, ratio, controller

    def __call__(self) -> None:
        batches, app = self._run.batches, self._run.app
        if self._ratio is not None and batches and batches[-1].due >= self._run.plan.source.curve.duration / 2:
            version = self._run.pipeline.split(app.edge, self._ratio).version
            self._view.say(f"{app.edge} is split {self._ratio}: published as version {version}")
            self._ratio = None
        self._view.update(batches, None if self._controller is None else self._controller.record)


def check_ratio(ratio: str, topology: Topology, edge: str) -> str | None:
    """The ratio, None for no split. One that does not fit is refused before anything is started."""
    if ratio == "none":
        return None
    bolt = topology.component(edge)
    assert isinstance(bolt, Bolt)  # noqa: S101 - an application names an edge of its own
    RouteTable().declare(edge, bolt.pool_size).split(edge, parse_ratio(edge, ratio))
    return ratio


def shown_store(store: str) -> str:
    """The path or URL of a store without its password.

    >>> shown_store("postgresql://me:secret@host/metrics"), shown_store("run/metrics.db")
    ('postgresql+psycopg://me:***@host/metrics', 'run/metrics.db')
    """
    return shown(database_url(store))


def _summary(run: AppRun, verification: Verification | None, options: RunOptions, *, stopped: bool) -> dict[str, Any]:
    reports, monitor = list(run.pipeline.reports), run.pipeline.monitor
    return {
        "rows_handed_out": run.plan.total_rows,
        "rows_taken": sum(report.input_rows for report in reports),
        "batches": len(reports),
        "batches_audited": sum(1 for report in reports if report.edges is not None),
        "alarms": [alarm.message for alarm in run.pipeline.alarms],
        "result_rows": None if verification is None else verification.found_rows,
        "expected_rows": None if verification is None else verification.expected_rows,
        "missing": None if verification is None else verification.missing,
        "surplus": None if verification is None else verification.surplus,
        "stopped": stopped,
        "restarts": run.pipeline.restarts,
        "target": None if options.target is None else run.compared_with(options.target),
        "output": str(options.folder / "output"),
        "metrics": shown_store(monitor.store) if monitor and monitor.store else None,
    }
