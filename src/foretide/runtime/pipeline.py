"""A running pipeline: one query, followed batch by batch, supervised, and steered through its control folder.

The follower only reads Spark and writes small files. Whatever happens to it, the query runs on with its last routes.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from foretide.durations import Seconds
from foretide.errors import (
    BatchTimeoutError,
    FeedbackGrowthError,
    ForetideError,
    RestartFailedError,
    RouteError,
    SettingsError,
)
from foretide.folder.control_folder import ControlFolder
from foretide.folder.publication import absolute
from foretide.metrics.audit import Alarm, audit
from foretide.metrics.batch import BatchReport
from foretide.routing.table import RouteTable, parse_ratio
from foretide.runtime.balance import LoadAwareBalance
from foretide.runtime.loops import LoopGuard
from foretide.runtime.monitor import Monitor
from foretide.runtime.monitor_settings import MonitorSettings
from foretide.runtime.registry import Running, announce, withdraw
from foretide.runtime.timeout import BatchClock
from foretide.spark.compile import Compiled, compile_topology
from foretide.spark.progress import QueryReader
from foretide.spark.query import read_output, start_query
from foretide.spark.timing import EVERY
from foretide.spark.workers import Workers
from foretide.topology.first_edges import first_edges
from foretide.topology.sink import Guarantee

if TYPE_CHECKING:
    from foretide.topology.graph import Topology
    from foretide.topology.sink import Sink

_POLL = 0.1
_PAUSE = 3.0
_KEPT = 1000
_OUTPUT_MODES = ("append", "update", "complete")
log = logging.getLogger("foretide")

OnReport = Callable[[BatchReport, list[Alarm]], None]


@dataclass(frozen=True)
class RunSettings:
    """How a pipeline runs.

    Attributes:
        guarantee: exactly-once, at-least-once, at-most-once (on replay sources), or none.
        trigger: Time between two batches, such as `500 milliseconds`; None takes one batch of what is there and ends.
        audit_ids: Also compare the XOR of tuple ids on both sides of every edge.
        batch_timeout: Seconds after which a batch is cancelled and replayed from the checkpoint; None waits.
        tries: How often one batch may run into its time-out before the pipeline gives up.
        output_mode: Spark's output mode; files take only `append`.
        loop_patience: Batches over which a feedback loop may grow before it is stopped.
        monitoring: What is measured and kept, and when an alarm is raised; None measures nothing but the audit.
    """

    guarantee: Guarantee = "exactly-once"
    trigger: str | None = "500 milliseconds"
    audit_ids: bool = False
    batch_timeout: Seconds | None = None
    tries: int = 3
    output_mode: str = "append"
    loop_patience: int = 50
    monitoring: MonitorSettings | None = field(default_factory=MonitorSettings)

    def __post_init__(self) -> None:
        timeout = self.batch_timeout
        bounds = {
            "batch_timeout": (timeout is None or timeout > 0, "seconds above 0, or none"),
            "tries": (self.tries >= 1, "1 or more"),
            "output_mode": (self.output_mode.lower() in _OUTPUT_MODES, f"one of {', '.join(_OUTPUT_MODES)}"),
            "loop_patience": (self.loop_patience >= 1, "1 or more"),
        }
        bad = [f"{name}={getattr(self, name)} (give {what})" for name, (good, what) in bounds.items() if not good]
        if bad:
            raise SettingsError("run settings", f"out of bounds: {', '.join(bad)}")


@dataclass
class Pipeline:
    """A topology that runs. Made by `submit`."""

    topology: Topology
    sink: Sink
    checkpoint: str
    settings: RunSettings
    folder: ControlFolder
    compiled: Compiled
    reports: deque[BatchReport] = field(default_factory=lambda: deque(maxlen=_KEPT))
    alarms: deque[Alarm] = field(default_factory=lambda: deque(maxlen=_KEPT))
    restarts: int = 0

    def __post_init__(self) -> None:
        self._listeners: list[OnReport] = []
        self._stopping = threading.Event()
        self._failure: ForetideError | None = None
        self._first_edges = first_edges(self.topology)
        self._good_routes = self.folder.routes()
        self._balance = LoadAwareBalance.of(self.topology)
        self._loops = LoopGuard(self.topology, self.sink, self.settings.loop_patience)
        self._told_unavailable = False
        self.monitor = self._monitor()
        store = self.monitor.store if self.monitor else None
        self._running = Running(self.topology.name, os.getpid(), absolute(self.folder.location), store)

    def _monitor(self) -> Monitor | None:
        settings = self.settings.monitoring
        if settings is None:
            return None
        return Monitor(self.topology, absolute(self.folder.location), Workers.of_active(), settings)

    def start(self) -> Pipeline:
        """Start the query, the thread that follows it, and monitoring."""
        self._open()
        announce(self._running)
        if self.monitor is not None:
            self.monitor.start()
        self._thread = threading.Thread(target=self._follow, name=f"foretide-{self.topology.name}", daemon=True)
        self._thread.start()
        return self

    def _open(self) -> None:
        settings = self.settings
        self.query = start_query(
            self.compiled,
            self.topology.name,
            self.sink,
            self.checkpoint,
            settings.trigger,
            settings.output_mode,
        )
        every = settings.monitoring.tasks_every if settings.monitoring else 0.0
        self._reader = QueryReader(self.query, self.compiled.shape, self.compiled.timers, per_task_every=every)
        self._clock = BatchClock(settings.batch_timeout, settings.tries, self.topology.name)

    # ---- steering

    def split(self, edge: str, ratio: str) -> RouteTable:
        """Split an edge in a new ratio, such as `7:3:2`, from the next batch on."""
        return self.folder.change_routes(lambda table: table.split(edge, parse_ratio(edge, ratio)))

    def activate(self, edge: str, replicas: int) -> RouteTable:
        """Use the first `replicas` tasks of an edge's pool, from the next batch on."""
        return self.folder.change_routes(lambda table: table.activate(edge, replicas))

    def limit_admission(self, spout: str, rows: int | None) -> None:
        """Rows a batch that a replay spout may hand out, from the next batch on; None lifts the limit."""
        self.folder.limit_admission(spout, rows)

    # ---- watching

    def on_report(self, listener: OnReport) -> None:
        """Call `listener(report, alarms)` after every batch."""
        self._listeners.append(listener)

    def output(self, stream: str) -> Any:
        """An output stream as a DataFrame, as far as it was committed."""
        return read_output(self.compiled, self.sink, stream)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the pipeline has ended; False when it still runs after `timeout`. Raises what it died of."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self.raise_failure()
        return True

    def raise_failure(self) -> None:
        """Raise what ended the pipeline, if anything did."""
        if self._failure is not None:
            raise self._failure
        failed = self.query.exception()
        if failed is not None:
            raise failed

    def stop(self) -> None:
        """End the query; what was committed stays, and a later start on the same checkpoint goes on from there."""
        self._await_pause(_PAUSE)
        self.query.stop()
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _await_pause(self, most: float) -> None:
        """Wait a little for the moment between two batches, so that none is cut off."""
        end = time.monotonic() + most
        while time.monotonic() < end and self._reader.state().busy:
            time.sleep(_POLL / 10)

    # ---- the follower

    def _follow(self) -> None:
        try:
            self._reader.prepare()
            while not self._stopping.is_set():
                active = self.query.isActive
                self._cycle()
                if not active and not self.query.isActive:  # it may have been replaced while we looked
                    break
                time.sleep(_POLL)
            self._drain()
        finally:
            self._reader.close()
            if self.monitor is not None:
                self.monitor.stop()
            withdraw(self._running)

    def _drain(self) -> None:
        """Report what finished before the end."""
        self._cycle()
        while self._reader.waiting and self._failure is None:
            time.sleep(_POLL)
            self._cycle()

    def _cycle(self) -> None:
        """Read back what finished. A fault in here is logged and never touches the query."""
        try:
            for report in self._reader.reports():
                self._see(report)
            self._say_when_unavailable()
            if self._clock.expired(self._reader.state(), self._last_batch, time.monotonic()):
                self._replay_batch()
        except (BatchTimeoutError, FeedbackGrowthError, RestartFailedError) as error:
            self._give_up(error)
        except Exception:
            log.exception("following '%s' failed; the query runs on", self.topology.name)

    @property
    def _last_batch(self) -> int:
        return self.reports[-1].batch if self.reports else -1

    def _see(self, report: BatchReport) -> None:
        alarms = audit(report, self._first_edges, routed=bool(self._good_routes.edges))
        self.reports.append(report)
        for alarm in alarms:
            self._raise_alarm(alarm)
        self._mend_routes(report.batch)
        if self._balance is not None:
            self._balance.step(report, self.folder)
        if report.input_rows:
            self.folder.report(_status(report, alarms))
        if self.monitor is not None:
            self._tell(self.monitor.see, report, alarms)
        for listener in self._listeners:
            self._tell(listener, report, alarms)
        self._loops.see(report)

    def _tell(self, listener: OnReport, report: BatchReport, alarms: list[Alarm]) -> None:
        """A listener that fails must not keep later reports, or the guard of loops, from their turn."""
        try:
            listener(report, alarms)
        except Exception:
            log.exception("a listener of '%s' failed; the query runs on", self.topology.name)

    def _raise_alarm(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        log.error("%s, batch %d: %s", self.topology.name, alarm.batch, alarm.message)

    def _mend_routes(self, batch: int) -> None:
        """Publish the last good routes again when the table in place cannot be read, or lacks an edge."""
        try:
            table = self.folder.routes()
        except RouteError:
            table = RouteTable()
        if self._good_routes.edges.keys() <= table.edges.keys():
            self._good_routes = table
        else:
            good = self._good_routes
            self._good_routes = self.folder.change_routes(lambda found: found.restore(good), repair=True)
            message = "the route table was damaged and has been published anew; no row was lost"
            self._raise_alarm(Alarm("routes-unreadable", batch, None, message))

    def _say_when_unavailable(self) -> None:
        reason = self._reader.unavailable
        if reason and not self._told_unavailable:
            message = f"edges cannot be audited: Spark's REST interface does not answer ({reason}); the query runs on"
            self._raise_alarm(Alarm("audit-unavailable", self._last_batch, None, message))
        self._told_unavailable = reason is not None

    # ---- supervision

    def _replay_batch(self) -> None:
        log.error(
            "%s: a batch ran past %s s; it is cancelled and replayed",
            self.topology.name,
            self.settings.batch_timeout,
        )
        self.query.stop()
        self._clock.count_try(self._last_batch + 1)
        clock = self._clock
        self._reader.close()
        try:
            self._open()
        except Exception as error:
            raise RestartFailedError(self.topology.name, str(error)) from error
        self._clock = clock.again()
        self.restarts += 1

    def _give_up(self, error: ForetideError) -> None:
        self._failure = error
        log.error("%s", error)
        self._stopping.set()
        self.query.stop()


def _status(report: BatchReport, alarms: list[Alarm]) -> dict[str, Any]:
    edges = report.edges or {}
    return {
        "batch": report.batch,
        "finished": report.finished,
        "input_rows": report.input_rows,
        "route_version": report.route_version,
        "edges": {
            name: {"written": flow.written, "read": flow.read, "per_task": flow.per_task}
            for name, flow in edges.items()
        },
        "alarms": [alarm.message for alarm in alarms],
    }


def submit(
    spark: Any, topology: Topology, sink: Sink, checkpoint: str, settings: RunSettings | None = None
) -> Pipeline:
    """Compile a topology and start it; a checkpoint that is there already is gone on from.

    The routes live in the folder `foretide` of the checkpoint.
    """
    chosen = settings or RunSettings()
    folder = ControlFolder(f"{checkpoint}/foretide")
    every = chosen.monitoring.time_every if chosen.monitoring else EVERY
    compiled = compile_topology(
        spark, topology, sink, folder, chosen.guarantee, audit=chosen.audit_ids, time_every=every
    )
    return Pipeline(topology, sink, checkpoint, chosen, folder, compiled).start()
