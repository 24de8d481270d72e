"""An application under a replayed load, in a Spark session of its own. `run` and `demo` use it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from foretide.apps.app import RATES, App, Load
from foretide.apps.experiment import (
    Verification,
    is_over,
    last_committed,
    replay_of,
    taken_by,
    verify,
    verify_stopped,
)
from foretide.cli.console import Console
from foretide.cli.progress import progress
from foretide.control.world.setup import Quantile, Target
from foretide.errors import EnvironmentNotReadyError, ForetideError, PipelineFailedError
from foretide.metrics.audit import AuditFailure
from foretide.metrics.batch import BatchReport, SourceRange
from foretide.reports.plots import BatchRow
from foretide.runtime.monitoring.tuple_latency import last_arrival, latencies, latency
from foretide.runtime.pipeline.submit import Pipeline, submit
from foretide.runtime.shutdown import descendants, end_all, within
from foretide.secrets import masked
from foretide.settings.run import RunSettings
from foretide.spark.session import session
from foretide.spark.sources.port import SourcePort
from foretide.topology.modes import Mode
from foretide.topology.sinks import Parquet

_GRACE_SECONDS = 120.0
_IDLE_SECONDS = 20.0
_SHORT_BATCH_SECONDS = 2.0
_POLL_SECONDS = 0.1
STOP_SECONDS = 20.0
"""How long a pipeline, or Spark, may take to stop."""

_END_SECONDS = 10.0
_ROUNDING = 1e-9


@contextlib.contextmanager
def spark_session(
    master: str, name: str, partitions: int, log_file: Path, console: Console, mode: Mode = "micro-batch"
) -> Iterator[Any]:
    """A Spark session that logs to a file, so that nothing disturbs what is shown.

    When the command is interrupted, Spark and every process below this one are gone at the end.
    """
    logging.getLogger("foretide").addHandler(logging.NullHandler())
    console.print(f"Starting Spark on {master} ...", highlight=False)
    try:
        with progress("starting Spark"), redirected_stderr(log_file):
            spark = _start(master, name, partitions, log_file, mode)
        try:
            yield spark
        finally:
            within(STOP_SECONDS, spark.stop, "stopping Spark")
    except KeyboardInterrupt:
        end_all(descendants(os.getpid()), _END_SECONDS)
        raise


def _start(master: str, name: str, partitions: int, log_file: Path, mode: Mode) -> Any:
    handler = signal.getsignal(signal.SIGINT)
    try:
        spark = session(master, name, {"spark.sql.shuffle.partitions": str(partitions)}, mode)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in {"pyspark", "py4j"}:
            raise
        cause = str(error).strip().split("\n", maxsplit=1)[0]
        raise EnvironmentNotReadyError(f"Spark did not start on '{master}': {cause}. See {log_file}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)  # Spark has set one of its own
    spark.sparkContext.setLogLevel("OFF")
    return spark


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
    """A running application under a load, and its batches so far. Left by an error, it stops the pipeline.

    Attributes:
        continued: What the checkpoint had committed before this start; None if it was empty.
        latencies: Latencies of some rows of each batch, and its number of rows.
    """

    app: App
    load: Load
    plan: SourcePort[Any]
    pipeline: Pipeline
    continued: SourceRange | None = None
    batches: list[BatchRow] = field(default_factory=list)
    latencies: list[tuple[Any, int]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def start(
        cls,
        spark: Any,
        app: App,
        load: Load,
        folder: Path,
        settings: RunSettings | None = None,
        *,
        name: str | None = None,
        continued: SourceRange | None = None,
    ) -> AppRun:
        """Start the application, under another `name` if given. Output and checkpoint go to the folder."""
        built = app.build(load)
        topology = built if name is None else replace(built, name=name)
        pipeline = submit(spark, topology, Parquet(str(folder / "output")), str(folder / "checkpoint"), settings)
        run = cls(app, load, replay_of(topology), pipeline, continued)
        pipeline.on_report(run._see)
        return run

    @classmethod
    def resume(cls, spark: Any, app: App, load: Load, folder: Path, settings: RunSettings) -> AppRun:
        """Start the application from the checkpoint in the folder, if there is one."""
        return cls.start(spark, app, load, folder, settings, continued=last_committed(folder / "checkpoint"))

    def _see(self, report: BatchReport, alarms: list[AuditFailure]) -> None:
        self.batches.append(_batch_row(report, alarms, self))
        taken = taken_by(report)
        sampled = None if taken is None else latencies(self.plan, taken, report.finished)
        if taken is not None and sampled is not None:
            self.latencies.append((sampled, taken.rows or 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is None:
            return
        stopped = within(STOP_SECONDS, self.pipeline.stop, "stopping the pipeline")
        batch = self.pipeline.last_batch
        after = "before its first batch" if batch < 0 else f"after batch {batch}"
        error.add_note(f"the pipeline was stopped {after}" if stopped else "the pipeline did not stop in time")

    @property
    def over(self) -> bool:
        """Whether all rows are processed, or the pipeline has ended."""
        return not self.pipeline.running or self.finished

    @property
    def finished(self) -> bool:
        """Whether all rows are processed; the earlier driver may have committed the last of them."""
        if is_over(self.pipeline, self.plan):
            return True
        was_over = self.continued is not None and self.plan.is_over(self.continued)
        return bool(was_over) and time.monotonic() > self.began + _IDLE_SECONDS

    def watch(self, turn: Callable[[], None]) -> None:
        """Call `turn` again and again until the replay is over, or takes far too long."""
        end = time.monotonic() + self.plan.source.curve.duration + _GRACE_SECONDS
        reported = 0

        def is_quiet() -> bool:
            nonlocal reported
            before, reported = reported, len(self.batches)
            return before == reported

        with progress("waiting for the next batch", is_quiet):
            while not self.over and time.monotonic() < end:
                turn()
                time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stop the pipeline; raise the error that ended it, if any."""
        name = self.pipeline.topology.name
        try:
            self.pipeline.stop()
            self.pipeline.raise_failure()
        except ForetideError:
            raise
        except Exception as error:
            cause = masked(str(error).strip().split("\n", maxsplit=1)[0]) or type(error).__name__
            raise PipelineFailedError(name, self.pipeline.last_batch, cause) from error

    def stop_and_ask(self) -> bool:
        """As `stop`; whether the pipeline had ended before all rows were processed, because of `foretide stop`."""
        has_ended = not self.pipeline.running
        self.stop()
        return has_ended and not self.finished

    def verify(self) -> Verification:
        """Compare the output, row by row, with the rows that have to be there."""
        return verify(
            self.pipeline,
            self.plan,
            self.app.result,
            lambda rows: self.app.truth(rows, self.load),
            self.continued,
            self.app.settle,
        )

    def verify_stopped(self) -> Verification | None:
        """Compare the output with what the rows that were taken give; None if nothing can be compared."""
        if self.continued is not None:  # rows of an earlier driver are not in the reports
            return None
        return verify_stopped(self.pipeline, self.plan, self.app.result, lambda rows: self.app.truth(rows, self.load))

    def compared_with(self, target: Target) -> dict[str, Any] | None:
        """The latency target, the latency of all rows of the run, and the batches; None without a latency target."""
        if target.latency is None:
            return None
        measured = weighted_quantile(self.latencies, target.quantile)
        held = None if measured is None else measured <= target.latency
        by_batch = [weighted_quantile([each], target.quantile) or 0.0 for each in self.latencies]
        missed = sum(each > target.latency for each in by_batch)
        compared = {"quantile": target.quantile, "seconds": target.latency, "measured": measured, "held": held}
        return {**compared, "batches": len(by_batch), "missed": missed}


