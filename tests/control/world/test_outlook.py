"""The load to plan for: trusted forecasts raise and lower it, where they reach far enough and nothing waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.worlds import loaded, world
from foretide.control.world.measured import NotYet
from foretide.control.world.outlook import planned_load, planned_quantile, rows_wait
from foretide.control.world.setup import Target
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts

LOW = ((1.0, 900.0), (10.0, 500.0), (30.0, 300.0))


def looks(*points, **about):
    made = tuple(ForecastPoint(seconds, mean, {0.9: 1.1 * mean}, **about) for seconds, mean in points)
    return Forecasts({("arrival_rate", "read"): Forecast("ridge", made)})


def planned(ahead, *points, quantile=None, **figures):
    return planned_load(loaded(forecasts=looks(*points), **figures), ahead, quantile)


def test_a_load_that_is_foreseen_to_fall_is_planned_for_where_nothing_waits():
    assert planned((10.0, 30.0), *LOW).rates == {"read": 500.0}
    assert planned((20.0, 20.0), *LOW).rates == {"read": 400.0}
    assert planned((0.0, 30.0), *LOW).rates == {"read": 900.0}
    assert planned((0.0, 30.0), *LOW).foreseen.until == 30.0


def test_while_rows_wait_the_measured_load_is_the_least():
    waiting = {"lag": {"read": 5000.0}}
    assert rows_wait(loaded(**waiting))
    found = planned((10.0, 30.0), *LOW, **waiting)
    assert (found.rates, found.foreseen) == ({"read": 1000.0}, None)
    assert planned((10.0, 30.0), (10.0, 4000.0), (30.0, 3000.0), **waiting).rates == {"read": 4000.0}
    assert rows_wait(loaded(target=Target(latency=2.0)))  # 2.5 s are measured
    assert not rows_wait(loaded(target=Target(latency=3.0)))


def test_a_load_that_nobody_has_foreseen_is_carried_whatever_is_expected_next():
    assert planned((10.0, 30.0), (1.0, 700.0), (30.0, 300.0)).rates == {"read": 1000.0}


def test_a_forecast_that_does_not_reach_the_end_only_raises_the_load():
    assert planned((0.0, 60.0), *LOW).rates == {"read": 1000.0}
    assert planned((0.0, 60.0), (10.0, 3000.0)).rates == {"read": 3000.0}
    assert planned((0.0, 60.0), (10.0, 3000.0)).foreseen.until == 0.0


def test_a_spout_without_a_figure_is_said_and_without_a_forecast_is_as_measured():
    assert planned_load(world(), (0.0, 30.0)) == NotYet(("arrival_rate of 'read'",))
    assert planned_load(loaded(), (0.0, 30.0)).foreseen is None
    assert planned((0.0, 30.0), (30.0, 10.0), arrival_rate={}).rates == {"read": 10.0}


def test_what_is_foreseen_is_said_with_the_model_its_trust_and_what_was_announced():
    later = planned_load(loaded(forecasts=looks((40.0, 2900.0), trusted_since=700.0)), (40.0, 40.0))
    assert later.foreseen.describe() == "in 40 s 2,900 tuples/s are expected (ridge, trusted for 300 s)"
    event = planned_load(loaded(forecasts=looks((40.0, 2900.0), announced="x3 by me@here")), (40.0, 40.0))
    assert event.foreseen.describe() == "in 40 s 2,900 tuples/s are expected (ridge, with x3 by me@here)"


@given(st.floats(0.01, 1000))
def test_the_quantile_rises_with_the_price_of_too_little(cost):
    assert 0 < planned_quantile(cost) < planned_quantile(2 * cost) < 1
    assert planned_quantile(1.0) == pytest.approx(0.5)
    assert planned((30.0, 30.0), *LOW, quantile=planned_quantile(9.0)).rates == {"read": pytest.approx(330.0)}
