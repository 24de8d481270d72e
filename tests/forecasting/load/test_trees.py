"""What scikit-learn has fitted forecasts the same as arrays, and needs no scikit-learn for it."""

import subprocess
import sys

import numpy as np
import pytest

from foretide.forecasting.load.registry import make
from foretide.forecasting.load.scikit import GradientBoosting, RandomForest, SupportVectors


@pytest.mark.parametrize("kind", [RandomForest, GradientBoosting, SupportVectors])
@pytest.mark.parametrize("horizons", [(1,), (1, 3)])
def test_the_arrays_of_a_model_say_what_scikit_learn_says(kind, horizons):
    rng = np.random.default_rng(2)
    features, targets = rng.normal(size=(600, 7)), rng.normal(size=(600, len(horizons)))
    targets += features[:, :1] + np.abs(features[:, 1:2])
    model = kind(horizons, ())
    fitted = model.fit_all(features, targets)
    own = np.concatenate([model.rule(each)(features) for each in fitted], axis=1)
    theirs = np.column_stack([each.predict(features) for each in fitted])
    assert own == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("name", ["random forest", "gradient boosting", "svr"])
def test_a_restored_model_is_not_fitted_again(name, monkeypatch):
    model = make(name, (1, 3), ())
    model.learn(np.random.default_rng(1).uniform(5, 9, 200).tolist())
    other = make(name, (1, 3), ())
    monkeypatch.setattr(type(other), "make", lambda _: pytest.fail("it is fitted"))
    other.restore(model.state())
    assert np.array_equal(other.forecast(3).quantiles, model.forecast(3).quantiles)


def test_a_saved_model_forecasts_without_scikit_learn(tmp_path):
    train = (
        "import numpy as np, sys; from pathlib import Path;"
        "from foretide.forecasting.load.registry import make_ensemble;"
        "from foretide.forecasting.saved import ModelCard, load_model, save_model;"
        "names = ('svr', 'gradient boosting');"
    )
    fit = (
        "model = make_ensemble((1, 3), (), 0, names);"
        "model.learn(np.random.default_rng(1).uniform(5, 9, 100).tolist());"
        "save_model(Path(sys.argv[1]), model, ModelCard('ensemble', 'load', 1.0, (1, 3), (), 0, 100))"
    )
    ask = "sys.modules['sklearn'] = None; print(load_model(Path(sys.argv[1]))[0].forecast(3).mean.round(6).tolist())"
    here = [sys.executable, "-c"]
    subprocess.run([*here, train + fit, str(tmp_path / "model")], check=True)
    done = subprocess.run([*here, train + ask, str(tmp_path / "model")], capture_output=True, text=True, check=True)
    assert len(done.stdout.split(",")) == 3
