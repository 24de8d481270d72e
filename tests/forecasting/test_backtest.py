from __future__ import annotations

import numpy as np
import pytest

from foretide.errors import NotEnoughHistoryError
from foretide.forecasting.backtest import roll, roll_ensemble
from foretide.forecasting.forecaster import LEVELS, covered, mape, pinball, rmse, score, smape
from foretide.forecasting.history import DriftDetector, calendar_seasons, find_seasons
from foretide.forecasting.load.lags import Ridge
from foretide.forecasting.load.registry import make, make_ensemble
from foretide.workloads.traces import load_trace


def test_percentages_leave_zeros_out_and_are_symmetric_where_they_say_so():
    truth, median = np.array([0.0, 10.0, 20.0]), np.array([5.0, 5.0, 30.0])
    assert mape(median, truth) == pytest.approx(0.5)
    assert smape(median, truth) == pytest.approx((2 + 2 / 3 + 0.4) / 3)
    assert mape(truth, np.zeros(3)) == 0.0


def test_pinball_loss_is_least_for_the_true_quantiles():
    rng = np.random.default_rng(1)
    draws = rng.normal(100, 10, 20_000)
    true = np.quantile(rng.normal(100, 10, 200_000), LEVELS)

    def loss(quantiles):
        return pinball(np.tile(quantiles, (len(draws), 1)), draws)

    assert loss(true) < min(
        loss(true + 2), loss(true - 2), loss(100 + 1.3 * (true - 100)), loss(100 + 0.7 * (true - 100))
    )
    assert covered(np.tile(true, (len(draws), 1)), draws, 0.8) == pytest.approx(0.8, abs=0.01)


def test_the_last_value_scores_one_and_perfection_zero():
    truth, last = np.array([3.0, 5.0]), np.array([2.0, 3.0])
    quantiles = np.tile(truth[:, None], (1, len(LEVELS)))
    assert score(last, quantiles, truth, last).relative_rmse == 1
    assert score(truth, quantiles, truth, last).relative_rmse == 0
    assert score(truth, quantiles, truth, truth).relative_rmse == 1


@pytest.mark.parametrize("name", ["last value", "ewma", "ridge", "ensemble"])
def test_a_forecast_never_sees_what_it_is_scored_against(name):
    values = load_trace("taxi").values[:600].tolist()
    changed = values[:500] + [9e5] * 100

    def before(series):
        horizon = roll(_model(name), series, 0.3).horizons[1]
        return horizon.mean[: 500 - 420 + 3], horizon.quantiles[: 500 - 420 + 3]

    for one, other in zip(before(values), before(changed), strict=True):
        assert np.array_equal(one, other)


def _model(name):
    return (
        make_ensemble((1, 3), (48,), names=("last value", "ewma", "ridge"))
        if name == "ensemble"
        else make(name, (1, 3), (48,))
    )


def test_rolling_an_ensemble_scores_its_members_as_rolling_them_alone():
    values = load_trace("taxi").values[:500].tolist()
    results = roll_ensemble(_model("ensemble"), values)
    alone = roll(_model("ewma"), values)
    together = next(each for each in results if each.name == "ewma")
    assert [each.scores for each in together.horizons] == [each.scores for each in alone.horizons]
    assert [each.steps for each in alone.horizons] == [1, 3]
    assert alone.horizons[0].truth.tolist() == values[350:]


def test_gaps_are_not_scored():
    values = [float(1 + place % 5) for place in range(200)]
    holed = [None if place % 10 == 9 else value for place, value in enumerate(values)]
    assert len(roll(make("last value", (1,)), holed).horizons[0].truth) == 54


def test_a_series_that_is_too_short_is_refused_with_what_would_do():
    with pytest.raises(NotEnoughHistoryError, match="at least 67 values"):
        roll(make("last value", (1,)), [1.0] * 30)


def test_the_errors_of_the_last_value_are_what_arithmetic_says():
    values = load_trace("taxi").values[:400]
    found = roll(make("last value", (1, 3)), values.tolist()).horizons[1]
    assert found.scores.rmse == pytest.approx(rmse(values[277:397], values[280:400]))


def test_drift_is_noticed_in_larger_errors_and_not_in_noise_or_one_spike():
    rng = np.random.default_rng(3)
    calm = DriftDetector()
    assert not any(calm.update(abs(error)) for error in rng.normal(0, 1, 5000))
    assert not calm.update(1000.0)
    assert not any(calm.update(abs(error)) for error in rng.normal(0, 1, 200))
    assert any(calm.update(abs(error)) for error in rng.normal(0, 4, 100))


def test_drift_leads_to_a_new_fit():
    rng = np.random.default_rng(2)
    model = Ridge((1,), ())
    model.learn((100 + rng.normal(0, 1, 1100)).tolist())
    planned = model.fits
    assert model.drifts == 0
    model.learn((100 + 60 * np.sin(np.arange(120) * 1.3) + rng.normal(0, 5, 120)).tolist())
    assert model.drifts >= 1
    assert model.fits == planned + model.drifts


def test_seasons_come_from_the_calendar_or_from_the_series():
    assert calendar_seasons(300.0) == (288, 2016)
    assert calendar_seasons(11.0) == ()
    assert find_seasons(load_trace("taxi").values[:2000]) == (336,)  # a week
    assert find_seasons(np.random.default_rng(1).poisson(20, 2000).astype(float)) == ()
