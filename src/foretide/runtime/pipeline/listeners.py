"""Listeners of a followed query: its audit, routes and status file, its feedback loops and its load-aware edges."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from foretide.control.policies.load_aware import LoadAwareSettings, TaskSums, balanced_split
from foretide.control_folder.filesystem import HURRIED_LOCK_SECONDS
from foretide.control_folder.folder import PipelineStatus, RaisedAlarm
from foretide.errors import ControlFolderError, FeedbackGrowthError, RouteError
from foretide.metrics.audit import AuditFailure, LoopGain, id_share
from foretide.routing.table import RouteTable
from foretide.topology.graph import output_name
from foretide.topology.groupings import LoadAware
from foretide.topology.sinks import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.batch import BatchReport, SourceRange
    from foretide.runtime.monitoring.monitor import Monitor
    from foretide.topology.graph import Topology
    from foretide.topology.sinks import Sink

MAX_KEPT = 1000
"""Reports and audit failures that are kept in memory."""

_BATCHES_OF_COST = 20
log = logging.getLogger("foretide")


class Listener(Protocol):
    """Sees every batch of a query, once, in order. What it raises is logged and reaches nobody else."""

    def see(self, report: BatchReport, failures: list[AuditFailure]) -> None:
        """Take a batch in, with what the audit found in it."""


class AuditLog:
    """The last failures of the audit, the newest last."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self.failures: deque[AuditFailure] = deque(maxlen=MAX_KEPT)

    def add(self, failure: AuditFailure) -> None:
        """Keep a failure, and log it."""
        self.failures.append(failure)
        log.error("%s, batch %d: %s", self._pipeline, failure.batch, failure.message)


class RouteRepair:
    """Reads the routes once per batch, and publishes the last good ones again when the file in place is damaged.

    Attributes:
        routes: The routes that were published when the last batch ended, repaired if necessary.
    """

    def __init__(self, control_folder: ControlFolder, audit_log: AuditLog) -> None:
        self._control_folder, self._audit_log = control_folder.waiting(HURRIED_LOCK_SECONDS), audit_log
        self._said: str | None = None
        self.routes = control_folder.routes()

    def begin_anew(self) -> None:
        """Forget routes that were declared anew, for other pools, when the query was started again."""
        with suppress(RouteError):
            self.routes = self._control_folder.routes()

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Read the routes; replace them if they cannot be read, or lack an edge. What fails is tried again."""
        try:
            if self._is_damaged():
                good = self.routes
                self.routes = self._control_folder.change_routes(lambda found: found.restore(good), repair=True)
                self._say(report, "the route table was damaged and has been published again; no row was lost")
            self._said = None
        except ControlFolderError as error:
            self._say(report, f"the route table cannot be read or published again at present ({error})")

    def _is_damaged(self) -> bool:
        """Whether there is something to repair; a sound table is taken over."""
        try:
            table = self._control_folder.routes()
        except RouteError:
            return True
        if not self.routes.edges.keys() <= table.edges.keys():
            return True
        self.routes = table
        return False

    def _say(self, report: BatchReport, message: str) -> None:
        """Raise an alarm, unless it is the last one."""
        if message != self._said:
            self._said = message
            self._audit_log.add(AuditFailure("routes-unreadable", report.batch, None, message))


class StatusFile:
    """Writes what each batch showed to be in force to the control folder, for other terminals to read.

    It is the first to notice that the folder cannot be written: that is one alarm, and a problem as long as it lasts.
    """

    def __init__(self, control_folder: ControlFolder, audit_log: AuditLog, monitor: Monitor | None = None) -> None:
        self._control_folder, self._audit_log, self._monitor = control_folder, audit_log, monitor
        self.problem: str | None = None
        self._told = False

    def see(self, report: BatchReport, failures: list[AuditFailure]) -> None:
        """Write the status. Of empty batches only the first is told of: that the query runs, and waits for rows."""
        if not report.input_rows and self._is_told():
            return
        try:
            problems = () if self._monitor is None else self._monitor.problems
            self._control_folder.status.write(PipelineStatus.of(report, failures, problems, self._raised()))
            self._told = True
        except ControlFolderError as error:
            first, self.problem = self.problem is None, cannot_write(error)
            if first:
                self._audit_log.add(AuditFailure("folder-unwritable", report.batch, None, self.problem))
        else:
            self.problem = None

    def _is_told(self) -> bool:
        """Whether a batch was told of, maybe by an earlier start. The file is read once."""
        if not self._told:
            try:
                self._told = self._control_folder.status.pipeline() is not None
            except ControlFolderError:
                self._told = True  # it is damaged, and others say so
        return self._told

    def _raised(self) -> Iterator[RaisedAlarm]:
        for alarm in () if self._monitor is None else self._monitor.alarms:
            yield RaisedAlarm(alarm.rule.name, alarm.rule.severity, alarm.subject)


def cannot_write(error: ControlFolderError) -> str:
    """A sentence for an error of writing to the control folder."""
    return (
        f"{error}; the query runs on, but its status is not shown and its routes and limits cannot be changed until "
        "the control folder can be written again"
    )


class AuditCost:
    """Says when the XOR of tuple ids takes a larger share of the last batches than is allowed."""

    def __init__(self, cores: Callable[[], int], allowed: float) -> None:
        self._cores, self._allowed = cores, allowed
        self._shares: deque[float] = deque(maxlen=_BATCHES_OF_COST)
        self.problem: str | None = None

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in."""
        if not report.ids:
            return
        rows = sum(ids.sent_rows for ids in report.ids.values())
        self._shares.append(id_share(rows, report.duration, self._cores()))
        mean, was = sum(self._shares) / len(self._shares), self.problem
        self.problem = None
        if len(self._shares) == _BATCHES_OF_COST and mean > self._allowed:
            self.problem = (
                f"comparing tuple ids takes about {mean:.1%} of a batch; the next start leaves it out, unless "
                "run.max_audit_share is raised"
            )
            if was is None:
                log.warning("%s", self.problem)


