"""What every load forecaster promises. They are found in the registry, so a new one is tested by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from foretide.errors import BadSeriesError, ForecastError, NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS
from foretide.forecasting.load.base import LoadModel
from foretide.forecasting.load.registry import ENSEMBLE, MODELS, NAMES, make, make_ensemble, model_class

HORIZONS = (1, 3)
SEASON = 24


def daily(size, seed=1):
    rng = np.random.default_rng(seed)
    curve = 100 + 60 * np.sin(np.arange(size) * 2 * np.pi / SEASON)
    return (curve * rng.lognormal(0, 0.1, size)).tolist()


def fresh(name, seasons=(SEASON,)):
    if name == ENSEMBLE:  # its members are tested one by one
        return make_ensemble(HORIZONS, seasons, 7, ("seasonal last value", "ewma", "ridge", "svr"))
    return make(name, HORIZONS, seasons, seed=7)


def sound(ahead, horizon):
    assert ahead.horizon == horizon
    assert ahead.quantiles.shape == (horizon, len(LEVELS))
    assert np.isfinite(ahead.mean).all()
    assert np.isfinite(ahead.quantiles).all()
    assert (ahead.mean >= 0).all()
    assert (ahead.quantiles >= 0).all()
    assert (np.diff(ahead.quantiles, axis=1) >= -1e-9 * (1 + ahead.quantiles[:, 1:])).all()
    low, high = ahead.interval(0.9)
    assert (low <= ahead.median).all()
    assert (ahead.median <= high).all()
    return ahead


def test_every_concrete_load_model_is_in_the_registry():
    def kinds(kind):
        for each in kind.__subclasses__():
            yield each
            yield from kinds(each)

    registered = {model_class(name) for name in MODELS}  # imports their modules
    concrete = {kind for kind in kinds(LoadModel) if not kind.__abstractmethods__ and "foretide" in kind.__module__}
    assert concrete == registered


def test_a_model_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(ForecastError, match="must be one of last value"):
        make("crystal ball")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_learnt_is_no_forecast(name):
    with pytest.raises(NotEnoughHistoryError):
        fresh(name).forecast(1)
    only_gaps = fresh(name)
    only_gaps.learn([None, None])
    with pytest.raises(NotEnoughHistoryError):
        only_gaps.forecast(1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 1e200])
def test_what_is_no_load_is_refused_and_nothing_of_it_is_learnt(name, wrong):
    model = fresh(name)
    model.learn([5.0, 6.0])
    before = model.forecast(2)
    with pytest.raises(BadSeriesError, match="value 2 of 3"):
        model.learn([5.0, wrong, 5.0])
    assert np.array_equal(model.forecast(2).quantiles, before.quantiles)


@pytest.mark.parametrize("name", NAMES)
def test_one_point_is_enough_for_a_forecast(name):
    model = fresh(name)
    model.learn([42.0])
    ahead = sound(model.forecast(5), 5)
    assert ahead.mean == pytest.approx(np.full(5, 42.0), rel=0.05)
    low, high = ahead.interval(0.9)
    assert (low < high).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", [0.0, 0.001, 1e90])
def test_a_constant_series_stays_what_it_is(name, level):
    model = fresh(name, None)
    model.learn([level] * 100)
    ahead = sound(model.forecast(4), 4)
    assert ahead.mean == pytest.approx(np.full(4, level), rel=0.01, abs=0.01)
    assert ahead.median == pytest.approx(np.full(4, level), rel=0.01, abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_after_a_step_the_forecast_follows(name):
    model = fresh(name, ())
    rng = np.random.default_rng(3)
    model.learn((10 + rng.random(200)).tolist() + (1000 + rng.random(320)).tolist())
    ahead = sound(model.forecast(3), 3)
    assert ahead.median == pytest.approx(np.full(3, 1000.0), rel=0.25)
    assert ahead.mean == pytest.approx(np.full(3, 1000.0), rel=0.25)


@pytest.mark.parametrize("name", NAMES)
def test_gaps_are_bridged(name):
    values = daily(140)
    holed = [None if place % 7 == 3 or 80 <= place < 100 else value for place, value in enumerate(values)]
    model = fresh(name)
    model.learn([None, None, *holed, None])
    sound(model.forecast(13), 13)


@pytest.mark.parametrize("name", NAMES)
def test_huge_values_and_spikes_do_not_overflow(name):
    values = daily(130)
    values[90:93] = [1e15, 3e15, 1e12]
    model = fresh(name)
    model.learn(values)
    sound(model.forecast(6), 6)


@pytest.mark.parametrize("name", NAMES)
def test_a_restart_in_the_middle_gives_the_same_forecast_to_the_bit(name):
    values = daily(160)
    through, before, after = fresh(name), fresh(name), fresh(name)
    through.learn(values[:100])
    through.learn(values[100:])
    before.learn(values[:100])
    after.restore(before.state())
    assert np.array_equal(after.forecast(6).quantiles, before.forecast(6).quantiles)
    after.learn(values[100:])
    assert np.array_equal(after.forecast(6).mean, through.forecast(6).mean)
    assert np.array_equal(after.forecast(6).quantiles, through.forecast(6).quantiles)


@pytest.mark.parametrize("name", NAMES)
def test_learning_in_pieces_equals_learning_at_once(name):
    values = daily(150)
    whole, pieces = fresh(name), fresh(name)
    whole.learn(values)
    for start in range(0, 150, 37):
        pieces.learn(values[start : start + 37])
    pieces.learn([])
    assert pieces.forecast(4).mean == pytest.approx(whole.forecast(4).mean, rel=1e-6)
    assert pieces.forecast(4).quantiles == pytest.approx(whole.forecast(4).quantiles, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_issued_is_what_forecast_would_have_said(name):
    values = daily(140)
    model, other = fresh(name), fresh(name)
    issued = model.advance(values)
    for size in (10, 64, 140):
        other.learn(values[other.count : size])
        ahead = other.forecast(3)
        for place, steps in enumerate(HORIZONS):
            assert issued.mean[size - 1, place] == pytest.approx(ahead.mean[steps - 1], rel=1e-6)
            assert issued.quantiles[size - 1, place] == pytest.approx(ahead.quantiles[steps - 1], rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_forecast(name):
    values = daily(100)
    first, second = fresh(name), fresh(name)
    first.learn(values)
    second.learn(values)
    assert np.array_equal(first.forecast(3).quantiles, second.forecast(3).quantiles)
