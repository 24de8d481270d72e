"""What `run` and the demos share: a Spark session, one replay of an application, and its proof."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from foretide.apps.app import App, Load
from foretide.apps.experiment import Verification, is_over, replay_of, taken_by, verify
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import BatchReport
from foretide.reports.run_plot import BatchRow
from foretide.runtime.monitoring.tuple_latency import last_arrival, latency
from foretide.runtime.pipeline.submit import Pipeline, submit
from foretide.settings.run import RunSettings
from foretide.spark.session import session
from foretide.spark.sources.port import SourcePort
from foretide.topology.sinks import Parquet

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
        """Stop the pipeline; raises what it failed of."""
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
