import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.routing.ring import apportion, make_ring, resplit, slot_counts

weight = st.one_of(st.just(0.0), st.floats(min_value=0, allow_nan=False, allow_infinity=False), st.integers(0, 20))
some_weights = st.lists(weight, min_size=1, max_size=12).filter(any)
ring_sizes = st.integers(12, 300)


@st.composite
def rings(draw):
    pool = draw(st.integers(1, 8))
    tasks = st.lists(st.integers(0, pool - 1), min_size=8, max_size=200)
    return pool, tuple(draw(tasks))


def moved(before, after):
    return sum(1 for old, new in zip(before, after, strict=True) if old != new)


@settings(deadline=None)
@given(some_weights, ring_sizes)
def test_all_slots_are_given_out_and_every_positive_weight_gets_one(weights, slots):
    counts = apportion(weights, slots)
    assert sum(counts) == slots
    assert [count > 0 for count in counts] == [weight > 0 for weight in weights]


@pytest.mark.parametrize(
    ("weights", "slots"),
    [
        ([7, 3, 2], 1024),
        ([4, 3, 1], 1024),
        ([1, 1, 1], 1024),
        ([1, 1000], 1024),
        ([0.1, 0.2, 0.7], 100),
        ([5, 0, 3], 8),
    ],
)
def test_a_ratio_is_met_to_within_one_slot(weights, slots):
    for count, weight in zip(apportion(weights, slots), weights, strict=True):
        assert abs(count - slots * weight / sum(weights)) <= 1


@settings(deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), ring_sizes)
def test_any_ratio_is_met_to_within_the_rounding_of_the_whole_pool(weights, slots):
    for count, weight in zip(apportion(weights, slots), weights, strict=True):
        share = weight / sum(weights)
        assert abs(count - slots * share) <= 1 + len(weights) * share


@settings(deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=2, max_size=12), ring_sizes)
def test_no_single_slot_would_serve_the_ratio_better_with_another_task(weights, slots):
    counts = apportion(weights, slots)
    cheapest_next = max(weight / (count + 0.5) for weight, count in zip(weights, counts, strict=True))
    for weight, count in zip(weights, counts, strict=True):
        assert count == 1 or weight / (count - 0.5) >= cheapest_next * (1 - 1e-12)


@given(some_weights, ring_sizes)
def test_a_fresh_ring_has_the_apportioned_counts(weights, slots):
    assert slot_counts(make_ring(weights, slots), len(weights)) == apportion(weights, slots)


@settings(deadline=None)
@given(rings(), st.data())
def test_a_new_ratio_moves_exactly_the_slots_that_some_task_lacks(ring_of_pool, data):
    pool, ring = ring_of_pool
    weights = data.draw(st.lists(st.integers(0, 50), min_size=pool, max_size=pool).filter(any))
    after = resplit(ring, weights)
    wanted, had = apportion(weights, len(ring)), slot_counts(ring, pool)
    assert slot_counts(after, pool) == wanted
    assert moved(ring, after) == sum(max(0, want - has) for want, has in zip(wanted, had, strict=True))


@settings(deadline=None)
@given(some_weights, ring_sizes)
def test_the_same_weights_again_change_nothing(weights, slots):
    ring = make_ring(weights, slots)
    assert resplit(ring, weights) == ring


@settings(deadline=None)
@given(rings())
def test_the_counts_of_any_ring_as_weights_change_nothing(ring_of_pool):
    pool, ring = ring_of_pool
    assert resplit(ring, slot_counts(ring, pool)) == ring


@settings(deadline=None)
@given(some_weights.filter(lambda weights: sum(map(bool, weights)) > 1), ring_sizes, st.data())
def test_disabling_a_task_moves_no_slot_of_another_whatever_the_weights(weights, slots, data):
    task = data.draw(st.sampled_from([task for task, weight in enumerate(weights) if weight > 0]))
    ring = make_ring(weights, slots)
    after = resplit(ring, [0 if other == task else weight for other, weight in enumerate(weights)])
    assert task not in after
    assert all(new == old for old, new in zip(ring, after, strict=True) if old != task)


@settings(deadline=None)
@given(rings().filter(lambda made: len(set(made[1])) > 1), st.data())
def test_disabling_a_task_moves_no_slot_of_another_whatever_the_ring(ring_of_pool, data):
    pool, ring = ring_of_pool
    task = data.draw(st.sampled_from(sorted(set(ring))))
    counts = list(slot_counts(ring, pool))
    counts[task] = 0
    after = resplit(ring, counts)
    assert task not in after
    assert all(new == old for old, new in zip(ring, after, strict=True) if old != task)


def test_a_task_beyond_the_new_pool_gives_up_its_slots():
    assert resplit((0, 1, 2, 2), [1, 1]) == (0, 1, 0, 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1, -1e-300])
def test_a_weight_that_is_no_weight_is_refused_by_its_task(bad):
    with pytest.raises(ValueError, match="weight of task 1"):
        apportion([1, bad, 1], 8)


@pytest.mark.parametrize("weights", [[0, 0, 0], [0.0], []])
def test_weights_that_leave_no_task_are_refused(weights):
    with pytest.raises(ValueError, match="all weights are zero"):
        make_ring(weights, 8)


def test_more_tasks_than_slots_are_refused_but_tasks_without_weight_do_not_count():
    with pytest.raises(ValueError, match="9 tasks cannot share a ring of 8"):
        resplit((0,) * 8, [1] * 9)
    assert apportion([1] * 8 + [0], 8) == (1,) * 8 + (0,)
