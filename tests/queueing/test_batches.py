"""The micro-batch model: where batches settle, when they do not, and what rows wait."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import BatchOverloadError
from foretide.queueing.batches import BatchModel, StagePlan, batch_model, stage_work
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator

costs = st.builds(
    BatchCosts,
    cores=st.integers(1, 16),
    fixed_cost=st.floats(0.01, 1.0),
    task_cost=st.floats(0.0, 0.05),
    trigger=st.floats(0.0, 3.0),
)
stages = st.lists(
    st.builds(
        lambda w, r, more: StagePlan("s", w, r, r + more),
        st.floats(1e-5, 1e-2),
        st.integers(1, 20),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=4,
)
queries = st.builds(BatchModel, costs, stages.map(tuple))


def run_batches(query: BatchModel, rate: float, batches: int = 3_000) -> tuple[float, float]:
    """Play batches one after another, as Spark does: late ones start the next at once."""
    start, read_to = 0.0, 0.0
    length = interval = 0.0
    for _ in range(batches):
        length = query.length(rate * (start - read_to))
        read_to = start
        interval = max(query.costs.trigger, length)
        start += interval
    return length, interval


@given(queries, st.floats(0.0, 0.98))
def test_settles_where_batches_settle_when_played(query, share):
    rate = share * query.highest_rate
    steady = query.steady(rate)
    length, interval = run_batches(query, rate)
    assert steady.length == pytest.approx(length, rel=1e-6)
    assert steady.interval == pytest.approx(interval, rel=1e-6)
    assert steady.rows == pytest.approx(rate * interval, rel=1e-6)


@given(queries, st.floats(1.0, 3.0))
def test_beyond_the_limit_batches_grow_and_the_model_refuses(query, share):
    rate = query.highest_rate * share
    with pytest.raises(BatchOverloadError) as caught:
        query.steady(rate * (1 + 1e-12))
    assert caught.value.limit == query.highest_rate
    assert run_batches(query, rate * 1.01, 400)[0] > run_batches(query, rate * 1.01, 200)[0]


def test_rows_wait_for_the_next_batch_and_then_for_all_of_it():
    steady = BatchModel(BatchCosts(4, fixed_cost=0.2, trigger=1.0), (StagePlan("a", 1e-3, 4, 4),)).steady(400.0)
    assert (steady.interval, steady.length) == (1.0, pytest.approx(0.3))
    assert steady.mean_latency == pytest.approx(0.8)
    assert steady.latency(1.0) == pytest.approx(1.3)
    assert steady.latency(0.95) == pytest.approx(1.25)


def test_fixed_cost_grows_with_the_pool_and_not_with_the_active():
    base = BatchCosts(8, fixed_cost=0.1, task_cost=0.025)
    few, many = (BatchModel(base, (StagePlan("a", 1e-3, r, 32),)) for r in (2, 8))
    assert few.overhead == many.overhead == pytest.approx(0.9)
    assert many.seconds_per_row == few.seconds_per_row / 4
    assert BatchModel(base, (StagePlan("a", 1e-3, 2, 2),)).overhead == pytest.approx(0.15)


def test_replicas_beyond_the_cores_help_nothing():
    base = BatchCosts(4, fixed_cost=0.1)
    assert BatchModel(base, (StagePlan("a", 1e-3, 16, 16),)).highest_rate == pytest.approx(4000.0)


def test_work_follows_visits_or_the_measured_sum():
    network = Network((Operator("a", 10.0), Operator("b", 5.0)), (Flow("a", "b", 3.0),), {"a": 7.0})
    assert stage_work(network, BatchCosts(1)) == pytest.approx({"a": 0.1, "b": 0.6})
    assert stage_work(network, BatchCosts(1, work_per_row=1.4)) == pytest.approx({"a": 0.2, "b": 1.2})
    query = batch_model(network, BatchCosts(8), {"a": 2, "b": 3}, {"b": 6})
    first, second = StagePlan("a", 0.1, 2, 2, 1.0, 1.0), StagePlan("b", pytest.approx(0.6), 3, 6, 3.0, 1.0)
    assert query.stages == (first, second)


def test_a_query_without_work_has_no_limit():
    assert BatchModel(BatchCosts(1, fixed_cost=0.1), (StagePlan("a", 0.0, 1, 1),)).highest_rate == math.inf


def test_replicas_beyond_the_cores_take_turns():
    costs = BatchCosts(cores=4, fixed_cost=0.1, task_cost=0.0)
    per_row = [
        BatchModel(costs, (StagePlan("parse", 1e-3, active, active),)).seconds_per_row for active in (3, 4, 6, 8)
    ]
    assert per_row == pytest.approx([1e-3 / 3, 1e-3 / 4, 1e-3 * 2 / 6, 1e-3 * 2 / 8])
