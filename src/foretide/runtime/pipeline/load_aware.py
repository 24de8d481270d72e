"""Balances load-aware edges: once per interval, Algorithm 1 of PA-SPS over the execution times of the replicas.

A micro-batch leaves no queue behind, so every interval starts at utilization 0 and only the replicas' own execution
times tell them apart. (Starting from the last interval's utilization, as printed, swings between two splits.)
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from foretide.errors import RouteError
from foretide.routing.ring import assign
from foretide.topology.groupings import LoadAware

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport, EdgeFlow
    from foretide.routing.table import RouteTable
    from foretide.topology.graph import Topology

_MIN_MOVED_SHARE = 0.05


class LoadAwareBalance:
    """Sums up rows and busy time of each replica, and publishes a new split when it differs enough."""

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
            if flow is not None:
                self._note(edge, flow)
            began = self._since.setdefault(edge, report.finished)
            if report.finished - began >= interval and self._rows[edge]:
                self._since[edge] = report.finished
                self._split(edge, interval)

    def _note(self, edge: str, flow: EdgeFlow) -> None:
        if flow.per_task is None or flow.busy_ms is None:
            return
        self._rows[edge] = _added(self._rows[edge], flow.per_task)
        self._busy[edge] = _added(self._busy[edge], flow.busy_ms)

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
