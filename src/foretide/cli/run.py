"""`foretide run APP`: runs an application under a replayed load, shows it live, and verifies its output."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from foretide.apps.app import App, Load, find_app
from foretide.apps.experiment import Verification, is_over, replay_of, taken_by, verify
from foretide.cli.console import DurationOption, JsonOption, PlotOption, check_plot
from foretide.cli.settings import ConfigOption, PolicyOption, SetOption, chosen_settings
from foretide.cli.view import open_view
from foretide.control.decisions.explain import summary
from foretide.control.world.setup import Latency
from foretide.errors import ControlFolderError
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import BatchReport
from foretide.reports import BatchRow, draw_run
from foretide.routing.table import RouteTable, parse_ratio
from foretide.runtime.loop.attach import control
from foretide.runtime.monitoring.tuple_latency import last_arrival, latency
from foretide.runtime.pipeline.submit import Pipeline, submit
from foretide.settings.run import RunSettings
from foretide.spark.session import session
from foretide.spark.sources.port import SourcePort
from foretide.topology.graph import Bolt, Topology
from foretide.topology.sinks import Parquet


def run(
    name: Annotated[str, typer.Argument(metavar="APP", help="The application; see `foretide apps`.")] = "url-count",
    duration: Annotated[float, DurationOption(show_default="40s", help="Length of the replay.")] = 40.0,
    rate: Annotated[float, typer.Option(min=1, help="Mean rows per second.")] = 20_000.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated rows.")] = 7,
    ratio: Annotated[str, typer.Option(help="New split of an edge midway, such as 4:3:1, or 'none'.")] = "",
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for output and checkpoint. Default: a temporary one.")
    ] = None,
    master: Annotated[str, typer.Option(help="Master URL of Spark.")] = "local[2]",
    policy: PolicyOption = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    latency: Annotated[float | None, DurationOption(help="Target of the p99 latency, such as 2s.")] = None,
    plot: PlotOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run an application under a replayed real load curve.

    Midway an edge is split in a new ratio, or policies control the pipeline. At the end the output is compared, row by
    row, with the expected output.
    """
    check_plot(plot)
    app, load = find_app(name), Load(duration, rate, seed)
    settings = chosen_settings(config, sets, policy)
    target = settings.target if latency is None else Latency(p99=latency)
    split = _check_ratio(ratio or ("none" if policy else app.ratio), app.build(load), app.edge)
    folder = _empty_folder(output, name)
    console = Console(stderr=as_json)
    with spark_session(master, f"foretide-{name}", 2, folder / "spark.log", console) as spark:
        warm_up(spark, app, console)
        replay = AppRun.start(spark, app, load, folder, settings.to_run())
        view = open_view(console, app, replay.plan, split)
        if policy:
            controller = control(replay.pipeline, policy, target, settings=settings)
            controller.on_decision(lambda decision: view.say(f"decision {decision.id}: {summary(decision)}"))
        with view:
            replay.watch(_Midway(replay, view, split))
            view.update(replay.batches)
        replay.stop()
        verification = replay.verify()
        if plot is not None:
            draw_run(replay.batches, plot, app.edge)
        summarized = _summary(replay, verification, folder)
        if as_json:
            typer.echo(json.dumps(summarized))
        else:
            view.conclude(console, replay.pipeline, verification, summarized)
    if not verification.exact:
        raise typer.Exit(1)


class _Midway:
    """Shows the run, and publishes the new split when half of the load curve is over."""

    def __init__(self, run: AppRun, view: Any, ratio: str | None) -> None:
        self._run, self._view, self._ratio = run, view, ratio

    def __call__(self) -> None:
        batches, app = self._run.batches, self._run.app
        if self._ratio is not None and batches and batches[-1].due >= self._run.plan.source.curve.duration / 2:
            version = self._run.pipeline.split(app.edge, self._ratio).version
            self._view.say(f"{app.edge} is split {self._ratio}: published as version {version}")
            self._ratio = None
        self._view.update(batches)


def _check_ratio(ratio: str, topology: Topology, edge: str) -> str | None:
    """The ratio, None for no split. One that does not fit is refused before anything is started."""
    if ratio == "none":
        return None
    bolt = topology.component(edge)
    assert isinstance(bolt, Bolt)  # noqa: S101 - an application names an edge of its own
    RouteTable().declare(edge, bolt.pool_size).split(edge, parse_ratio(edge, ratio))
    return ratio


def _empty_folder(output: Path | None, name: str) -> Path:
    """A folder without an earlier run in it, since the verification covers the whole output."""
    if output is None:
        return Path(tempfile.mkdtemp(prefix=f"foretide-{name}-"))
    if output.is_dir() and any(output.iterdir()):
        raise ControlFolderError(f"'{output}' is not empty; give a new folder for output and checkpoint")
    return output


