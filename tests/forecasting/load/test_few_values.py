"""`foretide forecast` and live fits take series of any length: too few values mean that a model is not fitted yet."""

import numpy as np
import pytest

from foretide.forecasting.load.registry import MODELS, make, make_ensemble
from foretide.forecasting.saved import learn_quickly


@pytest.mark.parametrize("name", MODELS)
def test_a_series_of_1_to_64_values_gives_a_forecast_with_every_model(name):
    for size in range(1, 65):
        values = np.random.default_rng(size).poisson(50, size).astype(float).tolist()
        model = make(name, (1, 3), None, seed=1)
        learn_quickly(model, values)
        ahead = model.forecast(3)
        assert np.isfinite(ahead.mean).all(), size
        assert (np.diff(ahead.quantiles, axis=1) >= -1e-9).all(), size
        assert (0.2 * min(values) <= ahead.median).all(), size
        assert (ahead.median <= 5 * max(values)).all(), size


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_fitted_after_64_values(name):
    values = np.random.default_rng(5).poisson(50, 64).astype(float).tolist()
    model = make(name, (1, 3), (8,), seed=1)
    model.know(values)
    model.retrain()
    assert model.ready


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 12, 64])
def test_so_does_the_mix(size):
    ensemble = make_ensemble((1, 3), None, seed=1, names=("last value", "ridge", "arima", "svr"))
    learn_quickly(ensemble, [float(value) for value in range(1, size + 1)])
    assert np.isfinite(ensemble.forecast(3).quantiles).all()