def weighted_quantile(parts: Sequence[tuple[Any, int]], quantile: Quantile) -> float | None:
    """A quantile, or the mean, over batches that are each given by some of their values and their number of rows.

    >>> weighted_quantile([([1.0, 2.0], 2), ([9.0], 98)], "p50"), weighted_quantile([([1.0], 3), ([5.0], 1)], "mean")
    (9.0, 2.0)
    """
    if not parts:
        return None
    values = np.concatenate([np.asarray(each, dtype=float) for each, _ in parts])
    weights = np.concatenate([np.full(len(each), rows / len(each)) for each, rows in parts])
    if quantile == "mean":
        return float(np.average(values, weights=weights))
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    level = float(quantile[1:]) / 100 * below[-1]
    return float(values[order][min(len(values) - 1, int(np.searchsorted(below, level - _ROUNDING * below[-1])))])


def warm_up(
    spark: Any,
    app: App,
    console: Console,
    folder_in: Path,
    load: Load | None = None,
    short_batches: int = 0,
) -> None:
    """Process some rows, so that the replay does not begin while the JVM is still loading classes.

    With `short_batches`, until that many batches took less than two seconds: executors need longer than local mode. Its
    folder is in that of the run: executors on other hosts must see it, too, and what an interrupted task still writes
    is removed with the folder of the run.
    """
    console.print("Warming up ...", highlight=False)
    few = load or Load(seconds=1.0, rate=RATES.get(app.name, 2000.0), paced=False)
    with (
        progress("warming up"),
        tempfile.TemporaryDirectory(prefix="foretide-warm-up-", dir=folder_in, ignore_cleanup_errors=True) as folder,
        AppRun.start(spark, app, few, Path(folder), name=f"{app.name}-warm-up") as run,
    ):
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
