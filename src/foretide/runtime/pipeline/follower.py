"""Follows a running query batch by batch: audits each batch and publishes its report to the listeners.

The follower only reads from Spark. Whatever fails in here or in a listener, the query runs on with its last routes.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from foretide.control_folder.filesystem import absolute
from foretide.metrics.audit import AuditFailure, MissedBatches, audit, spouts_were_idle
from foretide.runtime.pipeline.listeners import (
    MAX_KEPT,
    AuditCost,
    AuditLog,
    Listener,
    LoadAwareBalance,
    RouteRepair,
    StatusFile,
)
from foretide.runtime.threads import Worker, guarded
from foretide.status.pipelines import Running, announce, withdraw
from foretide.topology.shape import first_edges

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.errors import ForetideError
    from foretide.metrics.batch import BatchReport
    from foretide.routing.table import RouteTable
    from foretide.runtime.monitoring.monitor import Monitor
    from foretide.runtime.pipeline.followed import FollowedQuery
    from foretide.runtime.pipeline.supervisor import Supervisor
    from foretide.spark.progress.reader import QueryState
    from foretide.topology.graph import Topology

_POLL_SECONDS, _MAX_POLL_SECONDS = 0.1, 0.5
_LOOKS = 5
"""How often the driver is asked for a new batch while one runs that takes as long as the last ones."""

_BATCHES = 10
_SUPERVISION_SECONDS = 0.5
"""Between two looks at a query that runs: each asks Spark's driver several times."""

_STOP_REQUEST_SECONDS = 1.0
_STOP_PAUSE_SECONDS = 3.0
_DETACH_SECONDS = 10.0
log = logging.getLogger("foretide")


class Reader(Protocol):
    """Reads what a query did, report by report; `unavailable` says why it cannot at present."""

    unavailable: str | None

    def state(self) -> QueryState:
        """How the query is at this moment."""

    def reports(self) -> list[BatchReport]:
        """What there is to report since the last call."""

    def prepare(self) -> None:
        """Connect before the first report."""

    @property
    def waiting(self) -> bool:
        """Whether something has happened that was not reported yet."""

    def close(self) -> None:
        """Follow the query no longer."""


class Followable(Protocol):
    """A query that can be followed. `handle` is Spark's StreamingQuery; a restart replaces it and its reader.

    With `tasks_stay`, a task stays with its executor from one report to the next.
    """

    topology: Topology
    tasks_stay: bool
    handle: Any
    reader: Reader
    started: float

    @property
    def problem(self) -> str | None:
        """What is wrong with the way to the executors; None if nothing is."""

    def start(self) -> None:
        """Start the query, unless it runs already."""


