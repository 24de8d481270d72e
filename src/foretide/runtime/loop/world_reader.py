"""Puts together the world that the control loop decides on, with what people request from any terminal."""

from __future__ import annotations

import math
import queue
import time
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from foretide.control.actions.registry import SetExecutors
from foretide.control.history import RecordedForecasts, RecordedWorld, forecast_period
from foretide.control.world.measured import arrivals_ahead
from foretide.control.world.setup import Observed, Target
from foretide.control.world.world import Forecasts, World
from foretide.errors import ControlFolderError
from foretide.runtime.loop.orders import Orders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.control.world.setup import Setup
    from foretide.control.world.world import Forecast
    from foretide.control_folder.orders import LoopMode
    from foretide.joins.plan import JoinView
    from foretide.metrics.batch import BatchReport
    from foretide.metrics.snapshot import Key
    from foretide.routing.table import RouteTable
    from foretide.runtime.forecasts.service import ForecastService
    from foretide.runtime.live_joins import Joins
    from foretide.runtime.monitoring.monitor import Monitor
    from foretide.runtime.pipeline.followed import Controllable
    from foretide.runtime.pipeline.follower import Follower
    from foretide.spark.executors import Executors
    from foretide.store.writer import StoreWriter

_WARM_UP_BATCHES = 3
"""Batches in which a worker must have had tuples before it is judged."""

_AHEAD_SECONDS = 30.0
"""How far ahead the load is looked at for alarms."""

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
        self._orders = Orders(query.follower.control_folder)
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
        snapshot, forecasts = self._monitor.snapshot(), self._all_forecasts(time.time())
        held = self._orders.held()
        observed = replace(self.observer.observed(), drained=self._orders.drained())
        setup = replace(setup, executors=self._executors.range)  # more executors may have come since the start
        self._orders.check_admission()
        orders = (*self._orders.actions(observed), *_within_range(setup, observed))
        holders = {subject: order.describe() for subject, order in held.items()}
        setup = setup.with_held(holders, observed)
        return World(setup, snapshot, observed, forecasts, self.target, orders, joins=self.joins, held=holders)

    @property
    def _monitor(self) -> Monitor:
        monitor = self._query.follower.monitor
        assert monitor is not None  # noqa: S101 - there is no control without monitoring
        return monitor

    def set_trusted(self, world: World, trusted: Forecasts) -> None:
        """Hand the forecasts that are trusted to the alarm rules."""
        self._monitor.set_forecasts(forecast_input(world, trusted))

    def _all_forecasts(self, at: float) -> Forecasts:
        return Forecasts() if self._forecasts is None else self._forecasts.forecasts(at)

    def forecast(self, metric: str, subject: str) -> Forecast | None:
        """The forecast of one metric at this moment, whether policies use it or not."""
        return self._all_forecasts(time.time()).by_series.get((metric, subject))

    @property
    def target(self) -> Target:
        """The initial target with what people have changed since."""
        return self._orders.target(self._target)

    def mode(self, initial: LoopMode) -> LoopMode:
        """What the loop is to do: the initial mode, or what people have changed it to."""
        return self._orders.mode(initial)

    @property
    def latency_basis(self) -> str | None:
        """What the latency of a query without a topology is measured from."""
        return self._monitor.latency_basis

    @property
    def drained(self) -> frozenset[str]:
        """Hosts and workers that are to be out of service, as they were read last."""
        return self._orders.last_drained

    @property
    def joins(self) -> Mapping[str, JoinView]:
        """The joins of the query as they are known now, by name."""
        return {} if self._joins is None else self._joins.views()

    @property
    def problems(self) -> list[str]:
        """What cannot be read or done at present."""
        forecasts = [] if self._forecasts is None else self._forecasts.problems
        joins = [] if self._joins is None else self._joins.problems
        return [*self._orders.problems, *self._executors.limits, *forecasts, *joins]

    @property
    def forecast_log(self) -> list[str]:
        """What became of the models that were fitted, the newest last."""
        return [] if self._forecasts is None else list(self._forecasts.log)

    def start(self) -> None:
        """Start forecasting."""
        if self._forecasts is not None:
            self._forecasts.start()

    def close(self) -> None:
        """End forecasting. Alarms do not go on referring to the last forecasts."""
        self._monitor.set_forecasts({})
        if self._forecasts is not None:
            self._forecasts.close()


