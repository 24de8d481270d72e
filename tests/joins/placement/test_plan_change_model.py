"""No pair is lost or doubled and no query gets stuck, in whatever order things happen; and every step is needed."""

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.joins.placement import timeline as timeline_module
from foretide.joins.placement.plan_change import BatchHistory, PlanChangeProtocol
from foretide.joins.placement.spec import JoinBound
from foretide.joins.placement.timeline import BEGINNING, Timeline
from joins.placement import join_world
from joins.placement.join_world import Row, Scenario, World, explore, fault, wander

KEY, OTHER = 5, -6


class OnlyLeftCounts(PlanChangeProtocol):
    def horizon(self, maxima):
        return super().horizon(maxima if maxima.left is None else replace(maxima, right=None))


class OnlyRightCounts(PlanChangeProtocol):
    def horizon(self, maxima):
        return super().horizon(maxima if maxima.right is None else replace(maxima, left=None))


class RightReachIsForgotten(PlanChangeProtocol):
    """The bound is not taken off on the right side."""

    def horizon(self, maxima):
        return max((time + 1 for time in (maxima.left, maxima.right) if time is not None), default=BEGINNING)


class NoHardEnd(PlanChangeProtocol):
    """The first step is published, confirmed and waited for, but nothing stops a batch that goes past it."""

    def with_hard_end(self, timeline, grids, end):
        return Timeline(timeline.version + 1, timeline.plans)


class NoWaiting(PlanChangeProtocol):
    """The second step comes with the next report, whatever table that batch read."""

    def is_settled(self, pending):
        return True


class NoRollBack(PlanChangeProtocol):
    def roll_back(self, timeline):
        return timeline


class ForgetsTooEarly(PlanChangeProtocol):
    """Versions are dropped, and their cells free, as soon as the watermark has passed their end."""

    def obsolete_before(self, watermark):
        return watermark


class ForgetsThePast(PlanChangeProtocol):
    """After a restart only what is seen from then on counts."""

    def recover(self, published, history):
        return super().recover(published, BatchHistory(history.next_batch))


class IgnoresGaps(PlanChangeProtocol):
    """A report that is missing is not waited for."""

    def advance(self, state, batch):
        history = replace(state.history, next_batch=max(state.history.next_batch, batch.id))
        return super().advance(replace(state, history=history), batch)


MUTANTS = [
    OnlyLeftCounts,
    OnlyRightCounts,
    RightReachIsForgotten,
    NoHardEnd,
    NoWaiting,
    NoRollBack,
    ForgetsTooEarly,
    ForgetsThePast,
    IgnoresGaps,
]


def left(time, row_hash=0):
    return Row("L", KEY, time, row_hash)


def right(time, row_hash=0):
    return Row("R", KEY, time, row_hash)


@dataclass(frozen=True)
class Small:
    """A scenario small enough to look at every order of events, and the missing steps that it shows."""

    name: str
    scenario: Scenario
    shows: tuple[type[PlanChangeProtocol], ...]


SMALL = [
    Small(
        "both sides go on",
        Scenario(
            ((left(0), right(1)), (left(6, 1), right(3)), (left(4), right(7, 1)), (left(9, 1), right(6))),
            (((KEY, (1, 2)),),),
            JoinBound(2, 2),
            kills=1,
        ),
        (NoHardEnd, NoWaiting, NoRollBack),
    ),
    Small(
        "the right side runs ahead once",
        Scenario(
            ((left(0), right(0)), (right(9),), (left(1),), (right(0),), (left(9), left(12, 1), right(11))),
            (((KEY, (2, 1)),),),
            JoinBound(3, 1),
            kills=1,
        ),
        (NoHardEnd, NoWaiting, NoRollBack, OnlyLeftCounts, RightReachIsForgotten, ForgetsThePast, IgnoresGaps),
    ),
    Small(
        "the left side runs ahead once",
        Scenario(
            ((left(0), right(0)), (left(9),), (left(1),), (right(0),), (right(9), right(8, 1), left(11))),
            (((KEY, (1, 2)),),),
            JoinBound(1, 3),
            kills=1,
        ),
        (NoHardEnd, NoWaiting, NoRollBack, OnlyRightCounts, ForgetsThePast, IgnoresGaps),
    ),
    Small(
        "there and back",
        Scenario(
            ((left(0), right(0)), (left(2), right(1)), (left(4, 1), right(4)), (left(5), right(5)), (right(5, 1),)),
            (((KEY, (2, 2)),), ((KEY, None),)),
            JoinBound(1, 3),
            delay=0,
            crashes=0,
            losses=0,
            kills=1,
        ),
        (NoHardEnd, NoWaiting, ForgetsTooEarly),
    ),
]


