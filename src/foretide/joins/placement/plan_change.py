"""How a change of plan is published so that no pair is lost or doubled, whatever the batches do meanwhile.

A change takes two steps. First the old plan is published with a hard end, ahead of all that was seen: a batch that
reads it fails rather than place a row past it. Once a batch reports that it read this table, every batch before it has
reported, and every batch after it obeys the hard end or what comes later. Then the new plan may begin at the hard end,
or later if a batch under an older table got further. So the new plan starts ahead of every row that was, is being, or
ever will be placed by an older table. A left row reaches its own time, a right row the last time of a left row that it
matches.

Everything is decided from values. `PlanState.timeline` is what has to be published, whenever its version has grown.
The file is the only thing that must survive a crash: `recover` takes an unfinished first step back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from foretide.errors import JoinPlanError
from foretide.joins.placement.salts import SaltGrid
from foretide.joins.placement.spec import JoinBound
from foretide.joins.placement.timeline import BEGINNING, Timeline
from foretide.joins.plan import JoinPlan

_LEAD_BATCHES = 3
_MIN_LEAD_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Maxima:
    """The highest event times on the two sides of the join; None where there was no row."""

    left: int | None = None
    right: int | None = None

    def joined(self, other: Maxima) -> Maxima:
        """The higher of both on each side."""
        return Maxima(_highest(self.left, other.left), _highest(self.right, other.right))


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """What a committed batch reports: its id, the version of the table it read, its event times and watermark."""

    id: int
    table: int
    maxima: Maxima
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class BatchHistory:
    """What is known of all batches before `next_batch`; empty for a join that has not begun."""

    next_batch: int = 0
    maxima: Maxima = Maxima()
    watermark: int | None = None

    def including(self, batch: CommittedBatch) -> BatchHistory:
        """The history with one more batch; a batch that is replayed counts again."""
        return BatchHistory(
            max(self.next_batch, batch.id + 1),
            self.maxima.joined(batch.maxima),
            _highest(self.watermark, batch.watermark),
        )

    def to_data(self) -> dict[str, Any]:
        """As plain JSON values.

        >>> BatchHistory.from_data(BatchHistory(3, Maxima(5, None), 2).to_data())
        BatchHistory(next_batch=3, maxima=Maxima(left=5, right=None), watermark=2)
        """
        left, right = self.maxima.left, self.maxima.right
        return {"next_batch": self.next_batch, "left": left, "right": right, "watermark": self.watermark}

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> BatchHistory | None:
        """Read it back; None where nothing can be read, which is not the same as a join that has not begun."""
        times = [data.get(name) for name in ("left", "right", "watermark")]
        batch = data.get("next_batch")
        if type(batch) is not int or any(time is not None and type(time) is not int for time in times):
            return None
        return BatchHistory(batch, Maxima(times[0], times[1]), times[2])


@dataclass(frozen=True, slots=True)
class EventTimePace:
    """How far event time advances from one batch to the next, which decides how far ahead a change is announced."""

    latest: int | None = None
    advances: tuple[int, ...] = ()

    def including(self, batch: CommittedBatch) -> EventTimePace:
        """The pace with one more batch; a batch without rows changes nothing."""
        times = [time for time in (batch.maxima.left, batch.maxima.right) if time is not None]
        if not times:
            return self
        if self.latest is None:
            return EventTimePace(max(times))
        advance = max(0, max(times) - self.latest)
        return EventTimePace(max(self.latest, *times), (*self.advances, advance)[-_LEAD_BATCHES:])

    @property
    def lead(self) -> int:
        """Microseconds that cover the next few batches if they advance like the last ones."""
        return max(_MIN_LEAD_MICROS, _LEAD_BATCHES * max(self.advances, default=0))


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change whose first step is published: the new grids, and the hard end where they may begin.

    `since` is the first table that carried a hard end for it. `older` are the maxima of all batches that read a table
    before that one, as far as they have reported; once `confirmed`, that is all of them.
    """

    grids: Mapping[int, SaltGrid]
    since: int
    start: int
    lead: int
    older: Maxima
    confirmed: bool = False

    def including(self, batch: CommittedBatch) -> PendingChange:
        """The change after one more batch, given in the order of their ids."""
        if batch.table >= self.since:
            return replace(self, confirmed=True)
        return replace(self, older=self.older.joined(batch.maxima))