def _summary(run: AppRun, verification: Verification, folder: Path) -> dict[str, Any]:
    reports = list(run.pipeline.reports)
    return {
        "rows_handed_out": verification.handed_out,
        "rows_taken": sum(report.input_rows for report in reports),
        "batches": len(reports),
        "batches_audited": sum(1 for report in reports if report.edges is not None),
        "alarms": [alarm.message for alarm in run.pipeline.alarms],
        "result_rows": verification.found_rows,
        "expected_rows": verification.expected_rows,
        "missing": verification.missing,
        "surplus": verification.surplus,
        "restarts": run.pipeline.restarts,
        "output": str(folder / "output"),
        "metrics": run.pipeline.monitor.store if run.pipeline.monitor else None,
    }


_GRACE_SECONDS = 120.0
_SHORT_BATCH_SECONDS = 2.0
_POLL_SECONDS = 0.1


@contextlib.contextmanager
def spark_session(master: str, name: str, partitions: int, log_file: Path, console: Console) -> Iterator[Any]:
    """A Spark session that logs to a file, so that nothing disturbs what is shown."""
    logging.getLogger("foretide").addHandler(logging.NullHandler())
    console.print(f"Starting Spark on {master} ...", highlight=False)
    with redirected_stderr(log_file):
        spark = session(master, name, {"spark.sql.shuffle.partitions": str(partitions)})
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def redirected_stderr(file: Path) -> Iterator[None]:
    """Processes that are started in here, such as Spark's driver and its children, write their errors to the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    own = os.dup(2)
    with file.open("ab") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)
        os.close(own)


@dataclass(frozen=True)
class AppRun:
    """A running application under a load, and its batches so far."""

    app: App
    load: Load
    plan: SourcePort[Any]
    pipeline: Pipeline
    batches: list[BatchRow] = field(default_factory=list)

    @classmethod
    def start(cls, spark: Any, app: App, load: Load, folder: Path, settings: RunSettings | None = None) -> AppRun:
        """Start the application. Output and checkpoint go to the folder."""
        topology = app.build(load)
        pipeline = submit(spark, topology, Parquet(str(folder / "output")), str(folder / "checkpoint"), settings)
        run = cls(app, load, replay_of(topology), pipeline)
        pipeline.on_report(lambda report, alarms: run.batches.append(_batch_row(report, alarms, run)))
        return run

    @property
    def over(self) -> bool:
        """Whether all rows are processed, or the pipeline has ended."""
        return not self.pipeline.running or is_over(self.pipeline, self.plan)

    def watch(self, turn: Callable[[], None]) -> None:
        """Call `turn` again and again until the replay is over, or takes far too long."""
        end = time.monotonic() + self.plan.source.curve.duration + _GRACE_SECONDS
        while not self.over and time.monotonic() < end:
            turn()
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stop the pipeline; raise the error that ended it, if any."""
        self.pipeline.stop()
        self.pipeline.raise_failure()

    def verify(self) -> Verification:
        """Compare the output, row by row, with the rows that have to be there."""
        return verify(self.pipeline, self.plan, self.app.result, lambda rows: self.app.truth(rows, self.load))


def warm_up(spark: Any, app: App, console: Console, load: Load | None = None, short_batches: int = 0) -> None:
    """Process some rows, so that the replay does not begin while the JVM is still loading classes.

    With `short_batches`, until that many batches took less than two seconds: executors need longer than local mode.
    """
    console.print("Warming up ...", highlight=False)
    with tempfile.TemporaryDirectory(prefix="foretide-warm-up-") as folder:
        run = AppRun.start(spark, app, load or Load(seconds=1.0, rate=2000.0, paced=False), Path(folder))
        end = time.monotonic() + _GRACE_SECONDS
        while not run.over and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            if short_batches and sum(each.seconds < _SHORT_BATCH_SECONDS for each in run.batches) >= short_batches:
                break
        run.stop()


def _batch_row(report: BatchReport, alarms: list[AuditFailure], run: AppRun) -> BatchRow:
    taken = taken_by(report)
    flow = (report.edges or {}).get(run.app.edge)
    return BatchRow(
        batch=report.batch,
        rows=report.input_rows,
        seconds=report.duration,
        due=(last_arrival(run.plan, taken) or 0.0) if taken else 0.0,
        p50=latency(run.plan, taken, report.finished, 0.50) if taken else None,
        p99=latency(run.plan, taken, report.finished, 0.99) if taken else None,
        backlog=taken.backlog if taken else None,
        version=report.route_version,
        per_task=flow.per_task if flow else None,
        alarms=tuple(alarm.message for alarm in alarms),
        ended=report.finished - (run.plan.origin(taken) or 0.0) if taken else 0.0,
    )
