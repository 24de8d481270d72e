"""Keeps the plan of one join of a running query: takes every batch in, and publishes changes step by step.

Nothing in here can cost a row. What is published follows from `PublicationProtocol`, and a batch that runs ahead of an
announced change fails and is tried again. What is known of past batches is kept in the control folder, so that
another process can go on from there. Where batches are missing, their highest event times are read from the
join's state; until they are known no plan is changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretide.errors import JoinPlanError, PlanFormatError
from foretide.joins.placement.cells import LEFT
from foretide.joins.placement.plan_change import BatchFacts, BatchHistory, Maxima, PlanState, PublicationProtocol
from foretide.joins.placement.salts import partitions_of, tail_partition
from foretide.joins.placement.timeline import TAIL, SaltGrid, Timeline, steered_grid, without_unfinished
from foretide.joins.plan import JoinPlan, KeyGrid, fill, imbalance, measured_loads
from foretide.joins.settings import WindowSettings
from foretide.joins.view import Grids, JoinView
from foretide.runtime.joins.key_windows import KeyWindows
from foretide.runtime.joins.task_costs import JoinCosts

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.placement.spec import JoinSpec
    from foretide.joins.task_costs import JoinCost
    from foretide.metrics.batch import BatchReport, JoinBatch, JoinSide
    from foretide.runtime.forecasts.keys import LiveKeyForecast

Wanted = Mapping[int, tuple[tuple[int, ...], ...]]
"""Partitions in rows of columns, by the hash of a key. A key that is not named goes back to the tail."""

ReadMaxima = Callable[[str, int], Maxima]
"""The highest event times that the join of that name has held up to a batch."""

_SECOND = 1_000_000
_NO_PLAN_READ = -1
_LEAD_BATCHES = 3
_LEAST_LEAD = _SECOND
_WINDOWS = WindowSettings()
log = logging.getLogger("foretide")


@dataclass(frozen=True, slots=True)
class EventTimePace:
    """How far event time goes on from one batch to the next, from which follows how far ahead a change is announced."""

    latest: int | None = None
    advances: tuple[int, ...] = ()

    def after(self, facts: BatchFacts) -> EventTimePace:
        """With one more batch; one without rows tells nothing."""
        times = [time for time in (facts.maxima.left, facts.maxima.right) if time is not None]
        if not times:
            return self
        if self.latest is None:
            return EventTimePace(max(times))
        advance = max(0, max(times) - self.latest)
        return EventTimePace(max(self.latest, *times), (*self.advances, advance)[-_LEAD_BATCHES:])

    @property
    def lead(self) -> int:
        """Microseconds that cover the next few batches if they go on like the last ones."""
        return max(_LEAST_LEAD, _LEAD_BATCHES * max(self.advances, default=0))


class JoinPlanPublisher:
    """Keeps the plan of one join. `see` every report, `adopt` what is wanted; `problem` says what is in the way."""

    def __init__(
        self,
        folder: ControlFolder,
        name: str,
        maxima: ReadMaxima | None = None,
        windows: WindowSettings = _WINDOWS,
        seer: LiveKeyForecast | None = None,
    ) -> None:
        self.name, self._folder, self._maxima = name, folder, maxima
        self.facts: JoinSpec = folder.joins()[name]
        self.problem: str | None = None
        self.failures = 0
        self._protocol = PublicationProtocol(self.facts.rule)
        self._lock = threading.RLock()
        self._state = PlanState(
            folder.change_join_plan(name, without_unfinished), folder.join_past(name) or BatchHistory()
        )
        self._pace = EventTimePace()
        self._gap_told: int | None = None
        self._windows = KeyWindows(windows, seer)
        self._costs = JoinCosts()
        self._cost: JoinCost | None = None

    # ---- what is wanted

    def adopt(self, wanted: Wanted) -> bool:
        """Begin a change to these grids; False if nothing would change. All keys that are not named go to the tail.

        Raises:
            JoinPlanError: Another change is under way, or too little is known for a change to be exact.
        """
        with self._lock:
            if self.problem is not None:
                raise JoinPlanError(self.problem)
            before = self._state
            state = self._protocol.announced(before, self._steered(wanted), self._pace.lead)
            self._publish(state)
            return state is not before

    def cancel(self) -> None:
        """Give up a change that is under way."""
        with self._lock:
            if self._state.pending is not None:
                self._publish(self._protocol.cancelled(self._state))

    def _steered(self, wanted: Wanted) -> dict[int, SaltGrid]:
        """Grids of salts for those of partitions; what is in force already is not steered anew."""
        timeline, partitions = self._state.timeline, self.facts.partitions
        grids = {key: TAIL for key, versions in timeline.plans.items() if versions[-1].rows != TAIL}
        for key, cells in wanted.items():
            now = timeline.versions(key)[-1].rows
            fresh = now == TAIL or self._landed(key, now) != cells
            grids[key] = steered_grid(key, partitions, cells, timeline.taken(key)) if fresh else now
        return grids

    def _landed(self, key: int, grid: SaltGrid) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(partitions_of(key, list(row), self.facts.partitions).tolist()) for row in grid)

    # ---- what happens

    def see(self, report: BatchReport) -> None:
        """Take a batch in, in the order in which they were committed."""
        with self._lock:
            if report.state is not None and report.state.partitions:
                self._repartitioned(report.state.partitions)
            seen = report.joins.get(self.name)
            if seen is None and report.input_rows:
                return  # it counts as missing, so the join's state will be asked
            self._costs.see(report, seen, self.plan(), self.facts.partitions, self._home)
            if seen is not None and self._windows.see(report, seen.left, seen.right):
                self._cost = self._costs.of_windows(self._windows.batches)
            facts = _facts(report, seen)
            self._fill_gap(facts)
            self._pace = self._pace.after(facts)
            self._publish(self._protocol.advanced(self._state, facts))
            self._folder.keep_join_past(self.name, self._state.past)

    def failed(self, reached: int | None = None) -> None:
        """A batch failed at a hard end: move it ahead, so that the next try gets through."""
        with self._lock:
            self.failures += 1
            self._publish(self._protocol.failed(self._state, reached))

    def _fill_gap(self, facts: BatchFacts) -> None:
        """Learn of batches that were never reported from what the join holds."""
        past = self._state.past
        if facts.batch <= past.next_batch:
            self.problem = None
            return
        if self._gap_told == facts.batch - 1 and self.problem is not None:
            return
        self._gap_told = facts.batch
        missing = f"batches {past.next_batch} to {facts.batch - 1} of join '{self.name}' were not reported"
        found = self._from_state(facts.batch - 1, missing)
        if found is None:
            return
        filled = BatchHistory(facts.batch, past.maxima.joined(found), past.watermark)
        self._publish(replace(self._protocol.cancelled(self._state), past=filled, held=()))

    def _from_state(self, batch: int, missing: str) -> Maxima | None:
        """The highest event times up to a batch as the join's state has them; None, with a problem, if it has not."""
        try:
            found = None if self._maxima is None else self._maxima(self.name, batch)
            self.problem = None if found else f"{missing}, and its state cannot be asked; its plan stays as it is"
        except Exception as error:  # noqa: BLE001 - whatever Spark says, the query runs on
            said = str(error).split("\n", maxsplit=1)[0]
            found, self.problem = None, f"{missing}, and its state cannot be read ({said}); its plan stays as it is"
        if self.problem:
            log.warning("%s", self.problem)
        return found

    def _repartitioned(self, partitions: int) -> None:
        if partitions != self.facts.partitions:
            self.facts = replace(self.facts, partitions=partitions)
            self._folder.declare_join(self.name, self.facts)

    # ---- the file

    def _publish(self, state: PlanState) -> None:
        """Publish what follows; if somebody else has written the plan, begin anew from what is there."""
        mine = self._state.timeline

        def next_plan(found: Timeline | None) -> Timeline:
            nonlocal state
            if found is not None and found != mine:
                log.warning("join '%s': its plan was written by somebody else; it is gone on from that", self.name)
                recovered = self._protocol.recovered(found, state.past)
                state = replace(recovered, held=state.held)
            return found if found is not None and found == state.timeline else state.timeline

        try:
            self._folder.change_join_plan(self.name, next_plan)
        except PlanFormatError:
            log.exception("join '%s': its plan was damaged; the last one is put back", self.name)
            self._folder.put_join_plan(self.name, state.timeline)
        self._state = state

    # ---- what can be seen

    @property
    def timeline(self) -> Timeline:
        """The plan that is published."""
        return self._state.timeline

    @property
    def changing(self) -> bool:
        """Whether a change is under way."""
        return self._state.pending is not None

    @property
    def ready(self) -> bool:
        """Whether enough is known for a change: how far event time goes in a batch, and nothing is in the way."""
        return self.problem is None and self._state.pending is None and bool(self._pace.advances)

    def plan(self) -> JoinPlan:
        """The grids that are published last, as partitions."""
        newest = {key: versions[-1].rows for key, versions in self._state.timeline.plans.items()}
        return self._as_plan(newest)

    def coming(self) -> JoinPlan | None:
        """The plan that will be in force once the change that is under way is done."""
        pending = self._state.pending
        if pending is None:
            return None
        newest = {key: versions[-1].rows for key, versions in self._state.timeline.plans.items()}
        return self._as_plan({**newest, **pending.grids})

    def grids(self) -> Grids:
        """The grids that are published last, as partitions in rows of columns."""
        return {key: grid.rows for key, grid in self.plan().grids.items()}

    def view(self) -> JoinView:
        """The join as the control loop sees it."""
        with self._lock:
            count = self.facts.partitions
            plan, (keys, tail), (foreseen, rest) = self.plan(), self._windows.last(count), self._windows.foreseen(count)
            known = bool(self._windows.count)
            now = fill(plan, keys, tail, self._home) if known else None
            rows = self._costs.rows
            return JoinView(
                self.name,
                count,
                "left" if self.facts.rule.how == LEFT else "inner",
                self._windows.told,
                keys,
                tail,
                foreseen,
                rest,
                None if now is None else imbalance(now.loads()),
                rows,
                plan,
                self.coming(),
                self.problem or (None if self._pace.advances else "too few batches were seen"),
                self._windows.by,
                self._windows.names,
                None if now is None or not rows else imbalance(measured_loads(rows, now)),
                self._cost,
            )

    def _home(self, key: int) -> int:
        return tail_partition(key, self.facts.partitions)

    def _as_plan(self, grids: Mapping[int, SaltGrid]) -> JoinPlan:
        return JoinPlan({key: KeyGrid(self._landed(key, grid)) for key, grid in grids.items() if grid != TAIL})


def _facts(report: BatchReport, seen: JoinBatch | None) -> BatchFacts:
    """What a batch tells the protocol. One that said nothing of the plan had no rows, or counts as an older one."""
    version = None if seen is None else seen.plan
    return BatchFacts(
        report.batch,
        _NO_PLAN_READ if version is None else version,
        Maxima() if seen is None else Maxima(_latest(seen.left), _latest(seen.right)),
        None if report.watermark is None else round(report.watermark * 1000) * 1000,
    )


def _latest(side: JoinSide | None) -> int | None:
    return None if side is None else side.latest
