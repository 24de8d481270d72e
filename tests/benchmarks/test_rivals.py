"""What the models are compared with in benchmarks: baselines, scores and confidence intervals."""

import sys

import numpy as np
import pytest
from benchmarks.rivals.bootstrap import bootstrap_difference
from benchmarks.rivals.key_scores import heavy_recall, top_recall, total_variation
from benchmarks.rivals.worker_models import arima_one_step, svr_one_step

from foretide.errors import BadSeriesError, EnvironmentNotReadyError, NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS
from foretide.forecasting.key_models import KeyForecast, shares_of


@pytest.mark.parametrize("baseline", [arima_one_step, svr_one_step])
def test_baselines_forecast_from_the_past_only(baseline):
    rng = np.random.default_rng(1)
    series = np.zeros(160)
    for at in range(1, 160):
        series[at] = 0.6 * series[at - 1] + rng.normal()
    series += 10
    ahead = baseline(series, 110)
    assert ahead.shape == (50,)
    changed = series.copy()
    changed[140:] += 100
    np.testing.assert_allclose(baseline(changed, 110)[:31], ahead[:31], rtol=1e-6)
    naive = np.mean((series[109:-1] - series[110:]) ** 2)
    assert np.mean((ahead - series[110:]) ** 2) < naive


@pytest.mark.parametrize("baseline", [arima_one_step, svr_one_step])
def test_baselines_take_constants_and_refuse_gaps(baseline):
    assert baseline(np.full(40, 3.0), 30).tolist() == [3.0] * 10
    with pytest.raises(BadSeriesError):
        baseline(np.array([1.0] * 39 + [np.nan]), 30)
    with pytest.raises(NotEnoughHistoryError):
        baseline(np.full(40, 3.0), 40)


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(EnvironmentNotReadyError, match=r"pip install 'foretide\[forecast\]'"):
        svr_one_step(np.arange(40.0), 30)


def test_the_block_bootstrap_is_wider_than_a_plain_one_for_errors_that_go_together():
    rng = np.random.default_rng(4)
    together = np.repeat(rng.normal(0, 1, 100), 50)
    _, low, high = bootstrap_difference(together, np.zeros(5000), np.random.default_rng(1), block=100)
    _, plain_low, plain_high = bootstrap_difference(together, np.zeros(5000), np.random.default_rng(1), block=1)
    assert high - low > 3 * (plain_high - plain_low)
    assert low < together.mean() < high


def forecast_of(shares):
    ordered = sorted(shares.items(), key=lambda entry: -entry[1])
    mean = np.array([share for _, share in ordered])
    return KeyForecast(tuple(key for key, _ in ordered), mean, np.repeat(mean[:, None], len(LEVELS), axis=1))


def test_recall_counts_the_true_top_keys_that_were_foreseen():
    truth = {"a": 50, "b": 30, "c": 15, "d": 5}
    assert top_recall(forecast_of({"b": 0.5, "d": 0.3, "a": 0.2}), truth, 2) == 0.5
    assert top_recall(forecast_of({"b": 0.6, "a": 0.4}), truth, 2) == 1.0
    assert top_recall(forecast_of({}), truth, 2) == 0.0
    assert top_recall(forecast_of({"x": 1.0}), {}, 2) == 1.0


def test_keys_that_tie_with_the_last_of_the_top_are_as_good():
    assert top_recall(forecast_of({"a": 0.5, "c": 0.3}), {"a": 5, "b": 2, "c": 2}, 2) == 1.0


def test_heavy_hitters_are_those_above_the_threshold():
    truth = {"a": 50, "b": 30, "c": 20}
    assert heavy_recall(forecast_of({"a": 0.9, "b": 0.1}), truth, 0.25) == 0.5
    assert heavy_recall(forecast_of({"a": 0.9}), truth, 0.6) == 1.0


def test_the_distance_is_zero_for_the_same_and_one_for_nothing_in_common():
    truth = {"a": 3, "b": 1}
    assert total_variation(forecast_of(shares_of(truth)), truth) == pytest.approx(0)
    assert total_variation(forecast_of({"c": 1.0}), truth) == pytest.approx(1)
    assert total_variation(forecast_of({"a": 0.25, "b": 0.75}), truth) == pytest.approx(0.5)