class FeedbackGuard:
    """Counts the tuples that come back through the sink's files or topics, and raises when they keep growing.

    Attributes:
        gain: Tuples that came back for each one that entered, over the last reports; None while they are too few.
    """

    def __init__(self, topology: Topology, sink: Sink, patience: int) -> None:
        self._topology = topology
        returning = topology.feedback()
        self._feedback = [f"{source.component} -> {bolt.id}" for bolt, source in returning]
        self._path = getattr(sink, "path", None)
        self._topics = (
            {sink.topic_of(output_name(source.component, source.stream)) for _, source in returning}
            if isinstance(sink, KafkaSink)
            else set[str]()
        )
        self._gain = LoopGain(patience)

    @property
    def gain(self) -> float | None:  # noqa: D102 - an attribute
        return self._gain.gain

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in; raises FeedbackGrowthError once a loop has grown for too many batches."""
        if not self._feedback or not (self._path or self._topics):
            return
        returned = sum(source.input_rows for source in report.sources if self._returns(source))
        if report.returned:
            returned = self._see_real_time(report)
        else:
            self._gain.see(returned, report.input_rows)
        if self._gain.growing:
            name, feedback = self._topology.name, ", ".join(self._feedback)
            raise FeedbackGrowthError(name, feedback, self._gain.gain or 0.0, self._gain.patience, returned)

    def _see_real_time(self, report: BatchReport) -> int:
        """Take in what a second has shown; returns the tuples that the loop has sent back in it.

        A busy query reads them later than they are written: those that wait are what the loop holds.
        """
        loops = report.returned.values()
        returned = sum(each.tuples if each.written is None else each.written for each in loops)
        lags = [each.waiting for each in loops]
        held = None if None in lags else sum(lag or 0 for lag in lags)
        self._gain.see(returned, report.input_rows + sum(each.tuples for each in loops), held)
        return returned

    def _returns(self, source: SourceRange) -> bool:
        if self._path is not None:
            return _reads(source.description, self._path)
        return any(source.description == f"KafkaV2[Subscribe[{topic}]]" for topic in self._topics)


def _reads(description: str, path: str) -> bool:
    """Whether a source reads this folder. Spark writes `FileStreamSource[file:/data/out]`, however it was given."""
    parts = PurePosixPath(re.sub("^[a-z0-9]+:(//[^/]*)?", "", path)).parts
    tail = "/".join(part for part in parts if part not in ("/", ".."))
    return description.endswith(f"/{tail}]")


class LoadAwareBalance:
    """Splits load-aware edges of a pipeline without a control loop; a loop does so by its policy `load_aware`."""

    def __init__(self, intervals: dict[str, float], control_folder: ControlFolder) -> None:
        self._intervals, self._control_folder = intervals, control_folder.waiting(HURRIED_LOCK_SECONDS)
        self._sums: dict[str, TaskSums] = {}
        self._paused = False

    @classmethod
    def of(cls, topology: Topology, control_folder: ControlFolder, mode: str) -> LoadAwareBalance | None:
        """The listener for a topology's load-aware edges; None when it has none."""
        intervals = {
            bolt.id: source.grouping.every(mode)
            for bolt in topology.bolts
            for source in bolt.inputs
            if isinstance(source.grouping, LoadAware)
        }
        return cls(intervals, control_folder) if intervals else None

    def pause(self) -> None:
        """Leave it to a control loop."""
        self._paused, self._sums = True, {}

    def resume(self) -> None:
        """Do it again: the loop has ended."""
        self._paused = False

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in; at the end of an edge's interval, split it again."""
        for edge, interval in self._intervals.items() if not self._paused else ():
            flow = (report.edges or {}).get(edge)
            if flow is not None and flow.per_task is not None and flow.busy_ms is not None:
                none = (0.0,) * len(flow.per_task)
                sums = self._sums.get(edge, TaskSums(report.finished, report.finished, none, none))
                self._sums[edge] = sums.added(report.finished, flow.per_task, flow.busy_ms)
            known = self._sums.get(edge)
            if known is not None and report.finished - known.since >= interval and any(known.rows):
                none = (0.0,) * len(known.rows)
                self._sums[edge] = TaskSums(report.finished, report.finished, none, none)
                self._split(edge, known, interval)

    def _split(self, edge: str, sums: TaskSums, interval: float) -> None:
        with suppress(RouteError, ControlFolderError):  # an unreadable table is repaired elsewhere
            held = self._control_folder.orders.held().get(f"edge {edge}")
            if held is None or not held.holds(time.time()):
                self._control_folder.change_routes(partial(_balanced, edge=edge, sums=sums, interval=interval))


def _balanced(table: RouteTable, *, edge: str, sums: TaskSums, interval: float) -> RouteTable:
    """The table with the edge split again; unchanged if that would move hardly anything."""
    counts = tuple(map(float, table.route(edge).counts))
    wanted = balanced_split(counts, sums, interval, LoadAwareSettings().min_moved)
    return table if wanted is None else table.split(edge, wanted)