class Follower:
    """Follows one query. The constructor starts nothing.

    Attributes:
        reports: The last batches, the newest last.
        stopping: Set once the query is to end.
        failure: What the query was given up for; None while it was not.
        supervisor: Looks at the query after every look for new batches, and does what is necessary.
    """

    def __init__(
        self, topology: Topology, control_folder: ControlFolder, query: Followable, monitor: Monitor | None
    ) -> None:
        self.topology, self.control_folder, self.query, self.monitor = topology, control_folder, query, monitor
        self.reports: deque[BatchReport] = deque(maxlen=MAX_KEPT)
        self.audit_log = AuditLog(topology.name)
        self.stopping = threading.Event()
        self.failure: ForetideError | None = None
        self.supervisor: Supervisor | FollowedQuery | None = None
        self.audit_cost: AuditCost | None = None
        self.balance: LoadAwareBalance | None = None
        self._missed = MissedBatches()
        self._first_edges = first_edges(topology)
        self._followed_since: float | None = None
        self._route_repair = RouteRepair(control_folder, self.audit_log)
        self._status_file = StatusFile(control_folder, self.audit_log, monitor)
        self._listeners: list[Listener] = [self._route_repair, self._status_file]
        self._listeners += [] if monitor is None else [monitor]
        store = None if monitor is None else monitor.store
        self._running = Running(topology.name, os.getpid(), absolute(control_folder.location), store)
        self._end_calls: list[Callable[[], object]] = [partial(withdraw, self._running)]
        self._end_calls += [] if monitor is None else [monitor.stop]
        self._rescues: list[Callable[[str], bool]] = []
        self._was_started = self._prepared = self._audit_unavailable = False
        self._next_stop_check = self._next_supervision = 0.0
        self._what = f"following '{topology.name}'"
        self._worker = Worker(f"foretide-{topology.name}", self._turn, _POLL_SECONDS, what=self._what, close=self._end)

    def start(self) -> None:
        """Start monitoring, the query, and the thread that follows it, unless that was done before.

        If something fails, nothing stays behind. That other processes cannot find the query is logged: it runs.
        """
        if self._was_started:
            return
        self._was_started = True
        self.control_folder.orders.request_stop(stop=False)
        with ExitStack() as undo:
            if self.monitor is not None:
                self.monitor.start()
                undo.callback(self.monitor.stop)
            self.query.start()
            self._followed_since = self.query.started
            guarded(partial(announce, self._running), f"announcing '{self.topology.name}' to other processes")
            self._worker.start()
            undo.pop_all()

    def subscribe(self, listener: Listener) -> None:
        """Have a listener see every batch from now on."""
        self._listeners.append(listener)

    def at_end(self, call: Callable[[], object]) -> None:
        """Call this once the query has ended and all its batches were seen; what was added last is called first."""
        self._end_calls.append(call)

    def at_last(self, call: Callable[[], object]) -> None:
        """Call this at the end, after all other calls."""
        self._end_calls.insert(0, call)

    def on_death(self, rescue: Callable[[str], bool]) -> None:
        """Call `rescue(message)` when the query has died; it returns whether it has removed the cause."""
        self._rescues.append(rescue)

    def rescued(self, message: str) -> bool:
        """Whether the cause of the query's death has been removed, so that it can simply be started again."""
        return any(rescue(message) for rescue in self._rescues)

    @property
    def routes(self) -> RouteTable:
        """The routes that were published when the last batch ended. They are read once per batch."""
        return self._route_repair.routes

    @property
    def last_batch(self) -> int:
        """The last batch that was reported; -1 before the first."""
        return self.reports[-1].batch if self.reports else -1

    @property
    def running(self) -> bool:
        """Whether the query runs, or is being started again."""
        return self._worker.alive and not self.stopping.is_set()

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the query has ended and all its batches were seen; False when that takes longer."""
        return self._worker.join(timeout_seconds)

    def stop(self) -> None:
        """Stop the query between two batches if one ends soon, and wait until all its batches were seen."""
        self.stopping.set()
        self.await_pause(_STOP_PAUSE_SECONDS)
        self.query.handle.stop()
        self._worker.wake()
        self._worker.join()

    def detach(self) -> None:
        """Follow the query no longer; it runs on."""
        self._worker.stop(_DETACH_SECONDS)

    def give_up(self, error: ForetideError | None) -> None:
        """End the query for good; None leaves it to the query's own error to say why."""
        self.failure = error
        if error is not None:
            log.error("%s", error)
        self.stopping.set()
        self.query.handle.stop()

    def await_pause(self, timeout_seconds: float, *, or_end: bool = False) -> None:
        """Wait until no batch is under way, so that none is cut off; with `or_end`, at most until one has ended."""
        end, state = time.monotonic() + timeout_seconds, self.query.reader.state()
        last = state.last_batch
        while time.monotonic() < end and state.busy and not (or_end and state.last_batch > last):
            time.sleep(_POLL_SECONDS / 10)
            state = self.query.reader.state()

    def catch_up(self) -> None:
        """Report all that an ended query has committed, so that no batch is missed when another one takes over."""
        self._look()
        while self.query.reader.waiting and self.failure is None:
            time.sleep(_POLL_SECONDS)
            self._look()

    def publish(self, report: BatchReport) -> None:
        """Audit a batch and hand it to every listener."""
        if self._followed_since not in (None, self.query.started):
            self._begin_anew()
        self._followed_since = self.query.started
        report, missed = self._missed.see(report)
        looped = self.topology.feedback() and spouts_were_idle(report, [spout.id for spout in self.topology.spouts])
        failures = [*missed, *audit(report, self._first_edges, routed=bool(self.routes.edges) and not looped)]
        self.reports.append(report)
        self._set_pace()
        for failure in failures:
            self.audit_log.add(failure)
        for listener in list(self._listeners):
            guarded(partial(listener.see, report, failures), f"a listener of '{self.topology.name}'")
        if self.monitor is not None:
            self.monitor.note_problem("control folder", self._status_file.problem)
            self.monitor.note_problem("executors", self.query.problem)
            self.monitor.note_problem("audit", None if self.audit_cost is None else self.audit_cost.problem)

    def _set_pace(self) -> None:
        """Look less often where batches take long; in real time, reports come while one runs."""
        if not self.query.tasks_stay:
            usual = median(each.duration for each in islice(reversed(self.reports), _BATCHES))
            self._worker.period_seconds = min(max(usual / _LOOKS, _POLL_SECONDS), _MAX_POLL_SECONDS)

    def _begin_anew(self) -> None:
        """Another start of the query may have other pools."""
        self._first_edges = first_edges(self.query.topology)
        self._route_repair.begin_anew()
        self._missed.begin_anew()

    # ---- the thread

    def _turn(self) -> None:
        """Look for new batches, supervise the query, and end once it has ended."""
        try:
            was_active = self.query.handle.isActive
            guarded(partial(self._step, was_active), self._what)
            ended = (self.stopping.is_set() or not was_active) and not self.query.handle.isActive
        except Exception:  # Spark does not answer any more
            self._worker.stop()
            raise
        if ended:
            self._worker.stop()

    def _step(self, active: bool) -> None:  # noqa: FBT001
        if not self._prepared:
            self._prepared = True
            self.query.reader.prepare()
        guarded(self._look, self._what)  # whatever is wrong with it, the query is supervised
        due = not active or time.monotonic() >= self._next_supervision
        if self.supervisor is not None and due and not self.stopping.is_set():
            self._next_supervision = time.monotonic() + _SUPERVISION_SECONDS
            self.supervisor.supervise()

    def _look(self) -> None:
        reader = self.query.reader
        for report in reader.reports():
            self.publish(report)
        if reader.unavailable and not self._audit_unavailable:
            reason = f"Spark's REST interface does not answer ({reader.unavailable})"
            message = f"edges cannot be audited: {reason}; the query runs on"
            self.audit_log.add(AuditFailure("audit-unavailable", self.last_batch, None, message))
        self._audit_unavailable = reader.unavailable is not None
        if time.monotonic() >= self._next_stop_check and not self.stopping.is_set():
            self._next_stop_check = time.monotonic() + _STOP_REQUEST_SECONDS
            if self.control_folder.orders.stop_requested():
                log.warning("%s: stopping as requested", self.topology.name)
                self.stop()

    def _end(self) -> None:
        guarded(self.catch_up, self._what)
        for failure in self._missed.end():
            self.audit_log.add(failure)
        guarded(self.query.reader.close, self._what)
        for call in reversed(self._end_calls):
            guarded(call, f"a call at the end of '{self.topology.name}'")
