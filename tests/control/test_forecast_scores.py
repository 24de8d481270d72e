"""Forecasts earn and lose their vote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.worlds import world
from foretide.control.forecast_scores import ForecastScores, VoteSettings
from foretide.control.step import Control, step
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.errors import SettingsError

KEY = ("arrival_rate", "read")
SETTINGS = VoteSettings(smoothing=0.5, min_forecasts=3)


def run(pairs, settings=SETTINGS):
    """Feed (measured, forecast for the next moment) once every 10 s; the scores after each."""
    scores, history = ForecastScores(), []
    for turn, (measured, ahead) in enumerate(pairs):
        seen = world(1000.0 + 10 * turn, arrival_rate={"read": measured})
        scores = scores.update(settings, seen.snapshot, Forecasts({KEY: Forecast("m", (ForecastPoint(10.0, ahead),))}))
        history.append(scores)
    return history


def test_a_forecast_worse_than_the_last_value_loses_its_vote_and_earns_it_back():
    steady = [(100.0, 300.0)] * 5
    history = run([*steady, *[(100.0 + i, 101.0 + i) for i in range(1, 30)]])
    assert [bool(scores.distrusted) for scores in history[:5]] == [False, False, False, True, True]
    assert not history[-1].distrusted


def test_where_nothing_changes_a_forecast_that_is_nearly_right_keeps_its_vote():
    assert not any(scores.distrusted for scores in run([(100.0, 103.0)] * 20))
    strict = VoteSettings(smoothing=0.5, min_forecasts=3, negligible=0.0)
    assert run([(100.0, 103.0)] * 20, strict)[-1].distrusted


def test_what_was_forecast_for_now_is_known_now():
    history = run([(100.0, 130.0), (120.0, 140.0), (125.0, 150.0)])
    assert [scores.due.get(KEY) for scores in history] == [None, 130.0, 140.0]


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_a_perfect_forecast_never_loses_its_vote(values):
    history = run(list(zip(values, [*values[1:], values[-1]], strict=True)))
    assert not any(scores.distrusted for scores in history)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_the_last_value_itself_never_loses_its_vote(values):
    assert not any(scores.distrusted for scores in run([(value, value) for value in values]))


@pytest.mark.parametrize("granted", [None, True])
def test_a_lost_vote_shows_in_the_decision_and_takes_the_forecast_away(granted):
    control, decisions = Control(votes=SETTINGS), []
    state = control.start()
    for turn in range(8):
        forecasts = Forecasts({KEY: Forecast("wild", (ForecastPoint(10.0, 900.0),), granted)})
        seen = world(1000.0 + 10 * turn, arrival_rate={"read": 100.0 + turn}, forecasts=forecasts)
        state, decision = step(control, state, seen)
        decisions.append(decision)
    told = [decision.id for decision in decisions if decision.problems]
    assert len(told) == 1
    assert "arrival_rate of 'read' lost its vote" in decisions[told[0] - 1].problems[0]
    assert decisions[0].forecasts
    assert not decisions[-1].forecasts


def test_a_forecast_without_a_vote_cannot_lose_it():
    control, problems = Control(votes=SETTINGS), []
    state = control.start()
    for turn in range(8):
        forecasts = Forecasts({KEY: Forecast("wild", (ForecastPoint(10.0, 900.0),), may_vote=False)})
        state, decision = step(
            control, state, world(1000.0 + 10 * turn, arrival_rate={"read": 1.0}, forecasts=forecasts)
        )
        problems += decision.problems
    assert problems == []


def test_a_vote_that_the_forecaster_itself_denies_counts():
    forecasts = Forecasts({KEY: Forecast("m", (ForecastPoint(10.0, 5.0),), may_vote=False)})
    assert forecasts.expected(*KEY, 10.0) is None
    assert Forecasts({KEY: Forecast("m", (ForecastPoint(10.0, 5.0),))}).expected(*KEY, 10.0) == 5.0


def test_a_forecast_gives_the_nearest_point_and_quantiles():
    forecast = Forecast("m", (ForecastPoint(5.0, 10.0, {0.5: 9.0, 0.9: 15.0}), ForecastPoint(30.0, 8.0)))
    assert forecast.at(12.0).mean == 10.0
    assert forecast.at(5.0).value(0.8) == 15.0
    assert forecast.at(5.0).value(0.99) == 10.0


def test_plain_forecasts_of_a_snapshot_do_not_replace_better_ones():
    better = Forecasts({KEY: Forecast("m", (ForecastPoint(10.0, 5.0),))})
    both = better.with_plain({KEY: 9.0, ("lag", "read"): 3.0}, 30.0)
    assert both.expected(*KEY, 30.0) == 5.0
    assert both.expected("lag", "read", 30.0) == 3.0


@pytest.mark.parametrize("bad", [{"smoothing": 1.0}, {"min_forecasts": 0}, {"tolerance": -0.1}])
def test_settings_of_votes_out_of_bounds_are_refused(bad):
    with pytest.raises(SettingsError):
        VoteSettings(**bad)
