"""What is in force, according to what Spark reports.

The route version that the last batch read, the live executors, those on Spark's exclusion list that ran nothing in
the last batch, and the admission limits that were there when it began.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from foretide.control.world.setup import Observed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.metrics.batch import BatchReport
    from foretide.routing.table import RouteTable
    from foretide.runtime.joins.joins import Joins
    from foretide.runtime.pipeline.follower import Follower
    from foretide.spark.executors.executors import Executors

_MAX_TABLES = 100
_WARM_UP_BATCHES = 3
"""Batches in which a worker must have had tuples before it is judged."""


class Observer:
    """Sees every batch of a query, and says what is in force."""

    def __init__(self, follower: Follower, executors: Executors, joins: Joins | None = None) -> None:
        self._follower, self._executors, self._joins = follower, executors, joins
        self._tables: OrderedDict[int, RouteTable] = OrderedDict()
        self._in_force: RouteTable | None = None
        self._version: int | None = None
        self._limits: list[tuple[float, dict[str, int]]] = []
        self._admission: Mapping[str, int | None] = {}
        self._state_partitions: int | None = None
        self._batches: Counter[str] = Counter()
        self._busy: frozenset[str] = frozenset()

    def note_routes(self, table: RouteTable) -> None:
        """Remember routes that were published, so that a later batch can be held against them."""
        self._tables[table.version] = table
        while len(self._tables) > _MAX_TABLES:
            self._tables.popitem(last=False)

    def note_limits(self, at: float) -> None:
        """Remember the admission limits that are published now."""
        limits = self._follower.control_folder.orders.admission()
        if not self._limits or self._limits[-1][1] != limits:
            self._limits = [*self._limits[-_MAX_TABLES:], (at, limits)]

    def see(self, report: BatchReport, routes: RouteTable) -> None:
        """Take a batch in, with the routes that were published when it ended: what it read was in force."""
        self.note_routes(routes)
        self.note_limits(report.finished)
        version = report.route_version
        if version is not None and version in self._tables:
            self._version, self._in_force = version, self._tables[version]
        began = report.finished - report.duration
        known = [limits for at, limits in self._limits if at <= began]
        self._admission = {**(known[-1] if known else self._limits[0][1] if self._limits else {})}
        if report.tasks is not None:
            self._busy = frozenset(run.worker for run in report.tasks)
        self._batches.update({run.worker for run in report.tasks or () if run.rows_in})
        if report.state is not None and report.state.partitions:
            self._state_partitions = report.state.partitions

    def observed(self) -> Observed:
        """What is in force at this moment."""
        edges = {} if self._in_force is None else self._in_force.edges
        executors = self._executors.executors()
        return Observed(
            routes={name: tuple(map(float, route.counts)) for name, route in edges.items()},
            route_version=self._version,
            executors=executors,
            quarantined=(self._executors.quarantined() & frozenset(executors)) - self._busy,
            young=frozenset(worker for worker in executors if self._batches[worker] < _WARM_UP_BATCHES),
            drained=self._follower.control_folder.orders.drained(),
            admission=self._admission,
            state_partitions=self._state_partitions,
            pools={name: route.pool for name, route in edges.items()},
            started=self._follower.query.started,
            joins={} if self._joins is None else self._joins.in_force(),
        )
