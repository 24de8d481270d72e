"""Puts together the world that the control loop decides on, with what people request from any terminal."""

from __future__ import annotations

import queue
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost, Restart
from foretide.control.history import RecordedWorld
from foretide.control.world.setup import Target
from foretide.control.world.world import Forecasts, World
from foretide.errors import ForetideError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.control.world.setup import Observed
    from foretide.control.world.world import Forecast
    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.view import JoinView
    from foretide.metrics.batch import BatchReport
    from foretide.metrics.snapshot import Snapshot
    from foretide.routing.table import RouteTable
    from foretide.runtime.forecasts.service import ForecastService
    from foretide.runtime.joins.joins import Joins
    from foretide.runtime.loop.observer import Observer
    from foretide.runtime.pipeline.followed import Controllable
    from foretide.spark.executors.executors import Executors
    from foretide.store.writer import StoreWriter


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
