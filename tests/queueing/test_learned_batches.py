"""Costs of batches that were simulated row by row are found again, and say what more cores and replicas bring."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.queueing.batches import BatchModel, StagePlan
from foretide.queueing.learned_batches import BatchObservation, StageObservation, learn
from foretide.queueing.model import BatchCosts


def batch(rng, number, rows, cores, active, *, fixed=0.4, row=2e-3, task=0.03, scv=1.0):
    """A batch of one operator whose rows are hashed to tasks and have gamma distributed work."""
    counts = rng.multinomial(rows, [1 / active] * active)
    work = rng.gamma(np.maximum(counts, 1e-9) / scv, row * scv) + task
    turns = math.ceil(active / cores)
    longest = float(work.max())
    stage = StageObservation(rows, active, float(work.sum()), longest)
    return BatchObservation(number, rows, fixed + longest * turns + 1e-5 * rows, cores, {"ask": stage})


def history(rng, batches=60, cores=3):
    rows = rng.integers(200, 1200, batches)
    actives = rng.integers(1, cores + 1, batches)
    return [batch(rng, i, int(n), int(a), int(a)) for i, (n, a) in enumerate(zip(rows, actives, strict=True))]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_learnt_with_few_cores_holds_for_twice_as_many(seed):
    rng = np.random.default_rng(seed)
    learned = learn(history(rng))
    assert learned is not None
    assert learned.operators["ask"].row_seconds == pytest.approx(2e-3, rel=0.05)
    assert learned.fixed_cost == pytest.approx(0.4, rel=0.15)
    assert learned.error < 0.1
    measured = np.mean([batch(rng, 0, 1500, 6, 6).seconds for _ in range(200)])
    assert learned.model(6, {"ask": 6}).length(1500) == pytest.approx(measured, rel=0.1)


def test_nothing_is_learnt_from_a_few_batches_or_from_empty_ones():
    rng = np.random.default_rng(1)
    assert learn(history(rng, batches=2)) is None
    assert learn([BatchObservation(i, 0.0, 0.2, 2, {}) for i in range(20)]) is None


def test_batches_that_are_all_alike_are_explained_by_their_fixed_cost_and_their_rows():
    rng = np.random.default_rng(2)
    learned = learn([batch(rng, i, 600, 2, 2) for i in range(30)])
    assert learned is not None
    measured = np.mean([batch(rng, i, 600, 2, 2).seconds for i in range(50)])
    assert learned.model(2, {"ask": 2}).length(600) == pytest.approx(measured, rel=0.05)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0, 1e7), st.floats(1e-3, 1e4), st.integers(1, 64), st.integers(1, 64), st.floats(0, 1e4)),
        min_size=5,
        max_size=30,
    )
)
def test_whatever_was_measured_the_costs_are_finite_and_not_below_zero(found):
    observed = [
        BatchObservation(i, rows, seconds, cores, {"a": StageObservation(rows, active, busy, busy)})
        for i, (rows, seconds, cores, active, busy) in enumerate(found)
    ]
    learned = learn(observed)
    if learned is None:
        return
    costs = learned.operators.get("a")
    values = [learned.fixed_cost, learned.row_cost, learned.error]
    values += [] if costs is None else [costs.row_seconds, costs.task_seconds, costs.visits, costs.scv]
    assert all(math.isfinite(value) and value >= 0 for value in values)


def test_the_rows_of_a_batch_of_some_length():
    model = BatchModel(BatchCosts(4, 0.2), (StagePlan("a", 1e-2, 4, 4, scv=1.0),))
    rows = model.rows_within(1.0)
    assert model.length(rows) == pytest.approx(1.0)
    assert model.rows_within(0.1) == 0
    assert BatchModel(BatchCosts(1, 0.1), ()).rows_within(1.0) == math.inf
