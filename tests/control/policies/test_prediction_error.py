"""The paper's own rule in real time: splits keep every tuple away from what was mispredicted, at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control.worlds import SETUP, observed, world
from foretide.control.actions.registry import SetSplit
from foretide.control.policies.prediction_error import PredictionError, PredictionErrorSettings
from foretide.control.world.setup import OperatorSetup
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.metrics.from_batch import SLOWNESS

LIVE = replace(
    SETUP,
    mode="pipeline",
    operators=(OperatorSetup("read", 2, spout=True), OperatorSetup("parse", 8, edge="parse")),
    flows=(("read", "parse"),),
)
PLACES = tuple(str(task % 4) for task in range(8))
EVEN = (1.0,) * 4 + (0.0,) * 4
RULE = PredictionError(PredictionErrorSettings(metric=SLOWNESS, threshold=1.0, hold=100, scope="worker"))


def second(at, weights, places=PLACES, forecast=1.0, **slowness):
    """A second in which each worker was forecast to be as it always is."""
    values = {each: slowness.get(f"w{each}", 1.0) for each in "0123"}
    seen = observed(routes={"parse": weights}, placements={"parse": places})
    now = world(at, seen=seen, setup=LIVE, **{SLOWNESS: values})
    told = {(SLOWNESS, each): forecast for each in values}
    trusted = {series: Forecast("net", (ForecastPoint(10.0, value),)) for series, value in told.items()}
    return replace(now, forecast_for_now=told, forecasts=Forecasts(trusted))


def wish(state, *values, rule=RULE, **more):
    state, wishes = rule.wish(state, second(*values, **more))
    return state, [each.action for each in wishes]


def test_a_mispredicted_worker_gets_nothing_at_once_and_its_share_back_after_the_hold_time():
    state, (away,) = wish(RULE.start(), 1000.0, EVEN, w1=3.0)
    assert away == SetSplit("parse", (1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0))  # a task of worker 0 takes its place
    state, actions = wish(state, 1001.0, away.weights)
    assert actions == []
    state, actions = wish(state, 1099.0, away.weights)
    assert actions == []
    state, actions = wish(state, 1100.0, away.weights)
    assert actions == [SetSplit("parse", EVEN)]
    assert wish(state, 1101.0, EVEN)[1] == []


def test_a_split_that_somebody_else_makes_meanwhile_is_corrected():
    state, _ = wish(RULE.start(), 1000.0, EVEN, w1=3.0)
    _, (away,) = wish(state, 1001.0, EVEN)
    assert away.weights[1] == 0.0


def test_all_workers_of_the_machine_get_nothing_and_the_last_one_stays():
    machine = PredictionError(PredictionErrorSettings(metric=SLOWNESS, threshold=1.0, hold=100))
    state, (away,) = wish(machine.start(), 1000.0, EVEN, rule=machine, w1=3.0)  # workers 0 and 1 are on one machine
    assert [task for task, weight in enumerate(away.weights) if weight] == [2, 3, 6, 7]
    assert wish(state, 1001.0, away.weights, rule=machine, w3=3.0)[1] == []


def test_a_new_batch_that_moves_the_tasks_elsewhere_gives_them_their_shares_back():
    state, (away,) = wish(RULE.start(), 1000.0, EVEN, w1=3.0)
    _, actions = wish(state, 1001.0, away.weights, places=("0", "2", "3", "0") * 2)
    assert actions == [SetSplit("parse", EVEN)]


@pytest.mark.parametrize("places", [("1",) * 8, (None,) * 8])
def test_an_edge_that_has_no_other_worker_keeps_its_split(places):
    assert wish(RULE.start(), 1000.0, EVEN, places=places, w1=3.0)[1] == []
