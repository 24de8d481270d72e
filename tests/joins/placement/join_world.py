"""A streaming join in small: batches that read the plan's file, a controller that follows them, and what can go wrong.

A world is a value. `moves` lists what could happen next, in whatever order a test chooses: a batch starts (and
reads the table of that moment), ends, or is killed; a report is delivered or lost; the controller announces a
change or publishes; everything, or only the controller, crashes and recovers. What a batch holds is fixed, as in
Spark's offset log, so a batch that is tried again has the same tuples and reads the newest table.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice, product

from foretide.errors import PastHardEndError
from foretide.joins.placement.plan_change import BatchHistory, CommittedBatch, Maxima, PlanChangeProtocol, PlanState
from foretide.joins.placement.salts import TAIL
from foretide.joins.placement.spec import JoinBound
from foretide.joins.placement.timeline import Timeline
from joins.placement.reference_cells import left_cells, matches, right_cells


@dataclass(frozen=True)
class Row:
    side: str
    key: int
    time: int
    row_hash: int


@dataclass(frozen=True)
class Scenario:
    """The rows of each batch, the changes wanted (key -> rows and columns, None: the tail), and what may go wrong."""

    batches: tuple[tuple[Row, ...], ...]
    changes: tuple[tuple[tuple[int, tuple[int, int] | None], ...], ...]
    bound: JoinBound
    delay: int = 5
    lead: int = 1
    crashes: int = 1
    losses: int = 1
    kills: int = 2
    failures: int = 2

    @cached_property
    def progress(self):
        """Maxima and watermark of each batch; the watermark comes from the batches before it, as in Spark."""
        progress, past, watermark = [], Maxima(), None
        for rows in self.batches:
            if past.left is not None and past.right is not None:
                found = min(past.left, past.right) - self.delay
                watermark = found if watermark is None else max(found, watermark)
            own = Maxima(*(max((r.time for r in rows if r.side == side), default=None) for side in "LR"))
            progress.append((own, watermark))
            past = past.joined(own)
        return progress

    @cached_property
    def on_time(self):
        """The rows of each batch that are not late by the watermark of the batch before, with identities."""
        late = [None, *(watermark for _, watermark in self.progress)]
        return [
            [((batch, place), row) for place, row in enumerate(rows) if late[batch] is None or row.time > late[batch]]
            for batch, rows in enumerate(self.batches)
        ]

    @cached_property
    def plain(self):
        """What a join without any plan gives."""
        every = [one for rows in self.on_time for one in rows]
        pairs = product([x for x in every if x[1].side == "L"], [x for x in every if x[1].side == "R"])
        return Counter((left[0], right[0]) for left, right in pairs if self.fits(left[1], right[1]))

    def fits(self, left, right):
        return left.key == right.key and matches(self.bound, left.time, right.time)


@dataclass(frozen=True)
class World:
    scenario: Scenario
    protocol: PlanChangeProtocol
    state: PlanState = field(default_factory=lambda: PlanState(Timeline(), BatchHistory()))
    file: Timeline = field(default_factory=Timeline)
    committed: int = 0
    running: Timeline | None = None
    held: tuple = ()  # the join's state: identity, row and cells
    sink: tuple = ()  # the pairs of each batch that the sink has taken
    reports: tuple = ()
    journal: tuple = ()
    changes: int = 0
    crashes: int = 0
    losses: int = 0
    kills: int = 0
    failures: int = 0

    @property
    def done(self):
        return self.committed == len(self.scenario.batches)

    @property
    def result(self):
        return Counter(pair for pairs in self.sink for pair in pairs)

    @property
    def history(self):
        """All committed batches, as a journal or the join's own state would tell them after a restart."""
        history = BatchHistory()
        for batch in self.journal:
            history = history.including(batch)
        return history

    @property
    def memo(self):
        """All that the future depends on."""
        state = self.state
        pending = state.pending and replace(state.pending, grids=tuple(sorted(state.pending.grids.items())))
        plans = [t and (t.version, tuple(sorted(t.plans.items()))) for t in (state.timeline, self.file, self.running)]
        counts = (self.committed, self.changes, self.crashes, self.losses, self.kills, self.failures)
        return (*plans, state.history, pending, state.held, self.held, self.sink, self.reports, self.journal, counts)


def moves(world):
    """What could happen next, by name. After some failures the query starts again once the controller has answered."""
    in_step = not world.reports and world.state.timeline.version == world.file.version
    possible = {
        "announce": world.changes < len(world.scenario.changes)
        and world.state.pending is None
        and world.state.seen != Maxima(),
        "publish": world.state.timeline.version > world.file.version,
        "start": world.running is None and not world.done and (world.failures < world.scenario.failures or in_step),
        "end": world.running is not None,
        "kill": world.running is not None and world.kills < world.scenario.kills,
        "deliver": bool(world.reports),
        "lose": bool(world.reports) and world.losses < world.scenario.losses,
        "refill": bool(world.state.held),
        "crash": world.crashes < world.scenario.crashes,
        "crash after the sink": world.running is not None and world.crashes < world.scenario.crashes,
        "crash of the controller": world.crashes < world.scenario.crashes,
    }
    return [name for name, able in possible.items() if able]


def move(world, name):
    return {
        "announce": announce,
        "publish": lambda w: replace(w, file=w.state.timeline),
        "start": lambda w: replace(w, running=w.file),
        "end": end,
        "kill": lambda w: replace(w, running=None, kills=w.kills + 1),
        "deliver": deliver,
        "lose": lambda w: replace(w, reports=w.reports[1:], losses=w.losses + 1),
        "refill": refill,
        "crash": crash,
        "crash after the sink": crash_after_the_sink,
        "crash of the controller": crash_of_the_controller,
    }[name](world)


