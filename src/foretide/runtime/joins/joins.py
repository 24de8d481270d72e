"""The joins of a running query: they see every batch; the control loop reads their views and changes their plans."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING

from foretide.errors import JoinPlanError
from foretide.joins.placement.salts import tail_partition
from foretide.joins.plan import JoinCost, JoinView, with_imbalance
from foretide.joins.settings import WindowSettings
from foretide.joins.task_costs import TaskCosts
from foretide.runtime.joins.key_windows import KeyWindows
from foretide.runtime.joins.publisher import JoinPlanPublisher, ReadMaxima
from foretide.spark.joins.cells import hard_end_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.plan import DefaultPartition, JoinPlan
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.forecasts.keys import LiveKeyForecast

_WINDOWS = WindowSettings()
log = logging.getLogger("foretide")


class LiveJoin:
    """One join of a running query: its plan, the windows of its keys, and what its tasks cost."""

    def __init__(
        self,
        folder: ControlFolder,
        name: str,
        read_maxima: ReadMaxima | None = None,
        windows: WindowSettings = _WINDOWS,
        forecast: LiveKeyForecast | None = None,
    ) -> None:
        self.publisher = JoinPlanPublisher(folder, name, read_maxima)
        self.forecast = forecast
        self._windows = KeyWindows(windows, forecast)
        self._costs = TaskCosts()
        self._window_cost: JoinCost | None = None
        self._lock = threading.Lock()

    def see(self, report: BatchReport) -> None:
        """Take a batch in, in the order in which they were committed."""
        with self._lock:
            if report.state is not None and report.state.partitions:
                self.publisher.set_partitions(report.state.partitions)
            self._learn(report)
            self.publisher.see(report)

    def view(self) -> JoinView:
        """The join as the control loop sees it."""
        with self._lock:
            spec, (plan, pending) = self.publisher.spec, self.publisher.plans()
            keys, tail = self._windows.last(spec.partitions)
            forecast, forecast_tail = self._windows.forecast(spec.partitions)
            view = JoinView(
                name=self.publisher.name,
                partitions=spec.partitions,
                how=spec.bound.how,
                windows=self._windows.complete,
                keys=keys,
                tail=tail,
                forecast=forecast,
                forecast_tail=forecast_tail,
                forecast_by=self._windows.forecast_by,
                rows=self._costs.rows,
                plan=plan,
                pending=pending,
                problem=self.publisher.obstacle,
                names=self._windows.names,
                cost=self._window_cost,
            )
            return with_imbalance(view, self._default_partition) if self._windows.count else view

    def close(self) -> None:
        """Take back a change that is under way, which nobody would finish, and end the forecasts."""
        self.publisher.cancel()
        if self.forecast is not None:
            self.forecast.close()

    @property
    def problems(self) -> list[str]:
        """What keeps the plan from being changed, and keys from being forecast."""
        found = (self.publisher.problem, None if self.forecast is None else self.forecast.problem)
        return [problem for problem in found if problem]

    def _learn(self, report: BatchReport) -> None:
        """Count the keys of a batch and learn from its tasks, which ran under the plan published before it."""
        batch = report.joins.get(self.publisher.name)
        if batch is None and report.input_rows:
            return
        plan, partitions = self.publisher.plans()[0], self.publisher.spec.partitions
        self._costs = self._costs.learned(report, batch, plan, partitions, self._default_partition)
        if batch is not None and self._windows.see(report, batch.left, batch.right):
            self._window_cost = self._costs.of_window(self._windows.batches)

    @property
    def _default_partition(self) -> DefaultPartition:
        return partial(tail_partition, partitions=self.publisher.spec.partitions)


class Joins:
    """The joins of a query, by name."""

    def __init__(
        self,
        folder: ControlFolder,
        windows: WindowSettings,
        read_maxima: ReadMaxima | None = None,
        forecast: Callable[[str], LiveKeyForecast] | None = None,
    ) -> None:
        self._joins = {
            name: LiveJoin(folder, name, read_maxima, windows, None if forecast is None else forecast(name))
            for name in folder.joins()
        }

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in."""
        for join in self._joins.values():
            join.see(report)

    def adopt(self, join: str, plan: JoinPlan) -> None:
        """Begin a change of plan."""
        if join not in self._joins:
            raise JoinPlanError(f"there is no join '{join}'; joins of this query: {', '.join(self._joins) or 'none'}")
        self._joins[join].publisher.adopt(plan)

    def died(self, message: str) -> bool:
        """Whether a query died at the hard end of a change, which has then been moved: it may be started again."""
        failure = hard_end_failure(message)
        if failure is None:
            return False
        for join in self._joins.values():
            join.publisher.retry(failure.reached)
        log.warning("a batch ran ahead of an announced plan and is tried again; nothing was lost: %s", failure)
        return True

    def close(self) -> None:
        """Take back all changes that are under way: nobody would finish them, and queries would run into hard ends."""
        for join in self._joins.values():
            join.close()

    def views(self) -> Mapping[str, JoinView]:
        """Every join as it is known now."""
        return {name: join.view() for name, join in self._joins.items()}

    def in_force(self) -> dict[str, JoinPlan]:
        """The plan that was published last, by join."""
        return {name: join.publisher.plans()[0] for name, join in self._joins.items()}

    @property
    def problems(self) -> list[str]:
        """What keeps plans from being changed, and keys from being forecast, in sentences."""
        return [problem for join in self._joins.values() for problem in join.problems]
