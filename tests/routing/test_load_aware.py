import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.routing.ring import assign


def utilization(processed, execution_time, interval):
    """Eq 1."""
    return processed * execution_time / interval


def one_by_one(load, cost, slots):
    """The replicas that Algorithm 1 sends its events to, in order."""
    counts = [assign(load, cost, events) for events in range(slots + 1)]
    return [next(j for j in range(len(load)) if after[j] > before[j]) for before, after in itertools.pairwise(counts)]


def test_the_lowest_utilization_takes_the_event_and_ties_go_to_the_first():
    # U = .50 .25 .00, each event adds .25: 2, then 1 and 2 stand at .25 (1 is first), 2, then all at .50: 0 1 2
    assert one_by_one([0.5, 0.25, 0.0], [0.25] * 3, 6) == [2, 1, 2, 0, 1, 2]


def test_utilization_starts_from_what_eq_1_gives():
    # 30 s, 0.1 s an event: 150, 60 and 210 events are U = .5 .2 .7; every further event adds 1/300.
    load = [utilization(events, 0.1, 30.0) for events in (150, 60, 210)]
    assert load == pytest.approx([0.5, 0.2, 0.7])
    # 90 events lift the second to the first, 2 * 60 more lift both to the third, the last 30 are shared.
    assert assign(load, [0.1 / 30] * 3, 90 + 120 + 30) == pytest.approx((60 + 10, 90 + 60 + 10, 10), abs=1)


def test_events_go_round_robin_once_the_lowest_utilization_has_reached_one():
    # .75 and .50: 1 -> .75, tie 0 -> 1.0, 1 -> 1.0, then 0 1 0 1 ...
    assert one_by_one([0.75, 0.5], [0.25, 0.25], 7) == [1, 0, 1, 0, 1, 0, 1]


def test_full_replicas_share_evenly_from_the_first_event_on():
    assert one_by_one([1.0, 1.5, 1.0], [0.5, 0.1, 0.1], 5) == [0, 1, 2, 0, 1]
    assert assign([1.0, 1.5, 1.0], [0.5, 0.1, 0.1], 7) == (3, 2, 2)


def test_a_slow_replica_fills_up_sooner():
    # 0 -> .125, 1 -> .5, then 0 -> .25 .375 .5, and the tie at .5 goes to 0
    assert one_by_one([0.0, 0.0], [0.125, 0.5], 6) == [0, 1, 0, 0, 0, 0]
    assert assign([0.0, 0.0], [0.001, 0.002], 300) == (200, 100)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 2), st.floats(1e-6, 1)), min_size=1, max_size=6), st.integers(0, 200))
def test_every_slot_is_given_out(replicas, slots):
    assert sum(assign([load for load, _ in replicas], [cost for _, cost in replicas], slots)) == slots


@settings(deadline=None)
@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=6), st.integers(6, 200))
def test_no_replica_is_left_out_when_all_start_idle(cost, slots):
    assert min(assign([0.0] * len(cost), cost, slots)) >= 1


@pytest.mark.parametrize(("load", "cost"), [([0.0], [0.1, 0.1]), ([0.0, 0.0], [0.1]), ([], [])])
def test_one_utilization_and_one_cost_are_needed_for_every_replica(load, cost):
    with pytest.raises(ValueError, match="one of each for every replica"):
        assign(load, cost, 3)