def _within_range(setup: Setup, observed: Observed) -> tuple[SetExecutors, ...]:
    """What brings the number of executors between the minimum and the maximum of the settings, if it is not."""
    if setup.executors is None or not observed.executors:
        return ()
    least, most = setup.executors
    now = len(observed.executors)
    wanted = min(max(now, least), most)
    return () if wanted == now else (SetExecutors(wanted),)


def forecast_input(world: World, trusted: Forecasts) -> dict[Key, float]:
    """The forecast load of the query, for alarms."""
    load = arrivals_ahead(replace(world, forecasts=trusted), _AHEAD_SECONDS)
    return {} if load is None else {("input_rows_per_second", world.setup.query): load}


class WorldRecorder:
    """Stores what a replay of decisions needs of the world, whenever it has changed, and its forecasts now and then."""

    def __init__(self, writer: StoreWriter | None) -> None:
        self._writer = writer
        self._last: RecordedWorld | None = None
        self._next_forecasts = -math.inf

    def note(self, world: World, policies: tuple[str, ...]) -> None:
        """Store setup, target and what is in force, unless they are as they were; and all forecasts when it is time."""
        if self._writer is None:
            return
        joins = {name: view.of_its_window() for name, view in world.joins.items()}
        recorded = RecordedWorld(world.at, world.setup, world.target, world.observed, policies, joins)
        if self._last is None or replace(self._last, at=recorded.at) != recorded:
            self._last = recorded
            self._writer.put_setup(recorded)
        count = len(world.forecasts.by_series)
        if count and not self._next_forecasts - forecast_period(count) < world.at < self._next_forecasts:
            self._next_forecasts = world.at + forecast_period(count)
            self._writer.put_forecasts(RecordedForecasts.of(world.at, world.forecasts))


class Observer:
    """Sees every batch of a query, and says what is in force, according to what Spark reports.

    That is the route version that the last batch read, the live executors, those on Spark's exclusion list that ran
    nothing in the last batch, and the admission limits that were there when it began.

    Attributes:
        busy: The executors that ran tasks in the last batch.
        until: When that batch ended.
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
        self.busy: frozenset[str] = frozenset()
        self.until = 0.0
        self._placed: dict[tuple[str, int], str] = {}
        self._restarting: tuple[str, float] | None = None
        self._restarted: str | None = None

    def note_routes(self, table: RouteTable) -> None:
        """Remember routes that were published, so that a later batch can be held against them."""
        self._tables[table.version] = table
        while len(self._tables) > _MAX_TABLES:
            self._tables.popitem(last=False)

    def note_limits(self, at: float) -> None:
        """Remember the admission limits that are published now."""
        try:
            limits = self._follower.control_folder.orders.admission()
        except ControlFolderError:  # the spouts, which read the same file, keep their limits
            return
        if not self._limits or self._limits[-1][1] != limits:
            self._limits = [*self._limits[-_MAX_TABLES:], (at, limits)]

    def note_restart(self, order: str) -> None:
        """Remember the order for which the query is about to be restarted."""
        self._restarting = (order, self._follower.query.started)

    def _restart_order(self) -> str | None:
        """The order for which the query was restarted last. It is known by another start, however clocks are set."""
        if self._restarting is not None and self._follower.query.started != self._restarting[1]:
            self._restarted, self._restarting = self._restarting[0], None
        return self._restarted

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
            stays = self._follower.query.tasks_stay  # then a report names idle tasks where they were last
            self.busy = frozenset(run.worker for run in report.tasks if run.rows_in or run.rows_out or not stays)
            self.until = report.finished
        if self._follower.query.tasks_stay:
            active = [run for run in report.tasks or () if run.edge is not None and run.rows_in]
            self._placed |= {(str(run.edge), run.task): run.worker for run in active if run.task is not None}
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
            quarantined=(self._executors.quarantined() & frozenset(executors)) - self.busy,
            idle=frozenset(worker for worker in executors if not self._batches[worker]),
            young=frozenset(worker for worker in executors if self._batches[worker] < _WARM_UP_BATCHES),
            admission=self._admission,
            placements={name: self._placements(name, route.pool, executors) for name, route in edges.items()}
            if self._placed
            else {},
            state_partitions=self._state_partitions,
            pools={name: route.pool for name, route in edges.items()},
            restart_order=self._restart_order(),
            joins={} if self._joins is None else self._joins.in_force(),
        )

    def _placements(self, edge: str, pool: int, executors: Mapping[str, str]) -> tuple[str | None, ...]:
        """The worker that each task behind an edge had tuples on last; None if it is not known, or gone."""
        found = (self._placed.get((edge, task)) for task in range(pool))
        return tuple(worker if worker in executors else None for worker in found)
