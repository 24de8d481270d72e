"""The nets are followed step by step in NumPy: the same predictions as those that JAX trained, to its precision."""

import numpy as np
import pytest

from foretide.errors import ModelFolderError
from foretide.forecasting.key_net import predicted_shares
from foretide.forecasting.settings import WorkerNetSettings
from foretide.forecasting.worker_frames import Row
from foretide.forecasting.worker_steps import StepNet

jax = pytest.importorskip("jax")
worker_nets = pytest.importorskip("foretide.forecasting.worker_nets")
nets = pytest.importorskip("foretide.forecasting.nets")

STEPS, SLOTS, MACHINE, WORKER = 12, 3, 4, 5


def rows():
    rng = np.random.default_rng(3)
    present = rng.random((STEPS, SLOTS)) < 0.7
    present[4] = False  # nobody at all
    shapes = ((STEPS, MACHINE), (STEPS, SLOTS, WORKER), (STEPS, SLOTS, 2))
    return Row(*(rng.uniform(-2, 3, shape).astype(np.float32) for shape in shapes), present)


@pytest.mark.parametrize("kind", ["interference", "plain", "flat"])
@pytest.mark.parametrize("as_printed", [False, True])
def test_every_step_in_numpy_is_that_of_jax(kind, as_printed):
    settings = WorkerNetSettings(
        net=kind, targets=("a", "b"), horizon=3, hidden=6, sigmoid=as_printed, targets_only=as_printed
    )
    sizes = worker_nets.NetSizes(MACHINE, WORKER, 2, 3, SLOTS, 6)
    net = worker_nets.make(settings, sizes, jax.random.key(1))
    weights = [each + 0.1 for each in nets.weights_of(net)]  # heads begin at zero
    history = rows()
    seen = worker_nets.Seen(*history[:4])
    expected = np.asarray(worker_nets.run(nets.with_weights(net, weights), seen)[1])
    step_net = StepNet(settings, weights)
    state = step_net.start(SLOTS)
    for at in range(STEPS):
        state, found = step_net.step(state, Row(*(part[at] for part in history[:4])))
        here = np.ones(SLOTS, dtype=bool) if kind == "flat" else history.present[at]
        np.testing.assert_allclose(found[here], expected[at][here], rtol=1e-4, atol=1e-5)


def test_the_weights_of_another_net_are_refused():
    with pytest.raises(ModelFolderError, match="another net"):
        StepNet(WorkerNetSettings(net="plain"), [np.zeros(3)] * 18)


def test_the_net_of_keys_in_numpy_is_that_of_jax():
    training = pytest.importorskip("foretide.forecasting.key_training")
    net = training.KeyEncoderDecoder(6, 3, key=jax.random.key(2))
    weights = [each + 0.1 for each in nets.weights_of(net)]
    rng = np.random.default_rng(5)
    inputs, last = rng.normal(size=(7, 20, 3)).astype(np.float32), rng.normal(size=20).astype(np.float32)
    expected = jax.nn.softmax(nets.with_weights(net, weights)(inputs, last), axis=-1)
    np.testing.assert_allclose(predicted_shares(weights, inputs, last, 3), np.asarray(expected), rtol=1e-4)
