"""Series of a few events a step: recorded ones of which each event is kept by chance."""

import numpy as np
import pytest

from foretide.forecasting.backtest import roll_ensemble
from foretide.forecasting.forecaster import LEVELS, MEDIAN, covered
from foretide.forecasting.load.counts import SmallCounts
from foretide.forecasting.load.registry import make_ensemble
from foretide.workloads.traces import load_trace

TAXI = load_trace("taxi").values[:4500].astype(int)


def thinned(mean, seed=3):
    """The taxi counts, of which each passenger is kept with the same probability."""
    return np.random.default_rng(seed).binomial(TAXI, mean / TAXI.mean()).astype(float)


@pytest.mark.parametrize("mean", [0.3, 1.0, 5.0])
def test_of_few_events_the_interval_holds_what_it_says_and_the_mean_at_every_horizon(mean):
    names = ("last value", "ewma", "ridge")
    ensemble, last, *_ = roll_ensemble(make_ensemble((1, 3, 12), (48,), names=names), thinned(mean).tolist())
    low, high = (int(np.argmin(np.abs(LEVELS - level))) for level in (0.1, 0.9))
    for horizon, naive in zip(ensemble.horizons, last.horizons, strict=True):
        assert horizon.scores.coverage_80 == pytest.approx(0.8, abs=0.03), horizon.steps
        assert (np.diff(horizon.quantiles, axis=1) >= -1e-9).all()
        assert (horizon.quantiles[:, low] <= horizon.mean).all()
        assert (horizon.mean <= horizon.quantiles[:, high]).all()
        assert horizon.scores.rmse < 0.9 * naive.scores.rmse
        assert horizon.scores.mape < naive.scores.mape


def test_a_count_on_the_border_counts_by_the_share_of_it_that_lies_inside():
    quantiles = np.tile(np.linspace(0.25, 2.75, len(LEVELS)), (4, 1))
    low, high = quantiles[0, 3], quantiles[0, 11]
    found = [covered(quantiles[:1], np.array([value]), 0.8) for value in (0.0, 1.0, 2.0, 3.0)]
    assert found == pytest.approx([0.0, 1.5 - low, high - 1.5, 0.0], abs=1e-9)


def test_what_is_not_whole_or_not_few_is_no_small_count():
    for values, on in (([1.0, 2.0, 0.0], True), ([1.5, 2.0, 0.0], False), ([100.0, 90.0], False)):
        counts = SmallCounts(1)
        for step in range(120):
            counts.see(values[step % len(values)], np.array([1.0]), np.array([[1.0]]), np.array([True]))
        assert counts.on is on


def test_quantiles_are_those_of_the_distribution_that_was_seen():
    counts, rng = SmallCounts(1), np.random.default_rng(5)
    for _ in range(1600):
        counts.see(float(rng.poisson(3.0)), np.array([3.0]), np.array([[3.0]]), np.array([True]))
    found = counts.quantiles(np.array([3.0]), np.array([[3.0]]))[0]
    drawn = rng.poisson(3.0, 100_000) + rng.uniform(-0.5, 0.5, 100_000)
    assert found[3:-3] == pytest.approx(np.quantile(drawn.clip(0), LEVELS[3:-3]), abs=0.2)
    assert found[MEDIAN] == pytest.approx(2.8, abs=0.2)


def test_the_median_is_that_with_the_smallest_percentage_errors_and_stays_within_the_distribution():
    counts, rng = SmallCounts(1, medians=3), np.random.default_rng(5)
    others = np.array([[9.0, 2.2, 2.9]])
    for _ in range(800):
        counts.see(float(rng.poisson(3.0)), np.array([3.0]), others, np.array([True]))
    found = counts.quantiles(np.array([3.0]), others)[0]
    assert found[MEDIAN] == 2.2  # percentages of small values weigh more
    low = counts.quantiles(np.array([3.0]), np.zeros((1, 3)))[0]
    assert low[MEDIAN] == low[MEDIAN - 3]
    assert (np.diff(low) >= 0).all()
