from __future__ import annotations

import sys

import numpy as np
import pytest

from foretide.errors import EnvironmentNotReadyError
from foretide.forecasting.load import neural as mlp
from foretide.forecasting.load import scikit as learners
from foretide.forecasting.load.neural import NeuralNet
from foretide.forecasting.load.registry import EXTRA_MODELS, NUMPY_MODELS, model_class


@pytest.mark.parametrize("name", EXTRA_MODELS)
def test_a_missing_package_is_named_with_what_to_install(name, monkeypatch):
    kind = model_class(name)
    monkeypatch.setattr(mlp, "_trainer", mlp._trainer.__wrapped__)  # what is cached stays compiled for other tests
    monkeypatch.setattr(learners, "_controller", learners._controller.__wrapped__)
    for package in [name for name in sys.modules if name.split(".")[0] in kind.needs] + list(kind.needs):
        monkeypatch.setitem(sys.modules, package, None)
    model = kind((1,), ())
    with pytest.raises(EnvironmentNotReadyError, match=r"pip install 'foretide\[forecast\]'"):
        model.learn(np.random.default_rng(1).uniform(5, 9, 80).tolist())


@pytest.mark.parametrize("name", NUMPY_MODELS)
def test_simple_models_need_nothing(name):
    assert model_class(name).needs == ()


def test_the_net_stops_early_and_a_later_fit_starts_from_its_weights():
    rng = np.random.default_rng(1)
    told = []
    net = NeuralNet((1,), (), seed=1, progress=lambda epoch, loss: told.append((epoch, loss)))
    values = (50 + 30 * np.sin(np.arange(700) / 3) + rng.normal(0, 3, 700)).tolist()
    net.learn(values[:512])
    assert len(net.validation) < net.epochs
    assert told[-1] == (len(net.validation) - 1, net.validation[-1])
    net.learn(values[512:])
    cold = NeuralNet((1,), (), seed=1)
    cold.restore(net.state())
    cold._layers = ()
    for each in (net, cold):
        each.retrain()
    assert net.validation[0] < cold.validation[0]
