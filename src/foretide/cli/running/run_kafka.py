"""What `foretide run` does through Kafka once its options are checked: in real-time mode always, else if asked for."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from foretide.apps.experiment import Verification
from foretide.cli.console import Console, print_json
from foretide.cli.running.application import spark_session
from foretide.cli.running.ending import control_data, show_control, stopped_line
from foretide.cli.running.kafka_results import verify, verify_stopped
from foretide.cli.running.kafka_run import (
    Brokers,
    KafkaRun,
    brokers_at,
    introduction,
    line,
    real_time_of,
    warm_up,
    watch,
)
from foretide.cli.running.preflight import SPARK_LOG
from foretide.cli.running.run_app import RunOptions, SayDecisions, check_ratio
from foretide.reports.plots import LatencyRun, draw_latencies
from foretide.runtime.loop.attach import control
from foretide.topology.modes import REAL_TIME, Mode
from foretide.topology.sources import KafkaSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from foretide.control.decisions.decision import Decision
    from foretide.control.world.setup import Target

_LINE_SECONDS = 2.0
_ROUTE_SECONDS, _ROUTE_LOOK_SECONDS = 60.0, 0.5


def run_kafka(options: RunOptions, mode: Mode, given: Brokers | None) -> bool:
    """Run an application from topic to topic and print the result; whether it is exact, as far as it was compared."""
    app, settings = options.app, options.settings
    form = real_time_of(app)
    split = check_ratio(options.ratio, form.build(KafkaSource("none", "none")), app.edge)
    console = Console(stderr=options.as_json, highlight=False, soft_wrap=True)
    run_settings = settings.to_run()
    with (
        brokers_at(given, options.folder, console) as brokers,
        spark_session(options.master, f"foretide-{app.name}", 2, options.folder / SPARK_LOG, console, mode) as spark,
    ):
        warm_up(spark, app, brokers, options.folder, run_settings, console, mode)
        with KafkaRun.start(spark, app, options.load, options.folder, run_settings, brokers, mode=mode) as run:
            console.print(introduction(run))
            controller = None
            if options.target is not None:
                controller = control(run.pipeline, target=options.target, settings=settings)
                controller.on_decision(SayDecisions(partial(_say, console)))
            watch([run], _Turn(run, console, split))
            stopped = not run.pipeline.running  # by `foretide stop`
            run.stop()
            verification = verify_stopped(run) if stopped else verify(run)
        if options.plot is not None:
            _draw(run, [] if controller is None else controller.decisions, options.target, options.plot)
        summarized = _summary(run, verification, options, stopped=stopped)
        if controller is not None:
            summarized["control"] = control_data(controller)
        if options.as_json:
            print_json(summarized)
        else:
            _conclude(summarized, verification, console)
            if stopped:
                console.print(stopped_line(run.pipeline.last_batch, verification))
            if controller is not None:
                show_control(console, controller, summarized["target"])
    return verification is None or verification.exact


def _draw(run: KafkaRun, decisions: Sequence[Decision], target: Target | None, plot: Path) -> None:
    decided = [decision.at - run.origin for decision in decisions if decision.acted]
    limit = None if target is None or target.latency is None else 1000 * target.latency
    draw_latencies([LatencyRun(run.app.name, run.by_second(), decided)], None, limit, plot)


def _say(console: Console, event: str) -> None:
    console.print(f">> {event}", markup=False)


class _Turn:
    """Prints a line every other second, and publishes the new split when half of the load curve is over."""

    def __init__(self, run: KafkaRun, console: Console, ratio: str | None) -> None:
        self._run, self._console, self._ratio = run, console, ratio
        self._shown = 0.0

    def __call__(self) -> None:
        run, elapsed = self._run, time.time() - self._run.origin
        if self._ratio is not None and elapsed >= run.curve.duration / 2:
            self._split(self._ratio)
            self._ratio = None
        if run.seconds and run.seconds[-1].at >= self._shown + _LINE_SECONDS:
            self._shown = run.seconds[-1].at
            self._console.print(line(run.seconds[-1], run.edge))

    def _split(self, ratio: str) -> None:
        began = time.monotonic()
        version = self._run.pipeline.split(self._run.edge, ratio).version
        done = self._await_routes(version, began + _ROUTE_SECONDS)
        took = (time.monotonic() - began) * 1000
        where = "in every executor" if self._run.mode == REAL_TIME.name else "in a batch"
        state = f"in force {where} after {took:.0f} ms" if done else "not in force yet"
        self._console.print(f">> {self._run.edge} is split {ratio}: {state}")

    def _await_routes(self, version: int, end: float) -> bool:
        """Wait until the routes are in force, the pipeline has ended, or it takes too long."""
        pipeline = self._run.pipeline
        while pipeline.running and time.monotonic() < end:
            if pipeline.await_routes(version, _ROUTE_LOOK_SECONDS):
                return True
        return False


def _summary(run: KafkaRun, verification: Verification | None, options: RunOptions, *, stopped: bool) -> dict[str, Any]:
    levels = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
    latency = {name: run.results.quantile(level) for name, level in levels.items()}
    return {
        "rows_handed_out": run.curve.total_rows or 0,
        "rows_compared": None if verification is None else verification.handed_out,
        "latency_ms": {name: None if value is None else value * 1000 for name, value in latency.items()},
        "result_rows": None if verification is None else verification.found_rows,
        "expected_rows": None if verification is None else verification.expected_rows,
        "missing": None if verification is None else verification.missing,
        "surplus": None if verification is None else verification.surplus,
        "stopped": stopped,
        "restarts": run.pipeline.restarts,
        "alarms": [alarm.message for alarm in run.pipeline.alarms],
        "target": None if options.target is None else run.results.compared_with(options.target),
        "topics": run.topics,
    }


def _conclude(summarized: dict[str, Any], verification: Verification | None, console: Console) -> None:
    shown = ", ".join(f"{name} {value:,.1f}" for name, value in summarized["latency_ms"].items() if value is not None)
    tuples = "those that arrived" if summarized["stopped"] else f"all {summarized['rows_handed_out']:,} tuples"
    console.print(f"latency of {tuples}, ms: {shown or 'unknown'}")
    for alarm in summarized["alarms"]:
        console.print(f"alarm: {alarm}", style="red", markup=False)
    if verification is None:
        return
    said = "No tuple was lost or counted twice." if verification.exact else "The output is not the expected one."
    console.print(
        f"{verification.found_rows:,} results, {verification.missing} missing, {verification.surplus} different, "
        f"{summarized['restarts']} restarts"
    )
    console.print(said, style="bold green" if verification.exact else "bold red")
