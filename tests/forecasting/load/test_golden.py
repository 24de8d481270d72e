"""Forecasts of the ensemble that must not change: recorded once, on two packaged traces."""

import pytest

from foretide.forecasting.history import calendar_seasons
from foretide.forecasting.load.registry import NUMPY_MODELS, make_ensemble
from foretide.workloads.traces import load_trace

GOLDEN = {  # mean, 10 % quantile, 90 % quantile of the next four steps
    "taxi": (
        [26030.6625, 25482.87942, 24704.21862, 24122.05224],
        [22149.94634, 17826.50319, 13518.58338, 12564.1233],
        [30044.7355, 31821.76358, 30030.34105, 31578.05611],
    ),
    "tweets-goog": (
        [60.16005174, 58.19967757, 56.45520328, 56.38928561],
        [42.72489899, 42.60969915, 42.48270709, 40.44170269],
        [75.5305202, 76.67525461, 77.72080744, 81.2409604],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_forecasts_of_the_ensemble_are_the_recorded_ones(name):
    trace = load_trace(name)
    ensemble = make_ensemble((1, 3), calendar_seasons(trace.period_seconds), 5, NUMPY_MODELS)
    ensemble.learn(trace.values[-700:].tolist())
    ahead = ensemble.forecast(4)
    mean, low, high = GOLDEN[name]
    assert ahead.mean == pytest.approx(mean, rel=1e-6)
    assert ahead.quantile(0.1) == pytest.approx(low, rel=1e-6)
    assert ahead.quantile(0.9) == pytest.approx(high, rel=1e-6)
