"""Puts together the world that the control loop decides on, with what people request from any terminal."""

from __future__ import annotations

import queue
import time
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost, Restart
from foretide.control.history import RecordedWorld
from foretide.control.world.setup import Observed, Target
from foretide.control.world.world import Forecasts, World
from foretide.errors import ForetideError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.control.world.world import Forecast
    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.plan import JoinView
    from foretide.metrics.batch import BatchReport
    from foretide.metrics.snapshot import Snapshot
    from foretide.routing.table import RouteTable
    from foretide.runtime.forecasts.service import ForecastService
    from foretide.runtime.live_joins import Joins
    from foretide.runtime.pipeline.follower import Follower
    from foretide.runtime.pipeline.submit import Controllable
    from foretide.spark.executors import Executors
    from foretide.store.writer import StoreWriter

_WARM_UP_BATCHES = 3
"""Batches in which a worker must have had tuples before it is judged."""

_MAX_TABLES = 100


class WorldReader:
    """Reads setup, measurements, what is in force, forecasts and requests of one query."""

    def __init__(
        self,
        query: Controllable,
        executors: Executors,
        observer: Observer,
        target: Target,
        forecasts: ForecastService | None = None,
        joins: Joins | None = None,
    ) -> None:
        self._query, self._executors, self.observer = query, executors, observer
        self._target, self._forecasts, self._joins = target, forecasts, joins
        self._orders = Orders(query.follower.control_folder, time.time())
        self._reports: queue.SimpleQueue[tuple[BatchReport, RouteTable]] = queue.SimpleQueue()

    def see(self, report: BatchReport) -> None:
        """Take a batch in, with the routes that were published when it ended. The next `read` observes it."""
        self._reports.put((report, self._query.follower.routes))

    def read(self) -> World | None:
        """The world at this moment; None while too little is known of the query."""
        while not self._reports.empty():
            self.observer.see(*self._reports.get())
        setup = self._query.setup(self._executors)
        if setup is None:
            return None
        snapshot, observed = self._snapshot(), self.observer.observed()
        orders = self._orders.actions(observed)
        return World(setup, snapshot, observed, self._all_forecasts(snapshot.at), self.target, orders, joins=self.joins)

    def _snapshot(self) -> Snapshot:
        monitor = self._query.follower.monitor
        assert monitor is not None  # noqa: S101 - there is no control without monitoring
        return monitor.snapshot()

    def _all_forecasts(self, at: float) -> Forecasts:
        return Forecasts() if self._forecasts is None else self._forecasts.forecasts(at)

    def forecast(self, metric: str, subject: str) -> Forecast | None:
        """The forecast of one metric at this moment, whether policies use it or not."""
        return self._all_forecasts(time.time()).by_series.get((metric, subject))

    @property
    def target(self) -> Target:
        """The initial target with what people have changed since."""
        return self._orders.target(self._target)

    @property
    def joins(self) -> Mapping[str, JoinView]:
        """The joins of the query as they are known now, by name."""
        return {} if self._joins is None else self._joins.views()

    @property
    def problems(self) -> list[str]:
        """What cannot be read or done at present."""
        forecasts = [] if self._forecasts is None else self._forecasts.problems
        joins = [] if self._joins is None else self._joins.problems
        orders = [self._orders.problem] if self._orders.problem else []
        return [*orders, *self._executors.limits, *forecasts, *joins]

    @property
    def forecast_log(self) -> list[str]:
        """What became of the models that were fitted, the newest last."""
        return [] if self._forecasts is None else list(self._forecasts.log)

    def start(self) -> None:
        """Start forecasting."""
        if self._forecasts is not None:
            self._forecasts.start()

    def close(self) -> None:
        """End forecasting."""
        if self._forecasts is not None:
            self._forecasts.close()


class WorldRecorder:
    """Stores what a replay of decisions needs of the world, whenever it has changed."""

    def __init__(self, writer: StoreWriter | None) -> None:
        self._writer = writer
        self._last: RecordedWorld | None = None

    def note(self, world: World, policies: tuple[str, ...]) -> None:
        """Store setup, target and what is in force, unless they are as they were."""
        if self._writer is None:
            return
        joins = {name: view.of_its_window() for name, view in world.joins.items()}
        recorded = RecordedWorld(world.at, world.setup, world.target, world.observed, policies, joins)
        if self._last is None or replace(self._last, at=recorded.at) != recorded:
            self._last = recorded
            self._writer.put_setup(recorded)


class Orders:
    """Reads requests from the control folder. An invalid one is described in `problem` and has no effect."""

    def __init__(self, control_folder: ControlFolder, since: float) -> None:
        self._control_folder, self._since = control_folder, since
        self._drained_before: frozenset[str] = frozenset()
        self.problem: str | None = None

    def target(self, initial: Target) -> Target:
        """The initial target with what people have changed."""
        try:
            target = self._control_folder.orders.target().apply(initial)
        except ForetideError as error:
            self.problem = f"the requested target is invalid ({error}); the initial one is held"
            return initial
        self.problem = None
        return target

    def actions(self, observed: Observed) -> tuple[Action, ...]:
        """What was requested and is not in force."""
        drained = observed.drained
        wanted: list[Action] = [_take_out(place, observed) for place in sorted(drained)]
        wanted += [_let_in(place, observed) for place in sorted(self._drained_before - drained)]
        still_out = {place for place in self._drained_before if not _let_in(place, observed).in_force(observed)}
        self._drained_before = drained | still_out
        restart = self._restart(observed)
        wanted += [] if restart is None else [restart]
        return tuple(action for action in wanted if not action.in_force(observed))

    def _restart(self, observed: Observed) -> Restart | None:
        """The restart that was requested since this loop started, unless the query was restarted since."""
        try:
            order = self._control_folder.orders.restart()
            if order is None or order.at < self._since or observed.started > order.at:
                return None
            return Restart(order.reason, order.state_partitions, order.pools, after=order.at)
        except ForetideError as error:
            self.problem = f"the requested restart is invalid: {error}"
            return None


def _take_out(place: str, observed: Observed) -> Quarantine | QuarantineHost:
    return Quarantine(place) if place in observed.executors else QuarantineHost(place)


def _let_in(place: str, observed: Observed) -> Release | ReleaseHost:
    return Release(place) if place in observed.executors else ReleaseHost(place)


class Observer:
    """Sees every batch of a query, and says what is in force, according to what Spark reports.

    That is the route version that the last batch read, the live executors, those on Spark's exclusion list that ran
    nothing in the last batch, and the admission limits that were there when it began.
    """

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
