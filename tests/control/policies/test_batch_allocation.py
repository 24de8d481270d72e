"""Micro-batches hold a latency target with the fewest executors, on simulated queries whose rows are random."""

import math
from itertools import pairwise

import numpy as np
import pytest

from foretide.control.actions.registry import SetAdmission, SetExecutors
from foretide.control.guards import GuardSettings
from foretide.control.policies.processors import Processors
from foretide.control.simulation.scenario import ControlScenario
from foretide.control.simulation.simulate import simulate_control
from foretide.control.step import Control
from foretide.control.world.setup import Target
from foretide.queueing.model import BatchCosts
from foretide.queueing.network import Flow, Network, Operator
from foretide.simulation.batches import RowLoad

ASKING = Network((Operator("read", 1e6, 0.0), Operator("ask", 100.0, 0.5)), (Flow("read", "ask"),), {"read": 1.0})
GUARDS = GuardSettings(cooldown_down=30, down_window=60)
TARGET = Target(latency=4.0)


def scenario(executors=2, most=6, **options):
    costs = BatchCosts(1, fixed_cost=0.35, task_cost=0.02)
    limits = {"executor_range": (1, most), "cores_per_executor": 1, "executor_delay": 5.0, **options}
    return ControlScenario(ASKING, {"read": 2, "ask": 6}, {}, costs, executors=executors, **limits)


def controlled(load, target=TARGET, seed=3, **options):
    control = Control((Processors(),), GUARDS)
    return simulate_control(control, scenario(**options), RowLoad(load), rng=np.random.default_rng(seed), target=target)


def held(report, seconds, start=0.0):
    """Share of the time in which 99 % of a batch's rows were within so many seconds."""
    batches = [batch for batch in report.batches if batch.run.commit >= start]
    within = [low + 0.99 * (high - low) <= seconds for low, high in (batch.latencies for batch in batches)]
    return np.average(within, weights=[batch.seconds for batch in batches])


def executors_asked_for(report):
    return [
        (decision.at, wish.action.count)
        for decision in report.decisions
        for wish in decision.chosen
        if isinstance(wish.action, SetExecutors)
    ]


def executor_seconds(report):
    points = [(0.0, report.batches[0].executors), *((b.run.commit, b.executors) for b in report.batches)]
    return sum((later[0] - earlier[0]) * later[1] for earlier, later in pairwise(points))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_load_that_doubles_and_halves_is_held_with_one_change_for_each_step(seed):
    load = [120.0] * 150 + [240.0] * 150 + [120.0] * 150
    report = controlled(load, seed=seed)
    changes = executors_asked_for(report)
    assert len([count for at, count in changes if 150 <= at < 180]) == 1
    assert max(count for _, count in changes) >= 4
    assert report.batches[-1].executors <= 3
    assert held(report, 4.0, start=20.0) > 0.9
    assert executor_seconds(report) < 0.85 * 450 * 5


def test_the_reason_has_the_figures_that_the_decision_rests_on():
    report = controlled([240.0] * 60)
    wish = next(wish for each in report.decisions for wish in each.chosen if isinstance(wish.action, SetExecutors))
    for words in ("the target is 4 s", "rows/s are expected", "executors take about", "a batch costs", "x the model"):
        assert words in wish.reason
    assert wish.expected.metric == "latency_p99_ms"


def test_a_target_out_of_reach_is_said_once_with_what_would_be_needed():
    report = controlled([500.0] * 200, most=3)
    said = [problem for decision in report.decisions for problem in decision.problems if "out of reach" in problem]
    assert len(said) >= 1
    assert "3 executors cannot keep up with 500 rows/s" in said[0]
    assert "executors and a task of every edge for each core would be needed" in said[0]
    assert max(batch.executors for batch in report.batches) == 3


def test_executors_that_would_be_enough_are_named():
    report = controlled([240.0] * 200, most=2)
    said = [problem for decision in report.decisions for problem in decision.problems if "out of reach" in problem]
    assert "executors would be needed (control.max_executors)" in said[0]


def test_a_target_below_the_fixed_cost_is_out_of_reach_for_any_number_of_executors():
    report = controlled([50.0] * 100, target=Target(latency=0.3))
    said = [problem for decision in report.decisions for problem in decision.problems if "out of reach" in problem]
    assert "more would not help" in said[0]


def test_batches_are_limited_well_above_what_they_take_ordinarily():
    report = controlled([120.0] * 100)
    limits = [
        wish.action.rows
        for decision in report.decisions
        for wish in decision.chosen
        if isinstance(wish.action, SetAdmission)
    ]
    assert limits
    ordinary = np.median([batch.rows for batch in report.batches[10:]])
    assert all(limit is None or limit >= 1.25 * ordinary for limit in limits)
    assert report.processed == pytest.approx(120.0 * 100, rel=0.1)


def test_without_a_target_the_executors_stay():
    report = controlled([240.0] * 100, target=Target())
    assert executors_asked_for(report) == []
    assert all(batch.executors == 2 for batch in report.batches)


def test_a_budget_limits_the_executors():
    report = controlled([300.0] * 150, target=Target(latency=4.0, budget=3))
    assert max(batch.executors for batch in report.batches) <= 3
    assert not math.isnan(report.mean_latency())
