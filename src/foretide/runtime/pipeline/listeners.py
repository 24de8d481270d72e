"""Listeners of a followed query: its audit, routes and status file, its feedback loops and its load-aware edges."""

from __future__ import annotations

import logging
import re
from collections import defaultdict, deque
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from foretide.control_folder.folder import PipelineStatus
from foretide.errors import FeedbackGrowthError, RouteError
from foretide.metrics.audit import AuditFailure, LoopGain
from foretide.routing.ring import assign
from foretide.routing.table import RouteTable
from foretide.topology.groupings import LoadAware

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.batch import BatchReport
    from foretide.topology.graph import Topology
    from foretide.topology.sinks import Sink

MAX_KEPT = 1000
"""Reports and audit failures that are kept in memory."""

_MIN_MOVED_SHARE = 0.05
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
        self._control_folder, self._audit_log = control_folder, audit_log
        self.routes = control_folder.routes()

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Read the routes; replace them if they cannot be read, or lack an edge."""
        try:
            table = self._control_folder.routes()
        except RouteError:
            table = RouteTable()
        good = self.routes
        if good.edges.keys() <= table.edges.keys():
            self.routes = table
            return
        self.routes = self._control_folder.change_routes(lambda found: found.restore(good), repair=True)
        message = "the route table was damaged and has been published again; no row was lost"
        self._audit_log.add(AuditFailure("routes-unreadable", report.batch, None, message))


class StatusFile:
    """Writes what each batch showed to be in force to the control folder, for other terminals to read."""

    def __init__(self, control_folder: ControlFolder) -> None:
        self._control_folder = control_folder

    def see(self, report: BatchReport, failures: list[AuditFailure]) -> None:
        """Write the status, unless the batch was empty."""
        if report.input_rows:
            self._control_folder.status.write(PipelineStatus.of(report, failures))


class FeedbackGuard:
    """Counts the tuples that come back through the sink's files, and raises when they keep growing."""

    def __init__(self, topology: Topology, sink: Sink, patience: int) -> None:
        self._topology = topology
        self._path = getattr(sink, "path", None)
        self._feedback = [
            f"{source.component} -> {bolt.id}" for bolt in topology.bolts for source in bolt.inputs if source.feedback
        ]
        self._gain = LoopGain(patience)

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in; raises FeedbackGrowthError once a loop has grown for too many batches."""
        if not self._feedback or self._path is None:
            return
        returned = sum(source.input_rows for source in report.sources if _reads(source.description, self._path))
        self._gain.see(returned, report.input_rows)
        if self._gain.growing:
            name, feedback = self._topology.name, ", ".join(self._feedback)
            raise FeedbackGrowthError(name, feedback, self._gain.gain or 0.0, self._gain.patience, returned)


def _reads(description: str, path: str) -> bool:
    """Whether a source reads this folder. Spark writes `FileStreamSource[file:/data/out]`, however it was given."""
    parts = PurePosixPath(re.sub("^[a-z0-9]+:(//[^/]*)?", "", path)).parts
    tail = "/".join(part for part in parts if part not in ("/", ".."))
    return description.endswith(f"/{tail}]")


class LoadAwareBalance:
    """Once per interval, splits load-aware edges by Algorithm 1 of PA-SPS over the execution times of the replicas.

    A micro-batch leaves no queue behind, so every interval starts at utilization 0 and only the replicas' own execution
    times tell them apart. (Starting from the last interval's utilization, as printed, swings between two splits.)
    """

    def __init__(self, intervals: dict[str, float], control_folder: ControlFolder) -> None:
        self._intervals, self._control_folder = intervals, control_folder
        self._since: dict[str, float] = {}
        self._rows: dict[str, list[int]] = defaultdict(list)
        self._busy: dict[str, list[int]] = defaultdict(list)

    @classmethod
    def of(cls, topology: Topology, control_folder: ControlFolder) -> LoadAwareBalance | None:
        """The listener for a topology's load-aware edges; None when it has none."""
        intervals = {
            bolt.id: source.grouping.interval
            for bolt in topology.bolts
            for source in bolt.inputs
            if isinstance(source.grouping, LoadAware)
        }
        return cls(intervals, control_folder) if intervals else None

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in; at the end of an edge's interval, split it again."""
        for edge, interval in self._intervals.items():
            flow = (report.edges or {}).get(edge)
            if flow is not None and flow.per_task is not None and flow.busy_ms is not None:
                self._rows[edge] = _added(self._rows[edge], flow.per_task)
                self._busy[edge] = _added(self._busy[edge], flow.busy_ms)
            began = self._since.setdefault(edge, report.finished)
            if report.finished - began >= interval and self._rows[edge]:
                self._since[edge] = report.finished
                self._split(edge, interval)

    def _split(self, edge: str, interval: float) -> None:
        rows, busy = self._rows.pop(edge), self._busy.pop(edge)
        if not any(rows):
            return
        with suppress(RouteError):  # an unreadable table is repaired elsewhere
            self._control_folder.change_routes(lambda table: _balanced(table, edge, rows, busy, interval))


def _balanced(table: RouteTable, edge: str, rows: Sequence[int], busy: Sequence[int], interval: float) -> RouteTable:
    """The table with the edge split again; unchanged if that would move hardly anything."""
    route = table.route(edge)
    active = [task for task, count in enumerate(route.counts) if count]
    per_slot = sum(rows) / len(route.ring)
    cost = [per_slot * _per_row(rows, busy, task) / 1000 / interval for task in active]
    wanted = [0] * route.pool
    for task, slots in zip(active, assign([0.0] * len(active), cost, len(route.ring)), strict=True):
        wanted[task] = slots
    moved = sum(abs(new - old) for new, old in zip(wanted, route.counts, strict=True)) / 2
    return table.split(edge, wanted) if moved > _MIN_MOVED_SHARE * len(route.ring) else table


def _per_row(rows: Sequence[int], busy: Sequence[int], task: int) -> float:
    """Milliseconds a row: the mean where there were no rows, and never 0, or some replica loses its slots for good."""
    if not rows[task]:
        return max(1, sum(busy)) / sum(rows)
    return max(1, busy[task]) / rows[task]


def _added(sums: Sequence[int], values: Sequence[int]) -> list[int]:
    return [one + other for one, other in zip(sums, values, strict=True)] if sums else list(values)
