"""The joins of a running query: they see every batch; the control loop reads their views and changes their plans."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING

from foretide.errors import JoinPlanError
from foretide.forecasting.key_models import KeyVote
from foretide.joins.placement.salts import tail_partition
from foretide.joins.plan import JoinCost, JoinView, Loads, loads_of, with_imbalance
from foretide.joins.settings import WindowSettings
from foretide.joins.task_costs import TaskCosts
from foretide.metrics.batch import JoinSide, StateSize
from foretide.metrics.metric import Sample
from foretide.runtime.forecasts.keys import MODEL
from foretide.runtime.join_plans import JoinPlanPublisher, ReadMaxima
from foretide.spark.joins.cells import hard_end_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from foretide.control_folder.folder import ControlFolder
    from foretide.forecasting.key_models import Key
    from foretide.joins.plan import DefaultPartition, JoinPlan
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.forecasts.keys import LiveKeyForecast

_WINDOWS = WindowSettings()
_LEFT, _RIGHT = 0, 1
_OTHERS = "others"
IMBALANCE = "join_imbalance"
_MAX_NAMES = 5_000
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
        self._state = StateSize(0, 0, 0)
        self._lock = threading.Lock()

    def see(self, report: BatchReport) -> None:
        """Take a batch in, in the order in which they were committed."""
        with self._lock:
            if report.state is not None and report.state.partitions:
                self.publisher.set_partitions(report.state.partitions)
            self._learn(report)
            self.publisher.see(report)
            self._state = report.state or self._state

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
                state_rows=self._state.join_rows,
                state_bytes=self._state.join_bytes,
                window=self._windows.windows.window,
                joiners=self._costs.joiners,
            )
            return with_imbalance(view, self._default_partition) if self._windows.count else view

    def samples(self, at: float) -> list[Sample]:
        """LI by the rows that the tasks of the last batch took in, or else by the keys of the last window."""
        view = self.view()
        li = view.imbalance if view.measured_imbalance is None else view.measured_imbalance
        return [] if li is None else [Sample(IMBALANCE, view.name, at, li)]

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
        """Count the keys of a batch and learn from its tasks, which ran under the plan that it has read."""
        batch = report.joins.get(self.publisher.name)
        if batch is None and report.input_rows:
            return
        plan, partitions = (
            self.publisher.plan_read(None if batch is None else batch.plan),
            self.publisher.spec.partitions,
        )
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
        put: Callable[[list[Sample]], None] = lambda _: None,
    ) -> None:
        """The joins that are declared in a control folder; `put` takes in what is measured of them."""
        self._put = put
        self._joins = {
            name: LiveJoin(folder, name, read_maxima, windows, None if forecast is None else forecast(name))
            for name in folder.joins()
        }
        self._closed = False

    def see(self, report: BatchReport, _: list[AuditFailure]) -> None:
        """Take a batch in. Once closed nothing is done: another loop may change the plans now."""
        if self._closed:
            return
        for join in self._joins.values():
            join.see(report)
        self._put([sample for join in self._joins.values() for sample in join.samples(report.finished)])

    def adopt(self, join: str, plan: JoinPlan) -> None:
        """Begin a change of plan."""
        if join not in self._joins:
            raise JoinPlanError(f"there is no join '{join}'; joins of this query: {', '.join(self._joins) or 'none'}")
        self._joins[join].publisher.adopt(plan)

    def died(self, message: str) -> bool:
        """Whether a query died of the plan of a join, which has been mended: it may be started again.

        It met the hard end of a change, which has then been moved, or a plan that was lost, which has been put back.
        """
        failure = hard_end_failure(message)
        if self._closed:
            return False
        if failure is None:
            put_back = [join.publisher.put_back() for join in self._joins.values()]  # several may be lost
            return any(put_back)
        for join in self._joins.values():
            join.publisher.retry(failure.reached)
        log.warning("a batch ran ahead of an announced plan and is tried again; nothing was lost: %s", failure)
        return True

    def close(self) -> None:
        """Take back all changes that are under way: nobody would finish them, and queries would run into hard ends."""
        self._closed = True
        for join in self._joins.values():
            join.close()

    def views(self) -> Mapping[str, JoinView]:
        """Every join as it is known now."""
        return {name: join.view() for name, join in self._joins.items()}

    def in_force(self) -> dict[str, JoinPlan]:
        """The plan that the last batch has read, by join."""
        return {name: join.publisher.plan_read() for name, join in self._joins.items()}

    @property
    def problems(self) -> list[str]:
        """What keeps plans from being changed, and keys from being forecast, in sentences."""
        return [problem for join in self._joins.values() for problem in join.problems]


class KeyWindows:
    """Counts keys window by window; on each side the model that did best of late forecasts the next window.

    A window is the batches that ended in its seconds; batches report the most frequent keys of both sides, and all
    other rows are the tail, which the hash spreads evenly. `count` windows are over; the last had `batches` batches.
    """

    def __init__(self, windows: WindowSettings, net: LiveKeyForecast | None = None) -> None:
        self.windows, self.count, self.batches = windows, 0, 0
        self.names: dict[int, str] = {}
        self._net, self._votes = net, (KeyVote(), KeyVote())
        self._began: float | None = None
        self._number = 0
        self._batches: deque[tuple[float, JoinSide | None, JoinSide | None]] = deque()
        self._last: tuple[Mapping[int, int], Mapping[int, int]] = ({}, {})
        self._last_rows = (0, 0)

    def see(self, report: BatchReport, left: JoinSide | None, right: JoinSide | None) -> bool:
        """Add a batch, and close a window once it is over; whether that was now."""
        if self._began is None:
            self._began = report.finished - report.duration
            self._number = self.windows.number(self._began)
        self._batches.append((report.finished, left, right))
        for side in (left, right):
            if side is not None:
                self.names = {**self.names, **side.names}
                if len(self.names) > _MAX_NAMES:
                    self.names = dict(side.names)
        number = self.windows.number(report.finished)
        if number > self._number and report.finished - self._began >= self.windows.window:
            self._number = number
            self._close(report.finished - self.windows.window)
            return True
        return False

    def _close(self, since: float) -> None:
        while len(self._batches) > 1 and self._batches[0][0] <= since:
            self._batches.popleft()
        left, right = _total(left for _, left, _ in self._batches), _total(right for *_, right in self._batches)
        if not left.rows + right.rows:
            return
        self._take_forecast()
        self._last, self._last_rows = (left.keys or {}, right.keys or {}), (left.rows, right.rows)
        self.batches = len(self._batches)
        sides = [self._counts(side) for side in (_LEFT, _RIGHT)]
        for vote, window in zip(self._votes, sides, strict=True):
            vote.learn(window)
        self.count += 1
        if self._net is not None:
            self._net.learn(self.count, sides)

    def _counts(self, side: int) -> dict[Key, float]:
        counts: dict[Key, float] = {key: float(rows) for key, rows in self._last[side].items()}
        counts[_OTHERS] = max(self._last_rows[side] - sum(counts.values()), 0.0)
        return counts

    def _take_forecast(self) -> None:
        """Hand the net's forecast of the open window to the votes, if it has arrived."""
        expected = None if self._net is None else self._net.expected(self.count)
        for vote, shares in zip(self._votes, expected or (), strict=False):
            vote.add(MODEL, shares)

    @property
    def complete(self) -> int:
        """Windows whose forecast is final: the last one counts only once a net that keeps up has answered."""
        return self.count if self._net is None or not self._net.is_awaited(self.count) else self.count - 1

    @property
    def forecast_by(self) -> str:
        """The models behind the forecast, each once."""
        return " and ".join(dict.fromkeys(vote.best.model for vote in self._votes if vote.best))

    def last(self, partitions: int) -> Loads:
        """Rows of the last window."""
        left, right = self._last
        return loads_of(left, right, self._last_rows, partitions)

    def forecast(self, partitions: int) -> Loads:
        """Rows of the next window, if as many arrive as in the last one."""
        if not self.count:
            return (), ()
        self._take_forecast()
        counts = [
            {int(key): share * rows for key, share in best.shares.items() if key != _OTHERS} if best else {}
            for best, rows in zip((vote.best for vote in self._votes), self._last_rows, strict=True)
        ]
        return loads_of(counts[_LEFT], counts[_RIGHT], self._last_rows, partitions)


def _total(sides: Iterable[JoinSide | None]) -> JoinSide:
    """One side of several batches, added up."""
    keys: Counter[int] = Counter()
    rows = 0
    for side in sides:
        if side is not None:
            keys.update(side.keys or {})
            rows += side.rows
    return JoinSide(rows, None, keys)
