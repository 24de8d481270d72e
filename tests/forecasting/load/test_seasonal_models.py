"""The seasonal-trend model and the net for all series."""

import subprocess
import sys

import numpy as np
import pytest
from benchmarks.forecasting_global import SERIES, generated

from foretide.forecasting.backtest import roll
from foretide.forecasting.load.global_net import KNOTS, GlobalNet, trained
from foretide.forecasting.load.seasonal_trend import SeasonalTrend, Smoothing, _smoothed


def two_seasons(size, seed=4, noise=0.2):
    """A short season within a long one, growing."""
    at, rng = np.arange(size), np.random.default_rng(seed)
    logs = 5 + at / 2000 + 0.5 * np.sin(at * 2 * np.pi / 24) + 0.6 * (at % 168 >= 120)
    return (np.exp(logs) * rng.lognormal(0, noise, size)).tolist()


@pytest.mark.parametrize("kind", [SeasonalTrend, GlobalNet])
def test_seasons_are_foreseen_far_ahead(kind):
    backtest = roll(kind((1, 12, 36), (24, 168)), two_seasons(1200))
    for horizon in backtest.horizons:
        assert horizon.scores.relative_rmse < 0.9, horizon.steps
        assert horizon.scores.coverage_80 > 0.75, horizon.steps  # errors before the first fits widen it


def test_a_season_without_effect_is_not_relied_on():
    model = SeasonalTrend((1,), (24,))
    model.learn(np.random.default_rng(1).lognormal(5, 0.1, 1200).tolist())
    model.retrain()
    assert max(model.fitted()["reliance"]) < 0.2


def test_the_seasons_of_a_series_without_noise_leave_nothing():
    model = SeasonalTrend((1, 36), (24,))
    model.learn([10 + each % 24 for each in range(400)])
    model.retrain()
    assert model.forecast(30).median == pytest.approx([10 + (400 + each) % 24 for each in range(30)], rel=0.02)


def test_the_smoothing_follows_a_line_as_far_as_its_trend_lasts():
    line = np.arange(160.0)[None, :]
    ahead = _smoothed(line, Smoothing(1.0, 0.5, 1.0), np.array([1, 10]))
    assert ahead[0] == pytest.approx([160.0, 169.0], rel=1e-3)
    damped = _smoothed(line, Smoothing(1.0, 0.5, 0.5), np.array([1, 10]))[0]
    assert 159 < damped[0] < damped[1] < 162


def test_the_net_that_comes_along_is_better_than_the_last_value_before_it_is_fitted():
    found = []
    for seed in range(SERIES, SERIES + 20):  # it has not learnt these
        values, _ = generated(seed)
        net = GlobalNet((1, 12), ())
        assert net.ready
        net.refit_every = 0
        found.append([horizon.scores.relative_rmse for horizon in roll(net, values.tolist(), 0.9).horizons])
    assert (np.exp(np.log(found).mean(axis=0)) < 1.0).all()


def test_a_fit_tunes_it_to_the_series():
    values = two_seasons(900)
    net, same = GlobalNet((1, 12), (24,), seed=1), GlobalNet((1, 12), (24,), seed=1)
    same.refit_every = 0
    tuned, untuned = (roll(each, values).horizons[1].scores.relative_rmse for each in (net, same))
    assert tuned < untuned


def test_any_horizons_share_the_knots():
    layers, _ = trained()
    net = GlobalNet((1, 9, 100), ())
    weights, bias = net._layers[-1]
    known = dict(zip(KNOTS, layers[-1][1], strict=True))
    assert bias == pytest.approx([known[1], (known[6] + known[12]) / 2, known[48]])
    assert weights.shape[0] == 3


def test_it_forecasts_without_jax():
    code = (
        "import sys; sys.modules['jax'] = None;"
        "from foretide.forecasting.load.global_net import GlobalNet;"
        "net = GlobalNet((1, 3), ()); net.learn([5.0, 6.0, 7.0]); print(net.forecast(3).mean.min() > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
