"""The ensemble: close to its best member, never far behind the last value, and explained."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.rivals.bootstrap import bootstrap_difference

from foretide.errors import ModelFolderError
from foretide.forecasting.backtest import roll_ensemble
from foretide.forecasting.forecaster import percentage_errors
from foretide.forecasting.history import calendar_seasons
from foretide.forecasting.load.ensemble_weights import Weights
from foretide.forecasting.load.registry import NUMPY_MODELS, available, make_ensemble
from foretide.workloads.traces import load_trace

SIMPLE = ("last value", "seasonal last value", "moving average", "ewma", "linear regression")


def scores(values, names=SIMPLE, horizons=(1, 3), seasons=()):
    ensemble = make_ensemble(horizons, seasons, names=names)
    return ensemble, {each.name: [h.scores for h in each.horizons] for each in roll_ensemble(ensemble, values, 0.5)}


def walk(seed, size=900):
    return np.exp(6 + np.cumsum(np.random.default_rng(seed).normal(0, 0.02, size))).tolist()


@pytest.mark.parametrize("seed", [1, 2])
def test_on_a_random_walk_it_is_hardly_worse_than_the_last_value(seed):
    _, found = scores(walk(seed), NUMPY_MODELS)
    for place in (0, 1):
        assert found["ensemble"][place].relative_rmse < 1.02
        assert found["ensemble"][place].pinball < 1.03 * found["last value"][place].pinball


def test_where_one_member_is_best_it_approaches_it():
    rng = np.random.default_rng(5)
    values = (np.tile(rng.uniform(50, 500, 24), 125) * rng.lognormal(0, 0.02, 3000)).tolist()
    ensemble, found = scores(values, seasons=(24,))
    best = found["seasonal last value"]
    for place in (0, 1):
        assert found["ensemble"][place].rmse < 1.05 * best[place].rmse
        assert found["ensemble"][place].pinball < 1.05 * best[place].pinball
    assert ensemble.leader(1) == "seasonal last value"
    assert ensemble.leader(3) == "seasonal last value"


def test_where_members_err_differently_it_beats_each_of_them():
    rng = np.random.default_rng(6)
    level = np.exp(5 + np.cumsum(rng.normal(0, 0.04, 4000)))
    values = rng.poisson(level).astype(float).tolist()
    _, found = scores(values, ("last value", "moving average", "linear regression"))
    singles = [found[name][0].pinball for name in found if name != "ensemble"]
    assert found["ensemble"][0].pinball < min(singles)


def test_it_changes_its_mind_when_the_series_changes():
    rng = np.random.default_rng(7)
    noisy = 100 + 20 * rng.normal(size=600)
    ensemble = make_ensemble((1,), (), names=("last value", "moving average"))
    ensemble.learn(noisy.tolist())
    assert ensemble.leader() == "moving average"
    ensemble.learn((100 * np.exp(np.cumsum(rng.normal(0, 0.05, 1500)))).tolist())
    assert ensemble.leader() == "last value"


def test_it_uses_the_last_value_until_forecasts_were_checked():
    ensemble = make_ensemble((1,), (), names=SIMPLE)
    ensemble.learn([10.0, 20.0, 30.0])
    assert ensemble.forecast(1).mean.tolist() == [30.0]
    assert ensemble.leader() == "last value"
    assert "too few forecasts have been checked" in ensemble.explain().sentence


def test_it_falls_back_when_nothing_beats_the_last_value():
    weights = Weights(horizons=1, members=2)
    known, error, loss = np.array([True]), np.array([[1.0, -3.0]]), np.array([[0.1, 0.3]])
    for _ in range(100):
        weights.update(known, error, loss, np.array([-2.0]), np.array([0.2]))
    assert weights.mean_falls_back().all()
    assert weights.quantiles_fall_back().all()


def test_one_spike_is_no_reason_to_fall_back():
    weights = Weights(horizons=1, members=2)
    rng = np.random.default_rng(1)
    for step in range(300):
        combined, last = rng.normal(0, 1, 1), rng.normal(0, 1.1, 1)
        spiked = combined + 500.0 * (step == 200)
        error = np.array([[last[0], spiked[0]]])
        weights.update(np.array([True]), error, np.array([[0.11, 0.1]]), spiked, np.array([0.1]))
    assert not weights.mean_falls_back().any()


def test_its_explanation_names_everyone_with_weights_that_add_up():
    ensemble = make_ensemble((1, 3), (), names=SIMPLE)
    ensemble.learn((100 + 20 * np.random.default_rng(2).normal(size=600)).clip(0).tolist())
    report = ensemble.explain(3)
    assert report.horizon == 3
    assert {one.name for one in report.members} == set(SIMPLE)
    assert sum(one.weight_in_mean for one in report.members) == pytest.approx(1)
    assert sum(one.weight_in_quantiles for one in report.members) == pytest.approx(1)
    unready = next(one for one in report.members if one.name == "seasonal last value")
    assert not unready.ready
    assert unready.weight_in_mean == unready.weight_in_quantiles == 0
    assert report.members[0].name in report.sentence


def test_a_state_of_other_members_is_refused():
    one, other = (
        make_ensemble((1,), (), names=("last value", "ewma")),
        make_ensemble((1,), (), names=("last value", "moving average")),
    )
    one.learn([1.0, 2.0])
    with pytest.raises(ModelFolderError, match="ewma"):
        other.restore(one.state())


def test_the_ensemble_is_of_every_model_that_can_run_here():
    assert [member.name for member in make_ensemble((1,)).members] == list(available())


def test_on_recorded_load_it_is_well_ahead_of_the_last_value_and_level_with_the_best():
    """A small part of the benchmark: two series, the models that need no further packages, the last 30 %."""
    relative = []
    for name in ("taxi", "tweets-goog"):
        trace = load_trace(name)
        ensemble = make_ensemble((1, 3), calendar_seasons(trace.period_seconds), names=("last value", "ewma", "ridge"))
        combined, *singles = roll_ensemble(ensemble, trace.values[-1800:].tolist(), 0.3)
        relative.append([each.scores.relative_rmse for each in combined.horizons])
        for place, horizon in enumerate(combined.horizons):
            best = min(singles, key=lambda one, place=place: one.horizons[place].scores.mape).horizons[place]
            errors = (percentage_errors(each.median, each.truth) for each in (horizon, best))
            assert bootstrap_difference(*errors, np.random.default_rng(1))[1] <= 0
    one, three = np.exp(np.log(relative).mean(axis=0))
    assert one <= 0.85
    assert three <= 0.80
