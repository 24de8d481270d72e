"""When a share for slow workers shortens what tuples wait: the model behind the splits of `bypass` in real time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.control.policies.share_model import is_better_without, stay

LOADS = st.floats(0.01, 0.99)
QUANTILES = st.sampled_from(["mean", "p50", "p95", "p99"])


@pytest.mark.parametrize(("quantile", "level"), [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)])
def test_stays_are_those_of_simulated_queues(quantile, level):
    """Three M/M/1 queues, one of them 4.5 times as slow, with shares in proportion to their speed."""
    rng, rate, work = np.random.default_rng(1), 1.0, 1.8
    capacity = 2 + 1 / 4.5
    stays = []
    for slowness in (1.0, 1.0, 4.5):
        share = 1 / slowness / capacity
        size = int(400_000 * share)
        arrivals = np.cumsum(rng.exponential(1 / (rate * work * share), size))
        done, services = 0.0, rng.exponential(slowness, size)
        for arrival, service in zip(arrivals, services, strict=True):
            done = max(done, arrival) + service
            stays.append(done - arrival)
    assert stay(work, {1.0: 2.0, 4.5: 1.0}, quantile) == pytest.approx(np.quantile(stays, level), rel=0.15)


@given(LOADS, st.floats(1.01, 100.0), QUANTILES)
def test_more_tasks_of_the_same_speed_never_prolong_stays(load, more, quantile):
    assert stay(load * 2, {1.0: 2.0 * more}, quantile) <= stay(load * 2, {1.0: 2.0}, quantile) * (1 + 1e-9)


@given(LOADS, st.floats(2.5, 50.0), QUANTILES)
def test_who_has_a_share_keeps_it_wherever_one_who_has_none_would_get_it(load, slowness, quantile):
    kept, given_back = (
        not is_better_without(load * 2, 2.0, {slowness: 1.0}, quantile, has_share=now) for now in (True, False)
    )
    assert kept or not given_back


def test_a_share_pays_only_near_the_load_that_the_others_cannot_take():
    pays = [
        load for load in range(50, 110) if not is_better_without(load / 50, 2.0, {4.5: 1.0}, "p99", has_share=False)
    ]
    assert pays == list(range(min(pays), 110))
    assert 94 <= min(pays) <= 96


def test_queues_that_grow_have_no_end():
    assert stay(2.0, {1.0: 2.0}, "p99") == math.inf
    assert not is_better_without(3.0, 2.0, {4.5: 1.0}, "p99", has_share=False)
