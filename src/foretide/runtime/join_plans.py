"""Publishes the plan of one join of a running query: takes every batch in, and changes the plan's file step by step.

Nothing in here can cost a row. What is published follows from `PlanChangeProtocol`, and a batch that runs ahead of an
announced change fails and is tried again. The history of batches is kept in the control folder, so that another process
can go on from there. Where batches are missing, their highest event times are read from the join's state; until they
are known no plan is changed.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from foretide.control_folder.filesystem import HURRIED_LOCK_SECONDS
from foretide.errors import ControlFolderError, JoinPlanError, PlanFormatError
from foretide.joins.placement.plan_change import (
    BatchHistory,
    CommittedBatch,
    EventTimePace,
    Maxima,
    PlanChangeProtocol,
    PlanState,
)
from foretide.joins.placement.timeline import Timeline, without_unfinished
from foretide.runtime.threads import guarded

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.placement.spec import JoinSpec
    from foretide.joins.plan import JoinPlan
    from foretide.metrics.batch import BatchReport, JoinBatch, JoinSide

ReadMaxima = Callable[[str, int], Maxima]
"""Reads the highest event times that the join of that name has held up to a batch."""

_NO_TABLE = -1
_MAX_UNSEEN = 1000
_MAX_TABLES = 100
log = logging.getLogger("foretide")


class JoinPlanPublisher:
    """The plan of one join and its file. `see` every batch, `adopt` plans; `problem` says what is in the way."""

    def __init__(self, folder: ControlFolder, name: str, read_maxima: ReadMaxima | None = None) -> None:
        self.name, self._read_maxima = name, read_maxima
        self._folder = folder.waiting(HURRIED_LOCK_SECONDS)  # batches are seen in the thread that follows the query
        self.spec: JoinSpec = folder.joins()[name]
        self.problem: str | None = None
        self.failures = 0
        self._protocol = PlanChangeProtocol(self.spec.bound)
        self._lock = threading.RLock()
        self._state = PlanState(
            folder.change_join_plan(name, without_unfinished), folder.join_past(name) or BatchHistory()
        )
        self._pace = EventTimePace()
        self._gap_reported_at: int | None = None
        self._tables: OrderedDict[int, Timeline] = OrderedDict()
        self._read = self._state.timeline
        self._note_table(self._read)
        self._unseen: deque[CommittedBatch] = deque(maxlen=_MAX_UNSEEN)

    # ---- the plan

    @property
    def timeline(self) -> Timeline:
        """The timeline that is published."""
        return self._state.timeline

    def plans(self) -> tuple[JoinPlan, JoinPlan | None]:
        """The plan that was published last, and the one to come if a change is under way."""
        state, partitions = self._state, self.spec.partitions
        return state.timeline.plan(partitions), state.pending_plan(partitions)

    def plan_read(self, table: int | None = None) -> JoinPlan:
        """The plan in the table of that version that a batch has read; by default the last one that any has read."""
        timeline = self._read if table is None else self._tables.get(table, self._read)
        return timeline.plan(self.spec.partitions)

    @property
    def obstacle(self) -> str | None:
        """Why no change should begin now, if none should: a problem, or the pace of event time is not known."""
        return self.problem or (None if self._pace.advances else "too few batches were seen")

    def adopt(self, plan: JoinPlan) -> bool:
        """Begin a change to a plan; False if nothing would change. All keys that it does not name go to the tail.

        Raises:
            JoinPlanError: Another change is under way, or too little is known for a change to be exact.
        """
        with self._lock:
            if self.problem is not None:
                raise JoinPlanError(self.problem)
            before = self._state
            state = self._protocol.adopt(before, plan, self.spec.partitions, self._pace.lead)
            self._publish(state)
            return state is not before

    def cancel(self) -> None:
        """Give up a change that is under way."""
        with self._lock:
            if self._state.pending is not None:
                guarded(
                    lambda: self._publish(self._protocol.cancel(self._state)), f"a change of join '{self.name}' back"
                )

    # ---- batches

    def see(self, report: BatchReport) -> None:
        """Take a batch in, in the order in which they were committed.

        A batch with rows that reports nothing of the join counts as missing, so the join's state will be read. While
        the control folder cannot be changed, batches wait, and are taken in with a later one.
        """
        of_join = report.joins.get(self.name)
        if of_join is None and report.input_rows:
            return
        with self._lock:
            table = None if of_join is None else of_join.plan
            self._read = self._read if table is None else self._tables.get(table, self._read)
            self._unseen.append(_committed(report, of_join))
            try:
                while self._unseen:
                    self._take_in(self._unseen[0])
                    self._unseen.popleft()
                self._folder.keep_join_past(self.name, self._state.history)
            except (ControlFolderError, JoinPlanError) as error:
                self.problem = f"the plan of join '{self.name}' cannot be changed at present: {error}"
                log.warning("%s", self.problem)

    def _take_in(self, batch: CommittedBatch) -> None:
        self._fill_gap(batch)
        self._publish(self._protocol.advance(self._state, batch))
        self._pace = self._pace.including(batch)

    def retry(self, reached: int | None = None) -> None:
        """A batch failed at a hard end: move it ahead, so that the next attempt succeeds."""
        with self._lock:
            self.failures += 1
            self._publish(self._protocol.retry(self._state, reached))

    def put_back(self) -> bool:
        """Publish the last plan again if its file is gone or damaged; whether that was so.

        A query whose batches fail for lack of their plan reports none, so `see` cannot put it back.
        """
        with self._lock:
            try:
                if self._folder.join_plan(self.name) is not None:
                    return False
            except (ControlFolderError, PlanFormatError):
                pass
            log.warning("join '%s': its plan was damaged or deleted; the last one is put back", self.name)
            what = f"putting back the plan of '{self.name}'"
            return guarded(lambda: self._folder.put_join_plan(self.name, self.timeline), what) is None

    def set_partitions(self, partitions: int) -> None:
        """Follow the number of partitions that the join's state really has."""
        with self._lock:
            if partitions != self.spec.partitions:
                self.spec = replace(self.spec, partitions=partitions)
                guarded(lambda: self._folder.declare_join(self.name, self.spec), f"describing join '{self.name}'")

    def _fill_gap(self, batch: CommittedBatch) -> None:
        """Learn of batches that were never reported from what the join holds."""
        history = self._state.history
        if batch.id <= history.next_batch:
            self.problem = None
            return
        if self._gap_reported_at == batch.id - 1 and self.problem is not None:
            return
        self._gap_reported_at = batch.id
        missing = f"batches {history.next_batch} to {batch.id - 1} of join '{self.name}' were not reported"
        maxima = self._maxima_from_state(batch.id - 1, missing)
        if maxima is None:
            return
        filled = BatchHistory(batch.id, history.maxima.joined(maxima), history.watermark)
        self._publish(replace(self._protocol.cancel(self._state), history=filled, held=()))

    def _maxima_from_state(self, batch: int, missing: str) -> Maxima | None:
        """The highest event times up to a batch by the join's state; None, and a problem, if it cannot be read."""
        try:
            maxima = None if self._read_maxima is None else self._read_maxima(self.name, batch)
            self.problem = None if maxima else f"{missing}, and its state cannot be asked; its plan stays as it is"
        except Exception as error:  # noqa: BLE001 - whatever Spark raises, the query runs on
            reason = str(error).split("\n", maxsplit=1)[0]
            maxima, self.problem = None, f"{missing}, and its state cannot be read ({reason}); its plan stays as it is"
        if self.problem:
            log.warning("%s", self.problem)
        return maxima

    # ---- the file

    def _publish(self, state: PlanState) -> None:
        """Publish a state; if another process has written the plan, start again from what it wrote."""
        known = self._state.timeline

        def next_plan(found: Timeline | None) -> Timeline:
            nonlocal state
            if found is None:
                raise PlanFormatError("the file is gone")
            if found != known:
                log.warning("join '%s': another process has written its plan; going on from that", self.name)
                recovered = self._protocol.recover(found, state.history)
                state = replace(recovered, held=state.held)
            return found if found == state.timeline else state.timeline

        try:
            self._folder.change_join_plan(self.name, next_plan)
        except PlanFormatError:
            log.exception("join '%s': its plan was damaged or deleted; the last one is put back", self.name)
            self._folder.put_join_plan(self.name, known)
            self._folder.change_join_plan(self.name, next_plan)
        self._state = state
        self._note_table(state.timeline)

    def _note_table(self, timeline: Timeline) -> None:
        """Remember a table that was published, so that a batch that has read it shows what is in force."""
        self._tables[timeline.version] = timeline
        while len(self._tables) > _MAX_TABLES:
            self._tables.popitem(last=False)


def _committed(report: BatchReport, of_join: JoinBatch | None) -> CommittedBatch:
    """What a batch reports to the protocol. One that does not name its table had no rows, or counts as an older one."""
    table = None if of_join is None else of_join.plan
    return CommittedBatch(
        report.batch,
        _NO_TABLE if table is None else table,
        Maxima() if of_join is None else Maxima(_latest(of_join.left), _latest(of_join.right)),
        None if report.watermark is None else round(report.watermark * 1000) * 1000,
    )


def _latest(side: JoinSide | None) -> int | None:
    return None if side is None else side.latest
