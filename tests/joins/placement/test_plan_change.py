"""The steps of a change of plan, one by one; `test_plan_change_model` shows that together they are exact."""

import pytest

from foretide.errors import JoinPlanError
from foretide.joins.placement.plan_change import BatchHistory, CommittedBatch, Maxima, PlanChangeProtocol, PlanState
from foretide.joins.placement.salts import TAIL
from foretide.joins.placement.spec import JoinBound
from foretide.joins.placement.timeline import BEGINNING, FOREVER, Timeline, Version

KEY, OTHER = 5, -6
HOT = ((1, 2), (3, 4))


def test_a_grid_that_is_left_is_remembered_until_the_watermark_has_passed_both_bounds():
    protocol, state = settled_at(100)
    state = protocol.advance(protocol.announce(state, {KEY: TAIL}, 10), CommittedBatch(2, 99, Maxima(120, 120)))
    end = state.timeline.versions(KEY)[-1].start
    early = protocol.advance(state, CommittedBatch(3, 99, Maxima(), end + 6))
    assert early.timeline.taken(KEY) == {0, 1, 2, 3, 4}
    assert protocol.advance(early, CommittedBatch(4, 99, Maxima(), end + 7)).timeline.plans == {}


def settled_at(time):
    """A key that was split, with everything reported up to a time."""
    protocol = PlanChangeProtocol(JoinBound(before=3, after=4))
    state = protocol.advance(PlanState(Timeline(), BatchHistory()), CommittedBatch(0, 0, Maxima(50, 50)))
    state = protocol.announce(state, {KEY: HOT}, 10)
    state = protocol.advance(state, CommittedBatch(1, state.timeline.version, Maxima(time, time)))
    assert state.timeline.versions(KEY) == (Version(BEGINNING, 64, TAIL), Version(64, FOREVER, HOT))
    return protocol, state


def test_the_first_step_is_the_old_plan_with_a_hard_end_ahead_of_all_that_was_seen():
    protocol, state = settled_at(100)
    announced = protocol.announce(state, {KEY: ((9,),), OTHER: ((1,),)}, 10)
    assert announced.timeline.hard_ends == {KEY: 114, OTHER: 114}
    assert announced.timeline.without_hard_ends().plans == state.timeline.plans
    assert announced.timeline.version == state.timeline.version + 1


def test_a_plan_that_is_in_force_already_is_not_announced_again():
    protocol, state = settled_at(100)
    assert protocol.announce(state, {KEY: HOT, OTHER: TAIL}, 10) is state


def test_a_batch_under_an_older_table_that_got_further_moves_the_start_ahead():
    protocol, state = settled_at(100)
    older = state.timeline.version
    state = protocol.announce(state, {KEY: TAIL}, 10)
    moved = protocol.advance(state, CommittedBatch(2, older, Maxima(105, 200)))
    assert moved.timeline.hard_ends == {KEY: 214}
    finished = protocol.advance(state, CommittedBatch(3, state.timeline.version, Maxima(110, 100)))
    assert finished.timeline.hard_ends
    finished = protocol.advance(finished, CommittedBatch(2, older, Maxima(105, 200)))
    assert (finished.pending, finished.held, finished.timeline.versions(KEY)[-1].start) == (None, (), 204)


def test_each_failure_moves_the_hard_end_twice_as_far():
    protocol, state = settled_at(100)
    state = protocol.announce(state, {KEY: TAIL}, 10)
    ends = []
    for _ in range(3):
        state = protocol.retry(state)
        ends.append(state.timeline.hard_ends[KEY])
    assert ends == [134, 174, 254]
    assert protocol.retry(state, reached=5000).timeline.hard_ends[KEY] == 5001 + 160


def test_a_failure_without_a_change_under_way_changes_nothing():
    protocol, state = settled_at(100)
    assert protocol.retry(state) is state


def test_a_change_that_is_cancelled_leaves_the_plan_as_it_was():
    protocol, state = settled_at(100)
    cancelled = protocol.cancel(protocol.announce(state, {KEY: TAIL, OTHER: HOT}, 10))
    assert cancelled.timeline.plans == state.timeline.plans
    assert cancelled.timeline.version == state.timeline.version + 2
    assert cancelled.pending is None


def test_recovering_takes_back_an_unfinished_step_and_leaves_a_finished_plan_alone():
    protocol, state = settled_at(100)
    assert protocol.recover(state.timeline, state.history) == state
    unfinished = protocol.announce(state, {KEY: TAIL}, 10).timeline
    assert protocol.recover(unfinished, state.history).timeline.plans == state.timeline.plans


@pytest.mark.parametrize(
    ("grids", "lead", "reason"),
    [
        ({KEY: ((9, 1),)}, 10, "use salt 1"),
        ({KEY: ((9, 9),)}, 10, "a salt twice"),
        ({KEY: TAIL}, 0, "lead must be at least 1, got 0"),
    ],
)
def test_a_change_that_would_not_be_exact_is_refused(grids, lead, reason):
    protocol, state = settled_at(100)
    with pytest.raises(JoinPlanError, match=reason):
        protocol.announce(state, grids, lead)


def test_only_one_change_is_under_way_at_a_time_and_none_before_the_first_batch():
    protocol, state = settled_at(100)
    with pytest.raises(JoinPlanError, match="under way"):
        protocol.announce(protocol.announce(state, {KEY: TAIL}, 10), {OTHER: HOT}, 10)
    with pytest.raises(JoinPlanError, match="no row was seen"):
        protocol.announce(PlanState(Timeline(), BatchHistory()), {KEY: HOT}, 10)


def test_a_left_join_is_split_over_rows_only():
    protocol = PlanChangeProtocol(JoinBound(3, 3, "left"))
    state = PlanState(Timeline(), BatchHistory(1, Maxima(50, 50)))
    assert protocol.announce(state, {KEY: ((1,), (2,))}, 10).pending is not None
    with pytest.raises(JoinPlanError, match="one cell only"):
        protocol.announce(state, {KEY: ((1, 2),)}, 10)