@pytest.mark.parametrize("small", SMALL, ids=lambda small: small.name)
def test_in_every_order_of_events_each_pair_meets_once_and_the_query_gets_through(small):
    worlds, found = explore(World(small.scenario, PlanChangeProtocol(small.scenario.bound)))
    assert found is None
    assert worlds > 1000


@pytest.mark.parametrize(
    ("small", "mutant"),
    [(small, mutant) for small in SMALL for mutant in small.shows],
    ids=lambda part: getattr(part, "name", None) or part.__name__,
)
def test_some_order_of_events_shows_that_a_step_is_missing(small, mutant):
    _, found = explore(World(small.scenario, mutant(small.scenario.bound)))
    assert found is not None
    assert (found == "stuck") == (mutant is NoRollBack)


shapes = st.one_of(st.none(), st.tuples(st.integers(1, 2), st.integers(1, 3)))


@st.composite
def scenarios(draw):
    """Time goes on from batch to batch, with tuples out of order and some that run far ahead or lag behind."""
    before = draw(st.integers(-1, 4))
    pace = draw(st.integers(1, 4))

    def row(batch):
        time = batch * pace + draw(st.integers(-5, 5)) + draw(st.sampled_from([0, 0, 0, 0, 6]))
        return Row(draw(st.sampled_from("LR")), draw(st.sampled_from([KEY, KEY, OTHER])), time, draw(st.integers(0, 5)))

    batches = tuple(
        tuple(row(batch) for _ in range(draw(st.integers(0, 6)))) for batch in range(draw(st.integers(2, 8)))
    )
    changes = draw(st.lists(st.dictionaries(st.sampled_from([KEY, OTHER]), shapes, min_size=1), max_size=4))
    return Scenario(
        batches,
        tuple(tuple(sorted(change.items())) for change in changes),
        JoinBound(before, draw(st.integers(-before, 4))),
        delay=draw(st.integers(0, 12)),
        lead=draw(st.integers(1, 8)),
        crashes=2,
    )


@settings(deadline=None, max_examples=300)
@given(scenarios(), st.data())
def test_in_any_order_of_events_the_result_is_that_of_the_plain_join(scenario, data):
    world = World(scenario, PlanChangeProtocol(scenario.bound))
    assert fault(wander(world, lambda able: data.draw(st.sampled_from(able)), data.draw(st.integers(0, 60)))) is None


def drawn(rng):
    """A scenario like those above from a plain random source: many of them in little time."""
    before = rng.randint(-1, 4)
    pace = rng.randint(1, 4)

    def row(batch):
        time = batch * pace + rng.randint(-5, 5) + rng.choice([0, 0, 0, 0, 6])
        return Row(rng.choice("LR"), KEY, time, rng.randint(0, 5))

    batches = tuple(tuple(row(batch) for _ in range(rng.randint(1, 6))) for batch in range(rng.randint(4, 9)))
    changes = tuple(((KEY, rng.choice([None, (2, 1), (1, 2), (2, 2), (1, 3)])),) for _ in range(rng.randint(1, 4)))
    bound = JoinBound(before, rng.randint(-before, 4))
    return Scenario(batches, changes, bound, delay=rng.randint(0, 12), lead=rng.randint(1, 8), crashes=2)


OFTEN = {"start": 3, "end": 3, "deliver": 3, "publish": 3, "announce": 3, "refill": 2}


def first_fault(protocol, walks, seed=11):
    """The first fault in many random walks, and how many it took."""
    rng = random.Random(seed)
    for walk in range(walks):
        scenario = drawn(rng)
        choose = lambda able: rng.choices(able, [OFTEN.get(name, 1) for name in able])[0]
        if found := fault(wander(World(scenario, protocol(scenario.bound)), choose, rng.randint(10, 80))):
            return walk, found
    return walks, None


def test_many_random_walks_find_no_fault():
    assert first_fault(PlanChangeProtocol, 1500) == (1500, None)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_protocol_without_one_of_its_steps_is_found_out(mutant):
    walks, found = first_fault(mutant, 6000)
    assert found is not None
    assert (found == "stuck") == (mutant is NoRollBack), (walks, found)


def test_cells_used_again_too_early_are_found_out(monkeypatch):
    monkeypatch.setattr(timeline_module, "_check_shared", lambda *_: None)
    monkeypatch.setattr(join_world, "fresh_grid", lambda shape, _, fresh=join_world.fresh_grid: fresh(shape, ()))
    _, found = first_fault(PlanChangeProtocol, 6000)
    assert "extra" in found
