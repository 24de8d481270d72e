"""What the tasks of a join cost: learnt from made-up tasks with known costs, and what plans make of it."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foretide.joins.plan import NO_PLAN, JoinCost, KeyLoad, TailLoad, imbalance
from foretide.joins.planning.planner import plan_join, predict
from foretide.joins.settings import JoinSettings
from foretide.joins.task_costs import CostModel


def taught(cost, batches=30, noise=0.05, seed=1):
    """A model that has seen tasks of that cost: some with a hot key, some without, as before and after a plan."""
    rng, model = np.random.default_rng(seed), CostModel()
    for _ in range(batches):
        rows = rng.integers(500, 4_000, 8)
        pairs = rng.integers(0, 3_000_000, 8)
        seconds = [each * rng.normal(1, noise) for each in cost.work(rows.tolist(), pairs.tolist())]
        model = model.learned(rows.tolist(), pairs.tolist(), seconds)
    return model.cost


@pytest.mark.parametrize("cost", [JoinCost(0.05, 20e-6, 0.3e-6), JoinCost(0.01, 40e-6, 1e-6)])
def test_the_costs_of_tasks_are_found_in_the_times_that_they_took(cost):
    found = taught(cost)
    assert found.pair == pytest.approx(cost.pair, rel=0.1)
    rows, pairs = [2_000.0] * 8, [1_000_000.0] * 8
    assert found.work(rows, pairs) == pytest.approx(cost.work(rows, pairs), rel=0.1)


def test_what_is_learnt_follows_when_costs_change():
    model = CostModel()
    for pair in (0.2e-6, 2e-6):
        for _ in range(40):
            rows, pairs = [1_000.0] * 8, [1_000_000.0] * 4 + [10_000.0] * 4
            model = model.learned(rows, pairs, JoinCost(0.03, 25e-6, pair).work(rows, pairs))
        assert model.cost.pair == pytest.approx(pair, rel=0.1)


@settings(deadline=None)
@example(tasks=[(8715753.0, 4357878.0, 0.0)], times=3)
@given(
    tasks=st.lists(st.tuples(st.floats(0, 1e7), st.floats(0, 1e12), st.floats(0, 1e4)), min_size=1, max_size=8),
    times=st.integers(1, 5),
)
def test_whatever_tasks_took_nothing_costs_less_than_nothing(tasks, times):
    model = CostModel()
    for _ in range(times):
        model = model.learned(*map(list, zip(*tasks, strict=True)))
    cost = model.cost
    assert all(math.isfinite(each) and each >= 0 for each in (cost.task, cost.row, cost.pair))


def test_time_is_balanced_where_eq_1_alone_would_leave_it_uneven_and_only_if_there_are_cores_for_it():
    """Zipf of 1: the first key makes most of the pairs, though by far not most of the rows."""
    keys = [KeyLoad(key * 7919, 12_000 / 7.5 / (key + 1), 12_000 / 7.5 / (key + 1)) for key in range(1_000)]
    rest = sum(key.left for key in keys[100:]) / 8
    hot, tail = keys[:100], [TailLoad(rest, rest)] * 8
    plans = {}
    for cores in (2, 8):
        cost = JoinCost(0.03, 25e-6, 2e-6, cores)
        plans[cores] = predict(plan_join(hot, tail, 8, cost=cost), hot, tail, cost=cost)
    by_load = predict(plan_join(hot, tail, 8), hot, tail, cost=JoinCost(0.03, 25e-6, 2e-6, 8))
    assert imbalance(by_load.work) > 0.4
    assert plans[2] == by_load, "two cores are busy all the time anyway"
    assert imbalance(plans[8].work) < 0.25
    assert plans[8].imbalance < 0.25
    assert max(plans[8].work) < 0.8 * max(by_load.work)


def test_a_plan_is_judged_by_the_time_of_its_tasks():
    cost = JoinCost(task=0.0, row=1.0, pair=0.0, cores=4)
    loads, tail = [KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * 4
    split = plan_join(loads, tail, 4, cost=cost)
    assert split.work == (150.0,) * 4
    assert cost.span(split.work) == 150.0
    assert cost.span(predict(NO_PLAN, loads, tail, cost=cost).work) == 250.0
    assert predict(NO_PLAN, loads, tail).work == ()


def test_the_paper_knows_no_costs():
    loads, tail = [KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * 4
    paper = JoinSettings(variant="paper")
    assert plan_join(loads, tail, 4, paper, cost=JoinCost(0.0, 0.0, 1.0, 4)) == plan_join(loads, tail, 4, paper)
