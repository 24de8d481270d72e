"""Follows a running query batch by batch: audits it, measures it, mends its routes, and tells who listens.

The follower only reads Spark and writes small files. Whatever happens to it, the query runs on with its last routes.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretide.control_folder.filesystem import absolute
from foretide.control_folder.status import PipelineStatus
from foretide.errors import ForetideError, RouteError
from foretide.metrics.audit import AuditFailure, audit
from foretide.metrics.batch import BatchReport
from foretide.routing.table import RouteTable
from foretide.runtime.monitoring.monitor import Monitor
from foretide.spark.executors.listing import Workers
from foretide.status.running import Running, announce, withdraw
from foretide.topology.first_edges import first_edges

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.settings.monitoring import MonitorSettings
    from foretide.spark.progress.reader import QueryReader
    from foretide.topology.graph import Topology

_POLL = 0.1
_ORDERS = 1.0
_PAUSE = 3.0
_KEPT = 1000
log = logging.getLogger("foretide")

OnReport = Callable[[BatchReport, list[AuditFailure]], None]


class Follower:
    """Follows one query. `start` begins; `reports` and `alarms` hold what was seen last."""

    query: Any
    started: float
    _reader: QueryReader

    def __init__(self, topology: Topology, folder: ControlFolder, monitoring: MonitorSettings | None) -> None:
        self.topology, self.folder = topology, folder
        self.reports: deque[BatchReport] = deque(maxlen=_KEPT)
        self.alarms: deque[AuditFailure] = deque(maxlen=_KEPT)
        self._listeners: list[OnReport] = []
        self._at_end: list[Callable[[], None]] = []
        self._rescues: list[Callable[[str], bool]] = []
        self._stopping = threading.Event()
        self._failure: ForetideError | None = None
        self._first_edges = first_edges(topology)
        self._good_routes = folder.routes()
        self._told_unavailable = False
        self._next_orders = 0.0
        self.monitor = self._monitor(monitoring)
        store = self.monitor.store if self.monitor else None
        self._running = Running(topology.name, os.getpid(), absolute(folder.location), store)

    def _monitor(self, settings: MonitorSettings | None) -> Monitor | None:
        if settings is None:
            return None
        return Monitor(self.topology, absolute(self.folder.location), Workers.of_active(), settings)

    def follow(self) -> None:
        """Start the thread that follows the query, and monitoring."""
        self.folder.orders.request_stop(stop=False)
        announce(self._running)
        if self.monitor is not None:
            self.monitor.start()
        self._thread = threading.Thread(target=self._follow, name=f"foretide-{self.topology.name}", daemon=True)
        self._thread.start()

    # ---- watching

    def on_report(self, listener: OnReport) -> None:
        """Call `listener(report, alarms)` after every batch."""
        self._listeners.append(listener)

    def at_end(self, call: Callable[[], None]) -> None:
        """Call this once the query has ended, and all its batches were seen."""
        self._at_end.append(call)

    def on_death(self, rescue: Callable[[str], bool]) -> None:
        """Call `rescue(message)` when the query has died; it says whether the cause is gone, so that it may go on."""
        self._rescues.append(rescue)

    def _rescued(self) -> bool:
        """Whether what the query died of is out of the way."""
        failed = self.query.exception()
        return failed is not None and any(rescue(str(failed)) for rescue in self._rescues)

    @property
    def running(self) -> bool:
        """Whether the query runs, or is being started again."""
        return self._thread.is_alive() and not self._stopping.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended; False when it still runs after `timeout`. Raises what it died of."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self.raise_failure()
        return True

    def raise_failure(self) -> None:
        """Raise what ended the query, if anything did."""
        if self._failure is not None:
            raise self._failure
        failed = self.query.exception()
        if failed is not None:
            raise failed

    def stop(self) -> None:
        """End the query; what was committed stays, and a later start on the same checkpoint goes on from there."""
        self._stopping.set()
        self._await_pause(_PAUSE)
        self.query.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _await_pause(self, most: float) -> None:
        """Wait a little for the moment between two batches, so that none is cut off."""
        end = time.monotonic() + most
        while time.monotonic() < end and self._reader.state().busy:
            time.sleep(_POLL / 10)

    # ---- the thread

    def _follow(self) -> None:
        try:
            self._reader.prepare()
            while not self._over():
                time.sleep(_POLL)
            self._drain()
        finally:
            self._reader.close()
            for call in self._at_end:
                self._guarded(call, "what was to be done at the end of")
            if self.monitor is not None:
                self.monitor.stop()
            withdraw(self._running)

    def _over(self) -> bool:
        """One turn: look, and tell whether that was the last one."""
        active = self.query.isActive
        self._cycle()
        if self._stopping.is_set():
            return not self.query.isActive
        return not active and not self.query.isActive  # it may have been replaced while we looked

    def _drain(self) -> None:
        """Report what finished before the end."""
        self._cycle()
        while self._reader.waiting and self._failure is None:
            time.sleep(_POLL)
            self._cycle()

    def _cycle(self) -> None:
        """Read back what finished. A fault in here is logged and never touches the query."""
        self._guarded(self._look, "following")

    def _guarded(self, call: Callable[[], None], what: str) -> None:
        try:
            call()
        except Exception:
            log.exception("%s '%s' failed; the query runs on", what, self.topology.name)

    def _look(self) -> None:
        for report in self._reader.reports():
            self._see(report)
        self._say_when_unavailable()
        if time.monotonic() >= self._next_orders and not self._stopping.is_set():
            self._next_orders = time.monotonic() + _ORDERS
            self._obey()

    def _catch_up(self) -> None:
        """Report all that a query committed before it ended, so that no batch is missed when another takes over."""
        self._guarded(self._look_to_the_end, "following")

    def _look_to_the_end(self) -> None:
        self._look()
        while self._reader.waiting:
            time.sleep(_POLL)
            self._look()

    def _obey(self) -> None:
        """Stop when that was asked for from another terminal."""
        if self.folder.orders.stop_requested():
            log.warning("%s: stops, as asked for", self.topology.name)
            self.stop()

    @property
    def routes(self) -> RouteTable:
        """The routes that were published when the last batch ended, mended if need be. Read once a batch."""
        return self._good_routes

    @property
    def last_batch(self) -> int:
        """The last batch that was reported; -1 before the first."""
        return self.reports[-1].batch if self.reports else -1

    def _see(self, report: BatchReport) -> None:
        alarms = audit(report, self._first_edges, routed=bool(self._good_routes.edges))
        self.reports.append(report)
        for alarm in alarms:
            self._raise_alarm(alarm)
        self._mend_routes(report.batch)
        if report.input_rows:
            self.folder.status.write(PipelineStatus.of(report, alarms))
        if self.monitor is not None:
            self._tell(self.monitor.see, report, alarms)
        for listener in self._listeners:
            self._tell(listener, report, alarms)

    def _tell(self, listener: OnReport, report: BatchReport, alarms: list[AuditFailure]) -> None:
        """A listener that fails must not keep later reports, or the guard of loops, from their turn."""
        self._guarded(lambda: listener(report, alarms), "a listener of")

    def _raise_alarm(self, alarm: AuditFailure) -> None:
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
            self._raise_alarm(AuditFailure("routes-unreadable", batch, None, message))

    def _say_when_unavailable(self) -> None:
        reason = self._reader.unavailable
        if reason and not self._told_unavailable:
            message = f"edges cannot be audited: Spark's REST interface does not answer ({reason}); the query runs on"
            self._raise_alarm(AuditFailure("audit-unavailable", self.last_batch, None, message))
        self._told_unavailable = reason is not None