def announce(world):
    grids = {
        key: TAIL if shape is None else fresh_grid(shape, world.state.timeline.taken(key))
        for key, shape in world.scenario.changes[world.changes]
    }
    state = world.protocol.announce(world.state, grids, world.scenario.lead)
    return replace(world, state=state, changes=world.changes + 1)


def fresh_grid(shape, taken):
    """The smallest salts that are free, so that cells are used again as soon as they may be."""
    rows, columns = shape
    salts = islice((salt for salt in count(1) if salt not in taken), rows * columns)
    return tuple(tuple(islice(salts, columns)) for _ in range(rows))


def end(world):
    """The batch is placed by the table that it read when it started, joined, and committed; or it fails."""
    try:
        held, pairs = joined(world)
    except PastHardEndError:
        failures = min(world.failures + 1, world.scenario.failures)
        return replace(world, running=None, reports=(*world.reports, None), failures=failures)
    maxima, watermark = world.scenario.progress[world.committed]
    batch = CommittedBatch(world.committed, world.running.version, maxima, watermark)
    return replace(
        world,
        committed=world.committed + 1,
        running=None,
        held=held,
        sink=taken(world, pairs),
        reports=(*world.reports, batch),
        journal=(*world.journal, batch),
    )


def joined(world):
    """The join's state with this batch, and the pairs that the batch adds: each as often as it meets in a cell."""
    placed = tuple((who, row, cells(world, row)) for who, row in world.scenario.on_time[world.committed])
    held = (*world.held, *placed)
    pairs = []
    lefts, rights = ([one for one in held if one[1].side == side] for side in "LR")
    for (left, left_row, at), (right, right_row, there) in product(lefts, rights):
        if world.committed in (left[0], right[0]) and world.scenario.fits(left_row, right_row):
            pairs += [(left, right)] * len(set(at) & set(there))
    return held, tuple(pairs)


def cells(world, row):
    if row.side == "L":
        return left_cells(world.running, row.key, row.row_hash, row.time)
    return right_cells(world.running, row.key, row.row_hash, row.time, world.scenario.bound)


def taken(world, pairs):
    """A sink takes the output of a batch once, and ignores it when the batch comes again."""
    return world.sink if len(world.sink) > world.committed else (*world.sink, pairs)


def deliver(world):
    report, *rest = world.reports
    protocol, state = world.protocol, world.state
    state = protocol.retry(state) if report is None else protocol.advance(state, report)
    return replace(world, state=state, reports=tuple(rest))


def refill(world):
    """The caller sees the gap and looks up the missing batch in the query's own record of progress."""
    missing = world.journal[world.state.history.next_batch]
    return replace(world, state=world.protocol.advance(world.state, missing))


def crash(world):
    """All is gone but the checkpoint, the sink and the file; the plan is recovered before the query starts again."""
    state = world.protocol.recover(world.file, world.history)
    return replace(world, state=state, file=state.timeline, running=None, reports=(), crashes=world.crashes + 1)


def crash_after_the_sink(world):
    """The sink has the batch, but the batch is not committed: it will be run again, and its output ignored."""
    try:
        _, pairs = joined(world)
    except PastHardEndError:
        return crash(world)
    return crash(replace(world, sink=taken(world, pairs)))


def crash_of_the_controller(world):
    """The query runs on; what the controller had decided and not published is gone."""
    state = world.protocol.recover(world.file, world.history)
    return replace(world, state=state, reports=(), crashes=world.crashes + 1)


WELL = ("deliver", "refill", "publish", "start", "end")


def drained(world, patience=60):
    """Let all go well from here on; None when the query does not get through its batches."""
    for _ in range(patience):
        if world.done:
            return world
        for name in WELL:
            while name in moves(world):
                world = move(world, name)
                if name == "end":
                    break
    return None


def fault(world):
    """What is wrong with a world that has come to its end, or could not: None if nothing is."""
    if world is None:
        return "stuck"
    lost, extra = world.scenario.plain - world.result, world.result - world.scenario.plain
    return f"lost {sorted(lost)}, extra {sorted(extra)}" if lost or extra else None


def wander(world, choose, steps):
    """A random walk, then a good end."""
    for _ in range(steps):
        if not (able := moves(world)):
            break
        world = move(world, choose(able))
    return drained(world)


def explore(world, limit=400_000):
    """Every order of events: the number of different worlds, and the first fault among them.

    A world that cannot come to its end while all goes well is stuck.
    """
    seen, front = {world.memo: 0}, [world]
    before, ends = {}, []
    while front:
        world = front.pop()
        here = seen[world.memo]
        if world.done:
            ends.append(here)
            if found := fault(world):
                return len(seen), found
            continue
        for name in moves(world):
            after = move(world, name)
            if after.memo not in seen:
                seen[after.memo] = len(seen)
                front.append(after)
            there = seen[after.memo]
            if name in WELL:
                before.setdefault(there, []).append(here)
        assert len(seen) < limit, "too many worlds to look at all of them"
    return len(seen), None if len(_reached(ends, before)) == len(seen) else "stuck"


def _reached(ends, before):
    reached, front = set(ends), list(ends)
    while front:
        for earlier in before.get(front.pop(), ()):
            if earlier not in reached:
                reached.add(earlier)
                front.append(earlier)
    return reached
