"""How a change of plan is published so that no pair is lost or doubled, whatever the batches do meanwhile.

A change takes two steps. First the old plan is published with a hard end, ahead of all that was seen: a batch that
reads it fails rather than place a tuple past it. Once a batch has said that it read this, every batch before it has
reported, and every batch after it obeys the hard end or what comes later. Then the new plan may begin at the hard
end, or later if a batch under an older table got further. So the start of the new plan lies ahead of every tuple that
was, is being, or ever will be placed by an older table. A left tuple is ahead of it until its own time, a
right tuple until the last time of a left tuple that it matches.

Everything is decided from values. `PlanState.timeline` is what has to be published, whenever its version has grown.
The file is the only thing that must survive a crash: `recovered` takes an unfinished first step back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from foretide.errors import JoinPlanError
from foretide.joins.placement.cells import JoinBound
from foretide.joins.placement.timeline import BEGINNING, SaltGrid, Timeline


@dataclass(frozen=True, slots=True)
class Maxima:
    """The highest event times seen on the two sides of the join; None where no tuple was seen."""

    left: int | None = None
    right: int | None = None

    def joined(self, other: Maxima) -> Maxima:
        """The higher of both on each side."""
        return Maxima(_highest(self.left, other.left), _highest(self.right, other.right))


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What a committed batch reports: its id, the table it read, how far its tuples went, and its watermark."""

    batch: int
    table: int
    maxima: Maxima
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class BatchHistory:
    """What is known of all batches before `next_batch`. A join that has not begun has the empty past."""

    next_batch: int = 0
    maxima: Maxima = Maxima()
    watermark: int | None = None

    def then(self, facts: BatchFacts) -> BatchHistory:
        """The past with one more batch; a batch that was replayed counts again."""
        return BatchHistory(
            max(self.next_batch, facts.batch + 1),
            self.maxima.joined(facts.maxima),
            _highest(self.watermark, facts.watermark),
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """A change whose first step is published: what is wanted, and the hard end where it may begin.

    `since` is the first table that carried a hard end for it. `older` are the maxima of all batches that read a table
    before that one, as far as they have reported; once `confirmed`, that is all of them.
    """

    grids: Mapping[int, SaltGrid]
    since: int
    start: int
    lead: int
    older: Maxima
    confirmed: bool = False

    def then(self, facts: BatchFacts) -> Pending:
        """The change in the light of one more batch, given in the order of their ids."""
        if facts.table >= self.since:
            return replace(self, confirmed=True)
        return replace(self, older=self.older.joined(facts.maxima))


@dataclass(frozen=True, slots=True)
class PlanState:
    """The table to be published, what is known of the batches, and the change that is under way.

    `held` are reports that came before one that is missing: they count once it is there.
    """

    timeline: Timeline
    past: BatchHistory
    pending: Pending | None = None
    held: tuple[BatchFacts, ...] = ()

    @property
    def seen(self) -> Maxima:
        """How far any batch got that has reported, those held back included."""
        maxima = self.past.maxima
        for facts in self.held:
            maxima = maxima.joined(facts.maxima)
        return maxima


@dataclass(frozen=True, slots=True)
class PublicationProtocol:
    """The steps by which the plan of a join may change.

    >>> protocol = PublicationProtocol(JoinBound(before=5, after=5))
    >>> state = protocol.advanced(PlanState(Timeline(), BatchHistory()), BatchFacts(0, 0, Maxima(left=90, right=100)))
    >>> state = protocol.announced(state, {7: ((1, 2),)}, lead=10)
    >>> dict(state.timeline.hard_ends)
    {7: 116}
    >>> state = protocol.advanced(state, BatchFacts(1, state.timeline.version, Maxima(left=105, right=108)))
    >>> state.pending, state.timeline.versions(7)[-1].start
    (None, 116)
    """

    rule: JoinBound

    def announced(self, state: PlanState, grids: Mapping[int, SaltGrid], lead: int) -> PlanState:
        """The first step: the old plan with a hard end, `lead` microseconds ahead of all that was seen.

        A key goes back to the tail with the grid TAIL. A lead that covers what arrives in two or three batches spares
        the query a failed batch; a wrong one costs time, never exactness.
        """
        wanted = {key: grid for key, grid in grids.items() if state.timeline.versions(key)[-1].rows != grid}
        self._check(state, wanted, lead)
        if not wanted:
            return state
        starts = (state.timeline.versions(key)[-1].start for key in wanted)
        start = max(self.horizon(state.seen), *starts, _after(state.past.watermark)) + lead
        timeline = self.hardened(state.timeline, wanted, start)
        pending = Pending(MappingProxyType(wanted), timeline.version, start, lead, state.seen)
        return replace(state, timeline=timeline, pending=pending)

    def advanced(self, state: PlanState, facts: BatchFacts) -> PlanState:
        """What follows from a batch: the second step, a hard end that is moved ahead, or old versions forgotten."""
        state = _noted(state, facts)
        if state.pending is None:
            return self._forgetting(state)
        if self.settled(state.pending):
            return self._finished(state, state.pending)
        if self.horizon(state.seen) + state.pending.lead // 2 > state.pending.start:
            return self._moved(state, state.pending, self.horizon(state.seen))
        return state

    def failed(self, state: PlanState, reached: int | None = None) -> PlanState:
        """A batch failed, perhaps at the hard end: move it ahead, twice as far each time, so that a retry gets through.

        `reached` is how far the tuple went that failed it, where that is known.
        """
        if state.pending is None:
            return state
        pending = replace(state.pending, lead=2 * state.pending.lead)
        return self._moved(state, pending, max(pending.start, self.horizon(state.seen), _after(reached)))

    def cancelled(self, state: PlanState) -> PlanState:
        """Give up the change that is under way: the old plan goes on without a hard end."""
        return replace(state, timeline=self.rolled_back(state.timeline), pending=None)

    def recovered(self, published: Timeline, past: BatchHistory) -> PlanState:
        """The state after a restart, from the file alone; an unfinished first step is taken back.

        `past` must cover every batch that was committed, seen by this process or not: from a journal of progress, or
        as the highest event times in the join's state. Publish the timeline before the next batch starts, or the query
        would run into a hard end that nobody moves.
        """
        return PlanState(self.rolled_back(published), past)

    def horizon(self, maxima: Maxima) -> int:
        """The first time that no tuple up to these maxima reaches."""
        reach = None if maxima.right is None else self.rule.left_times(maxima.right)[1]
        return max(_after(maxima.left), _after(reach))

    def hardened(self, timeline: Timeline, grids: Mapping[int, SaltGrid], end: int) -> Timeline:
        """The old plan with a hard end for the keys that will change."""
        return timeline.ending(grids.keys(), end)

    def rolled_back(self, timeline: Timeline) -> Timeline:
        """The plan without hard ends."""
        return timeline.without_hard_ends() if timeline.hard_ends else timeline

    def settled(self, pending: Pending) -> bool:
        """Whether all batches under older tables have reported, and all others obey the hard end."""
        return pending.confirmed

    def forgettable(self, watermark: int) -> int:
        """Versions that ended by this time matter no more: not to late right tuples, nor if their cells are reused."""
        return watermark - self.rule.memory

    def _check(self, state: PlanState, grids: Mapping[int, SaltGrid], lead: int) -> None:
        if state.pending is not None:
            raise JoinPlanError("a change of plan is under way; let it finish, or cancel it first")
        if lead < 1:
            raise JoinPlanError(f"a lead of {lead} is none; let it cover the event time of two or three batches")
        if state.seen == Maxima():
            raise JoinPlanError(
                "no tuple was seen yet, so no time is known to lie ahead; announce after the first batch"
            )
        for key_hash, grid in grids.items():
            self.rule.check(key_hash, grid)
            state.timeline.continued({key_hash: grid}, state.timeline.versions(key_hash)[-1].start + 1)

    def _finished(self, state: PlanState, pending: Pending) -> PlanState:
        """The second step. A start only ever moves ahead, so batches that obeyed an earlier hard end agree with it."""
        start = max(pending.start, self.horizon(pending.older), _after(state.past.watermark))
        return replace(state, timeline=state.timeline.continued(pending.grids, start), pending=None)

    def _moved(self, state: PlanState, pending: Pending, ahead_of: int) -> PlanState:
        start = max(pending.start, ahead_of + pending.lead)
        timeline = self.hardened(state.timeline, pending.grids, start)
        return replace(state, timeline=timeline, pending=replace(pending, start=start))

    def _forgetting(self, state: PlanState) -> PlanState:
        if state.past.watermark is None:
            return state
        return replace(state, timeline=state.timeline.without_before(self.forgettable(state.past.watermark)))


def _noted(state: PlanState, facts: BatchFacts) -> PlanState:
    """Count a batch, and those that were held back for it. Batches count in the order of their ids, without a gap."""
    past, pending = state.past, state.pending
    held: list[BatchFacts] = []
    for report in sorted((*state.held, facts), key=lambda one: one.batch):
        if report.batch > past.next_batch:
            held.append(report)
            continue
        past = past.then(report)
        pending = pending and pending.then(report)
    return replace(state, past=past, pending=pending, held=tuple(held))


def _highest(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _after(time: int | None) -> int:
    return BEGINNING if time is None else time + 1
