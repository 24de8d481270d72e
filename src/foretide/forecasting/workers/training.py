"""Training the nets of a machine's workers on its history, and running them over it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from foretide.forecasting.budget import TrainingBudget
from foretide.forecasting.forecaster import Floats
from foretide.forecasting.nets import FittedNet, fit
from foretide.forecasting.workers.nets import FlatNet, InterferenceNet, PlainNet, Seen, Sizes, State, WorkerNet

_CHUNK = 48
_BATCH = 8
_FIRST_STEP = 0.5
_NOTHING = 1e-10
_PERIOD = 40


class TrainingSet(NamedTuple):
    """What a net trains on: what it sees, and what comes after it (steps x workers x horizon x targets).

    `train` and `held` say which of that counts for gradients, and which only for validation; `weight` (horizon x
    targets) is what a squared error counts.
    """

    seen: Seen
    ahead: Array
    train: Array
    held: Array
    weight: Array


class NetShape(NamedTuple):
    """Which net ('interference', 'plain', 'flat'), its sizes, and the paper's ways where our default differs."""

    kind: str
    sizes: Sizes
    sigmoid: bool = False
    targets_only: bool = False


def lesson(seen: Seen, horizon: int, validation: float) -> TrainingSet:
    """Line every step up with the steps after it, and hold a share of them back.

    Some steps out of every 40 are held back, not the end of the history: bursts of interference come and go, and the
    last minutes alone may well have none, or nothing else. Errors weigh by what the last value as a forecast gets
    wrong, so that no target or step drowns the others; half of the weight goes to the first step.
    """
    own, present = np.asarray(seen.own), np.asarray(seen.present)
    steps = len(own)
    at = np.arange(steps)[:, None] + np.arange(1, horizon + 1)
    then = np.minimum(at, steps - 1)
    ahead = own[then].swapaxes(1, 2)
    known = (present[then] & (at < steps)[..., None]).swapaxes(1, 2) & present[:, :, None]
    held = (at % _PERIOD >= round(_PERIOD * (1 - validation)))[:, None, :]
    naive = np.where(known[..., None], ahead - own[:, :, None, :], 0.0) ** 2
    arrays = (jnp.asarray(each) for each in (ahead, known & ~held, known & held, _weight(naive, known)))
    return TrainingSet(Seen(*(jnp.asarray(each) for each in seen)), *arrays)


def _weight(naive: Floats, known: NDArray[np.bool_]) -> Floats:
    """What a squared error counts, by step ahead and target; nothing where the last value is always right."""
    horizon, targets = naive.shape[2:]
    scale = naive.sum(axis=(0, 1)) / np.maximum(known.sum(axis=(0, 1)), 1)[:, None]
    share = np.full(horizon, (1 - _FIRST_STEP) / max(horizon - 1, 1))
    share[0] = _FIRST_STEP if horizon > 1 else 1.0
    weight: Floats = np.where(scale > _NOTHING, share[:, None] / np.maximum(scale, _NOTHING), 0.0) / targets
    return weight


def train(
    shape: NetShape, data: TrainingSet, budget: TrainingBudget, key: Array, warm: WorkerNet | None = None
) -> FittedNet[WorkerNet]:
    """The best net of this shape, by its loss on the validation share."""
    return fit(partial(make, shape), chunk_loss, validation_loss, data, budget, key, warm)


def make(shape: NetShape, key: Array) -> WorkerNet:
    """A net that has learnt nothing yet."""
    if shape.kind == "plain":
        return PlainNet(shape.sizes, sigmoid=shape.sigmoid, key=key)
    if shape.kind == "flat":
        return FlatNet(shape.sizes, sigmoid=shape.sigmoid, key=key)
    return InterferenceNet(shape.sizes, sigmoid=shape.sigmoid, targets_only=shape.targets_only, key=key)


def run(net: WorkerNet, seen: Seen) -> tuple[State, Array]:
    """From a cold start over a whole history: the state at its end, and the answers at every step."""
    return net(net.start(seen.present.shape[1]), seen)


def chunk_loss(net: WorkerNet, data: TrainingSet, key: Array) -> Array:
    """The error over some chunks of the history, drawn by the key, each from a cold start."""
    length = min(_CHUNK, len(data.ahead))
    first = jax.random.randint(key, (_BATCH,), 0, len(data.ahead) - length + 1)

    def summed(start: Array) -> tuple[Array, Array]:
        whole = (data.seen, data.ahead, data.train)
        seen, ahead, counts = jax.tree.map(lambda each: jax.lax.dynamic_slice_in_dim(each, start, length), whole)
        return _error(run(net, seen)[1], ahead, counts, data.weight)

    errors, counts = jax.vmap(summed)(first)
    return errors.sum() / jnp.maximum(counts.sum(), 1)


def validation_loss(net: WorkerNet, data: TrainingSet) -> Array:
    """The error on what is held back, in a run over the whole history."""
    error, count = _error(run(net, data.seen)[1], data.ahead, data.held, data.weight)
    return error / jnp.maximum(count, 1)


def _error(answers: Array, ahead: Array, counts: Array, weight: Array) -> tuple[Array, Array]:
    squared = jnp.where(counts[..., None], (answers - ahead) ** 2, 0.0)
    return (squared * weight).sum(), counts.sum() / ahead.shape[2]


@eqx.filter_jit
def answers(net: WorkerNet, seen: Seen) -> tuple[State, Array]:
    """`run`, compiled."""
    return run(net, seen)


def residuals(net: WorkerNet, data: TrainingSet) -> list[list[Floats]]:
    """What the net got wrong where history was held back (truth less forecast, scaled), by step ahead and target."""
    wrong = np.asarray(data.ahead - answers(net, data.seen)[1], dtype=np.float64)
    held = np.asarray(data.held)
    horizon, targets = wrong.shape[2:]
    return [[wrong[:, :, far, target][held[:, :, far]] for target in range(targets)] for far in range(horizon)]
