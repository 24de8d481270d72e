"""The mix: close to the best expert, never far behind the last value, and able to say why."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.errors import ModelFolderError
from foretide.forecasting.backtest import roll_mix
from foretide.forecasting.load.ensemble_weights import Weights
from foretide.forecasting.load.registry import NEEDS_NUMPY_ONLY, available, make_mix
from foretide.forecasting.load.ridge import Ridge
from foretide.forecasting.load.simple import Ewma, LastValue, LinearTrend, MovingAverage, SeasonalLastValue
from foretide.forecasting.scores import bootstrap_difference, percentage_errors
from foretide.forecasting.seasons import calendar_seasons
from foretide.workloads.traces import load_trace

SIMPLE = (LastValue, SeasonalLastValue, MovingAverage, Ewma, LinearTrend)


def scores(values, kinds=SIMPLE, horizons=(1, 3), seasons=()):
    mix = make_mix(horizons, seasons, kinds=kinds)
    return mix, {each.name: [h.scores for h in each.horizons] for each in roll_mix(mix, values, 0.5)}


def walk(seed, size=1600):
    return np.exp(6 + np.cumsum(np.random.default_rng(seed).normal(0, 0.02, size))).tolist()


@pytest.mark.parametrize("seed", [1, 2])
def test_on_a_random_walk_it_is_hardly_worse_than_the_last_value(seed):
    _, found = scores(walk(seed), NEEDS_NUMPY_ONLY)
    for place in (0, 1):
        assert found["mix"][place].relative_rmse < 1.02
        assert found["mix"][place].pinball < 1.03 * found["last value"][place].pinball


def test_where_one_expert_is_best_it_approaches_it():
    rng = np.random.default_rng(5)
    values = (np.tile(rng.uniform(50, 500, 24), 125) * rng.lognormal(0, 0.02, 3000)).tolist()
    mix, found = scores(values, seasons=(24,))
    best = found["seasonal last value"]
    for place in (0, 1):
        assert found["mix"][place].rmse < 1.05 * best[place].rmse
        assert found["mix"][place].pinball < 1.05 * best[place].pinball
    assert mix.trusted(1) == "seasonal last value"
    assert mix.trusted(3) == "seasonal last value"


def test_where_experts_err_differently_it_beats_each_of_them():
    rng = np.random.default_rng(6)
    level = np.exp(5 + np.cumsum(rng.normal(0, 0.04, 4000)))
    values = rng.poisson(level).astype(float).tolist()
    _, found = scores(values, (LastValue, MovingAverage, LinearTrend))
    singles = [found[name][0].pinball for name in found if name != "mix"]
    assert found["mix"][0].pinball < min(singles)


def test_it_changes_its_mind_when_the_series_changes():
    rng = np.random.default_rng(7)
    noisy = 100 + 20 * rng.normal(size=600)
    mix = make_mix((1,), (), kinds=(LastValue, MovingAverage))
    mix.learn(noisy.tolist())
    assert mix.trusted() == "moving average"
    mix.learn((100 * np.exp(np.cumsum(rng.normal(0, 0.05, 1500)))).tolist())
    assert mix.trusted() == "last value"


def test_it_uses_the_last_value_until_forecasts_were_checked():
    mix = make_mix((1,), (), kinds=SIMPLE)
    mix.learn([10.0, 20.0, 30.0])
    assert mix.forecast(1).mean.tolist() == [30.0]
    assert mix.trusted() == "last value"
    assert "too few forecasts were checked" in mix.explain().sentence


def test_it_falls_back_when_nothing_beats_the_last_value():
    weights = Weights(horizons=1, experts=2)
    known, error, loss = np.array([True]), np.array([[1.0, -3.0]]), np.array([[0.1, 0.3]])
    for _ in range(100):
        weights.update(known, error, loss, np.array([-2.0]), np.array([0.2]))
    assert weights.mean_falls_back().all()
    assert weights.quantiles_fall_back().all()


def test_one_spike_is_no_reason_to_fall_back():
    weights = Weights(horizons=1, experts=2)
    rng = np.random.default_rng(1)
    for step in range(300):
        mixed, last = rng.normal(0, 1, 1), rng.normal(0, 1.1, 1)
        spiked = mixed + 500.0 * (step == 200)
        error = np.array([[last[0], spiked[0]]])
        weights.update(np.array([True]), error, np.array([[0.11, 0.1]]), spiked, np.array([0.1]))
    assert not weights.mean_falls_back().any()


def test_its_explanation_names_everyone_with_weights_that_add_up():
    mix = make_mix((1, 3), (), kinds=SIMPLE)
    mix.learn((100 + 20 * np.random.default_rng(2).normal(size=600)).clip(0).tolist())
    trust = mix.explain(3)
    assert trust.horizon == 3
    assert {one.name for one in trust.experts} == {kind.name for kind in SIMPLE}
    assert sum(one.weight_in_mean for one in trust.experts) == pytest.approx(1)
    assert sum(one.weight_in_quantiles for one in trust.experts) == pytest.approx(1)
    asleep = next(one for one in trust.experts if one.name == "seasonal last value")
    assert not asleep.awake
    assert asleep.weight_in_mean == asleep.weight_in_quantiles == 0
    assert trust.experts[0].name in trust.sentence


def test_a_state_of_other_experts_is_refused():
    one, other = make_mix((1,), (), kinds=(LastValue, Ewma)), make_mix((1,), (), kinds=(LastValue, MovingAverage))
    one.learn([1.0, 2.0])
    with pytest.raises(ModelFolderError, match="ewma"):
        other.restore(one.state())


def test_the_mix_is_of_every_model_that_can_run_here():
    assert [expert.name for expert in make_mix((1,)).experts] == [kind.name for kind in available()]


def test_on_recorded_load_it_is_well_ahead_of_the_last_value_and_level_with_the_best():
    """A small part of the benchmark: two series, the models that need no further packages, the last 30 %."""
    relative = []
    for name in ("taxi", "tweets-goog"):
        trace = load_trace(name)
        mix = make_mix((1, 3), calendar_seasons(trace.period_seconds), kinds=(LastValue, Ewma, Ridge))
        mixed, *singles = roll_mix(mix, trace.values[-2500:].tolist(), 0.3)
        relative.append([each.scores.relative_rmse for each in mixed.horizons])
        for place, horizon in enumerate(mixed.horizons):
            best = min(singles, key=lambda one, place=place: one.horizons[place].scores.mape).horizons[place]
            errors = (percentage_errors(each.median, each.truth) for each in (horizon, best))
            assert bootstrap_difference(*errors, np.random.default_rng(1))[1] <= 0
    one, three = np.exp(np.log(relative).mean(axis=0))
    assert one <= 0.85
    assert three <= 0.80