@dataclass(frozen=True, slots=True)
class PlanState:
    """The table to be published, what is known of the batches, and the change that is under way.

    `held` are batches that were reported before an earlier one: they count once that one is reported.
    """

    timeline: Timeline
    history: BatchHistory
    pending: PendingChange | None = None
    held: tuple[CommittedBatch, ...] = ()

    @property
    def seen(self) -> Maxima:
        """How far any batch got that has reported, those held back included."""
        maxima = self.history.maxima
        for batch in self.held:
            maxima = maxima.joined(batch.maxima)
        return maxima

    def pending_plan(self, partitions: int) -> JoinPlan | None:
        """The plan that will be in force after the change that is under way."""
        return None if self.pending is None else self.timeline.plan(partitions, self.pending.grids)


@dataclass(frozen=True, slots=True)
class PlanChangeProtocol:
    """The steps by which the plan of a join may change.

    >>> protocol = PlanChangeProtocol(JoinBound(before=5, after=5))
    >>> state = PlanState(Timeline(), BatchHistory())
    >>> state = protocol.advance(state, CommittedBatch(0, 0, Maxima(left=90, right=100)))
    >>> state = protocol.announce(state, {7: ((1, 2),)}, lead=10)
    >>> dict(state.timeline.hard_ends)
    {7: 116}
    >>> state = protocol.advance(state, CommittedBatch(1, state.timeline.version, Maxima(left=105, right=108)))
    >>> state.pending, state.timeline.newest(7).start
    (None, 116)
    """

    bound: JoinBound

    def adopt(self, state: PlanState, plan: JoinPlan, partitions: int, lead: int) -> PlanState:
        """Announce a plan of partitions; every key that it does not name goes back to the tail."""
        return self.announce(state, state.timeline.salts_of(plan, partitions), lead)

    def announce(self, state: PlanState, grids: Mapping[int, SaltGrid], lead: int) -> PlanState:
        """The first step: the old plan with a hard end, `lead` microseconds ahead of all that was seen.

        A key goes back to the tail with the grid TAIL. A lead that covers what arrives in two or three batches spares
        the query a failed batch; a wrong one costs time, never exactness.
        """
        changes = {key: grid for key, grid in grids.items() if state.timeline.newest(key).rows != grid}
        self._check(state, changes, lead)
        if not changes:
            return state
        starts = (state.timeline.newest(key).start for key in changes)
        start = max(self.horizon(state.seen), *starts, _after(state.history.watermark)) + lead
        timeline = self.with_hard_end(state.timeline, changes, start)
        pending = PendingChange(MappingProxyType(changes), timeline.version, start, lead, state.seen)
        return replace(state, timeline=timeline, pending=pending)

    def advance(self, state: PlanState, batch: CommittedBatch) -> PlanState:
        """The state after a batch: the second step, a hard end that is moved ahead, or old versions forgotten."""
        state = _including(state, batch)
        if state.pending is None:
            return self._forget(state)
        if self.is_settled(state.pending):
            return self._finish(state, state.pending)
        if self.horizon(state.seen) + state.pending.lead // 2 > state.pending.start:
            return self._move_hard_end(state, state.pending, self.horizon(state.seen))
        return state

    def retry(self, state: PlanState, reached: int | None = None) -> PlanState:
        """The state after a failed batch: the hard end moved ahead, twice as far each time, so that a retry succeeds.

        `reached` is the event time of the row that failed it, where that is known.
        """
        if state.pending is None:
            return state
        pending = replace(state.pending, lead=2 * state.pending.lead)
        return self._move_hard_end(state, pending, max(pending.start, self.horizon(state.seen), _after(reached)))

    def cancel(self, state: PlanState) -> PlanState:
        """Give up the change that is under way: the old plan goes on without a hard end."""
        return replace(state, timeline=self.roll_back(state.timeline), pending=None)

    def recover(self, published: Timeline, history: BatchHistory) -> PlanState:
        """The state after a restart, from the file alone; an unfinished first step is taken back.

        `history` must cover every committed batch, seen by this process or not: from a record of progress, or from the
        highest event times in the join's state. Publish the timeline before the next batch starts, or the query would
        run into a hard end that nobody moves.
        """
        return PlanState(self.roll_back(published), history)

    def horizon(self, maxima: Maxima) -> int:
        """The first time that no row up to these maxima reaches."""
        reach = None if maxima.right is None else self.bound.left_times(maxima.right)[1]
        return max(_after(maxima.left), _after(reach))

    def with_hard_end(self, timeline: Timeline, grids: Mapping[int, SaltGrid], end: int) -> Timeline:
        """The old plan with a hard end for the keys that will change."""
        return timeline.with_hard_end(grids.keys(), end)

    def roll_back(self, timeline: Timeline) -> Timeline:
        """The plan without hard ends."""
        return timeline.without_hard_ends()

    def is_settled(self, pending: PendingChange) -> bool:
        """Whether all batches under older tables have reported, and all others obey the hard end."""
        return pending.confirmed

    def obsolete_before(self, watermark: int) -> int:
        """Versions that ended by this time matter no more: not to late right rows, nor if their cells are reused."""
        return watermark - self.bound.retention

    def _check(self, state: PlanState, grids: Mapping[int, SaltGrid], lead: int) -> None:
        if state.pending is not None:
            raise JoinPlanError("a change of plan is under way; let it finish, or cancel it first")
        if lead < 1:
            raise JoinPlanError(f"lead must be at least 1, got {lead}; let it cover the event time of a few batches")
        if state.seen == Maxima():
            raise JoinPlanError("no row was seen yet, so no time is known to lie ahead; announce after the first batch")
        for key_hash, grid in grids.items():
            self.bound.check(key_hash, grid)
            state.timeline.continued({key_hash: grid}, state.timeline.newest(key_hash).start + 1)

    def _finish(self, state: PlanState, pending: PendingChange) -> PlanState:
        """The second step. A start only ever moves ahead, so batches that obeyed an earlier hard end agree with it."""
        start = max(pending.start, self.horizon(pending.older), _after(state.history.watermark))
        return replace(state, timeline=state.timeline.continued(pending.grids, start), pending=None)

    def _move_hard_end(self, state: PlanState, pending: PendingChange, ahead_of: int) -> PlanState:
        start = max(pending.start, ahead_of + pending.lead)
        timeline = self.with_hard_end(state.timeline, pending.grids, start)
        return replace(state, timeline=timeline, pending=replace(pending, start=start))

    def _forget(self, state: PlanState) -> PlanState:
        if state.history.watermark is None:
            return state
        return replace(state, timeline=state.timeline.without_before(self.obsolete_before(state.history.watermark)))


def _including(state: PlanState, batch: CommittedBatch) -> PlanState:
    """Count a batch, and those that were held back for it. Batches count in the order of their ids, without a gap."""
    history, pending = state.history, state.pending
    held: list[CommittedBatch] = []
    for each in sorted((*state.held, batch), key=lambda one: one.id):
        if each.id > history.next_batch:
            held.append(each)
            continue
        history = history.including(each)
        pending = pending and pending.including(each)
    return replace(state, history=history, pending=pending, held=tuple(held))


def _highest(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _after(time: int | None) -> int:
    return BEGINNING if time is None else time + 1
