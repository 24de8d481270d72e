"""The wait in queues of their own, beside queues that are simulated tuple by tuple."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.queueing.sojourn import own_queue_wait
from foretide.routing.ring import make_ring
from queues import gaps_of, taken_at

TUPLES = 200_000


def by_the_ring(tasks, rng):
    """The task of each tuple on an edge: a hash of its content chooses the slot."""
    ring = np.array(make_ring([1.0] * tasks))
    return ring[rng.integers(0, ring.size, TUPLES)]


def simulated(tasks, busy, arrivals, service, seed, assign=by_the_ring):
    """The mean wait in mean service times."""
    rng = np.random.default_rng(seed)
    came = np.cumsum(gaps_of(arrivals, TUPLES, rng)) / (busy * tasks)
    work, task = gaps_of(service, TUPLES, rng), assign(tasks, rng)
    waits = [taken_at(came[task == each], work[task == each]) - came[task == each] for each in range(tasks)]
    return float(np.concatenate(waits).mean())


def by_formula(tasks, busy, arrivals, service):
    given_values = (float(tasks), tasks * busy, arrivals, service)
    return float(own_queue_wait(*(np.array([value]) for value in given_values))[0])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.floats(0.1, 0.7), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.integers(0, 2**32))
def test_poisson_arrivals_that_the_ring_splits_wait_as_long_as_the_formula_says(tasks, busy, service, seed):
    assert simulated(tasks, busy, 1.0, service, seed) == pytest.approx(by_formula(tasks, busy, 1.0, service), rel=0.12)


@pytest.mark.parametrize("tasks", [4, 8])
@pytest.mark.parametrize("arrivals", [0.5, 4.0])
def test_other_arrivals_wait_about_as_long_as_the_formula_says(tasks, arrivals):
    wait = by_formula(tasks, 0.6, arrivals, 1.0)
    assert simulated(tasks, 0.6, arrivals, 1.0, seed=3) == pytest.approx(wait, rel=0.15)


@pytest.mark.parametrize("tasks", [2, 4, 8])
def test_the_formula_is_not_that_of_tasks_that_get_tuples_in_turn(tasks):
    """Every k-th tuple comes more evenly than a random one: such queues are shorter, and no edge has them."""
    in_turn = simulated(tasks, 0.6, 1.0, 1.0, seed=3, assign=lambda k, _: np.arange(TUPLES) % k)
    assert in_turn < 0.85 * by_formula(tasks, 0.6, 1.0, 1.0)
