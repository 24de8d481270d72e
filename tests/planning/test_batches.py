"""Replicas and cores in micro-batch mode, against trying everything."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import BatchOverloadError, IdleNetworkError, LatencyOutOfReachError, UnstableNetworkError
from foretide.planning.batches import min_cores, plan_batches
from foretide.queueing.batches import BatchModel, StagePlan, batch_model
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator


def chain(rate: float, first: float = 500.0, second: float = 2000.0) -> Network:
    return Network((Operator("a", first), Operator("b", second)), (Flow("a", "b", 2.0),), {"a": rate})


def shortest(network: Network, costs: BatchCosts) -> float:
    lengths = []
    for counts in itertools.product(range(1, costs.cores + 1), repeat=len(network.names)):
        model = batch_model(network, costs, dict(zip(network.names, counts, strict=True)))
        if network.external_rate < model.highest_rate:
            lengths.append(model.steady(network.external_rate).length)
    return min(lengths)


@settings(deadline=None)
@given(st.integers(1, 8), st.floats(0.01, 0.95), st.floats(0.0, 0.1), st.floats(0.01, 1.0), st.floats(0.0, 2.0))
def test_no_other_replicas_make_shorter_batches(cores, share, task_cost, fixed_cost, trigger):
    costs = BatchCosts(cores, fixed_cost, task_cost, trigger=trigger)
    network = chain(rate=share * cores / (1 / 500 + 2 / 2000))
    plan = plan_batches(network, costs)
    assert plan.steady.length == pytest.approx(shortest(network, costs), rel=1e-9)


@given(
    st.integers(1, 8),
    st.integers(1, 16),
    st.floats(1e-5, 0.1),
    st.floats(0.0, 0.1),
    st.floats(0.01, 3.0),
    st.floats(0.05, 0.95),
    st.floats(0.0, 10.0),
)
def test_a_longer_interval_carries_no_more_rows_and_lowers_no_latency(
    cores, tasks, work, task_seconds, fixed_cost, share, trigger
):
    """Why the control loop plans with the interval that a query was started with, and advises a shorter one only."""
    stages = (StagePlan("a", work, tasks, tasks, task_seconds=task_seconds),)
    without = BatchModel(BatchCosts(cores, fixed_cost), stages)
    longer = BatchModel(BatchCosts(cores, fixed_cost, trigger=trigger), stages)
    assert longer.highest_rate == without.highest_rate
    rate = share * without.highest_rate
    for quantile in (0.5, 0.99):
        assert longer.steady(rate).latency(quantile) >= without.steady(rate).latency(quantile) * (1 - 1e-9)


def test_idle_times_want_fewer_replicas():
    costs = BatchCosts(cores=16, fixed_cost=0.1, task_cost=0.02)
    quiet, busy = plan_batches(chain(20.0), costs), plan_batches(chain(4000.0), costs)
    assert quiet.replicas["a"] < busy.replicas["a"]
    assert quiet.model.overhead < busy.model.overhead


def test_a_given_pool_is_used_to_the_full():
    plan = plan_batches(chain(20.0), BatchCosts(cores=16, fixed_cost=0.1, task_cost=0.02), {"a": 8})
    assert plan.replicas["a"] == 8
    assert plan.replicas["b"] < 8


@settings(deadline=None, max_examples=50)
@given(st.floats(10.0, 3000.0), st.floats(0.4, 3.0))
def test_no_fewer_cores_meet_the_latency(rate, latency):
    costs = BatchCosts(cores=1, fixed_cost=0.1, task_cost=0.002)
    network = chain(rate)
    best = plan_batches(network, replace(costs, cores=1 << 20)).steady.mean_latency
    if best > latency:
        with pytest.raises(LatencyOutOfReachError):
            min_cores(network, costs, latency)
        return
    plan = min_cores(network, costs, latency)
    assert plan.steady.mean_latency <= latency
    if plan.cores > 1:
        try:
            fewer = plan_batches(network, replace(costs, cores=plan.cores - 1))
        except UnstableNetworkError:
            return
        assert fewer.steady.mean_latency > latency


def test_what_cannot_be_done():
    costs = BatchCosts(cores=2, fixed_cost=0.1)
    with pytest.raises(BatchOverloadError) as caught:
        plan_batches(chain(1000.0), costs)
    assert caught.value.limit == pytest.approx(2 / 0.003)
    assert caught.value.operators == ("a",)
    with pytest.raises(LatencyOutOfReachError) as reached:
        min_cores(chain(100.0), costs, latency=0.1)
    assert reached.value.best > 0.15
    with pytest.raises(IdleNetworkError):
        plan_batches(chain(0.0), costs)
    with pytest.raises(UnstableNetworkError):
        min_cores(chain(1000.0), costs, latency=9.0, pools={"a": 1})
