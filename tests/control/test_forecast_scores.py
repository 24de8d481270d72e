"""Forecasts earn and lose their vote."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.worlds import world
from foretide.control.forecast_scores import ForecastScores, VoteSettings
from foretide.control.step import Control, step
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts, Record
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


def trusted(scores, seconds=10.0):
    return scores.is_trusted(KEY, seconds)


def test_a_forecast_is_trusted_once_it_has_shown_to_be_no_worse_than_the_last_value():
    history = run([(100.0 + 10 * i, 110.0 + 10 * i) for i in range(6)])
    assert [trusted(scores) for scores in history] == [False, False, False, True, True, True]
    assert not any(scores.lost for scores in history)


def test_a_forecast_worse_than_the_last_value_is_not_trusted_until_it_is_better():
    steady = [(100.0, 300.0)] * 5
    history = run([*steady, *[(100.0 + i, 101.0 + i) for i in range(1, 30)]])
    assert [bool(scores.lost) for scores in history[:5]] == [False, False, False, True, True]
    assert not any(map(trusted, history[:5]))
    assert trusted(history[-1])


def test_where_nothing_changes_a_forecast_that_is_nearly_right_is_trusted():
    assert all(map(trusted, run([(100.0, 103.0)] * 20)[3:]))
    strict = VoteSettings(smoothing=0.5, min_forecasts=3, negligible=0.0)
    assert run([(100.0, 103.0)] * 20, strict)[-1].lost


def test_each_horizon_is_judged_by_itself():
    scores = ForecastScores()
    for turn in range(20):
        seen = world(1000.0 + 10 * turn, arrival_rate={"read": 100.0 + 10 * turn})
        points = (ForecastPoint(10.0, 110.0 + 10 * turn), ForecastPoint(30.0, 900.0))
        forecasts = Forecasts({KEY: Forecast("m", points)})
        scores = scores.update(SETTINGS, seen.snapshot, forecasts)
    assert scores.lost == {(*KEY, 30.0)}
    left = scores.trusted(forecasts)
    assert left.by_series[KEY].points == (replace(points[0], trusted_since=1030.0),)
    assert left.expected(*KEY, 30.0) == points[0].mean


def test_a_record_from_history_is_believed_until_it_is_refuted():
    good, bad = Record(error=1.0, naive=5.0), Record(error=5.0, naive=1.0)
    points = (ForecastPoint(10.0, 900.0, record=good), ForecastPoint(30.0, 900.0, record=bad))
    scores = ForecastScores()
    history = []
    for turn in range(6):
        seen = world(1000.0 + 10 * turn, arrival_rate={"read": 100.0})
        scores = scores.update(SETTINGS, seen.snapshot, Forecasts({KEY: Forecast("m", points)}))
        history.append((trusted(scores), trusted(scores, 30.0)))
    assert history[0] == (True, False)
    assert history[-1] == (False, False)


def test_what_a_person_has_announced_is_used_whether_it_is_trusted_or_not():
    points = (ForecastPoint(10.0, 300.0), ForecastPoint(30.0, 300.0, announced="x3"))
    assert ForecastScores().trusted(Forecasts({KEY: Forecast("m", points)})).by_series[KEY].points == points[1:]


def test_scores_outlast_a_time_without_forecasts_but_not_a_long_one():
    scores = run([(100.0, 100.0)] * 6)[-1]
    for later, kept in ((300.0, True), (2000.0, False)):
        seen = world(1000.0 + later, arrival_rate={"read": 100.0})
        assert trusted(scores.update(SETTINGS, seen.snapshot, Forecasts())) is kept


def test_few_predictions_wait_however_often_there_is_a_cycle():
    scores = ForecastScores()
    for turn in range(2000):
        seen = world(1000.0 + turn / 10, arrival_rate={"read": 100.0})
        forecasts = Forecasts({KEY: Forecast("m", (ForecastPoint(60.0, 100.0),))})
        scores = scores.update(SETTINGS, seen.snapshot, forecasts)
    assert len(scores.series[KEY].horizons[60.0].pending) <= 9
    assert trusted(scores, 60.0)


def test_what_was_forecast_for_now_is_known_now():
    history = run([(100.0, 130.0), (120.0, 140.0), (125.0, 150.0)])
    assert [scores.due.get(KEY) for scores in history] == [None, 130.0, 140.0]


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_a_perfect_forecast_is_never_distrusted(values):
    history = run(list(zip(values, [*values[1:], values[-1]], strict=True)))
    assert not any(scores.lost for scores in history)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_the_last_value_itself_is_never_distrusted(values):
    assert not any(scores.lost for scores in run([(value, value) for value in values]))


class Eager:
    """A policy that notes what it is shown."""

    name = "eager"

    def __init__(self):
        self.shown = []

    def start(self):
        return None

    def wish(self, state, world):
        self.shown.append(world.forecasts.expected(*KEY, 10.0))
        return state, []


def decide(value, turns=8):
    """What a policy is shown of a forecast, and the problems of the decisions, over some cycles."""
    policy = Eager()
    control, problems = Control((policy,), votes=SETTINGS), []
    state = control.start()
    for turn in range(turns):
        measured = 100.0 + 10 * turn
        forecasts = Forecasts({KEY: Forecast("m", (ForecastPoint(10.0, value(measured)),))})
        seen = world(1000.0 + 10 * turn, arrival_rate={"read": measured}, forecasts=forecasts)
        state, decision = step(control, state, seen)
        problems.append(decision.problems)
    return policy.shown, problems


def test_policies_are_shown_forecasts_that_have_earned_it():
    shown, problems = decide(lambda measured: measured + 10)
    assert shown == [None, None, None, 140.0, 150.0, 160.0, 170.0, 180.0]
    assert not any(problems)


def test_what_is_worse_than_the_last_value_is_said_once_and_shown_to_no_policy():
    shown, problems = decide(lambda _: 900.0)
    assert shown == [None] * 8
    told = [each for each in problems if each]
    assert len(told) == 1
    assert "arrival_rate of 'read' for 10 s ahead is worse than the last value" in told[0][0]


def test_a_forecast_gives_the_nearest_point_and_quantiles():
    forecast = Forecast("m", (ForecastPoint(5.0, 10.0, {0.5: 9.0, 0.9: 15.0}), ForecastPoint(30.0, 8.0)))
    assert forecast.at(12.0).mean == 10.0
    assert forecast.at(5.0).value(0.8) == 15.0
    assert forecast.at(5.0).value(0.99) == 10.0


@pytest.mark.parametrize("bad", [{"smoothing": 1.0}, {"min_forecasts": 0}, {"tolerance": -0.1}])
def test_settings_of_votes_out_of_bounds_are_refused(bad):
    with pytest.raises(SettingsError):
        VoteSettings(**bad)
