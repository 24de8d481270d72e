"""Training of the nets of `worker_nets` on the scaled steps of one or several machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import Floats
from foretide.forecasting.nets import Seed, fit, seeded, weights_of, with_weights
from foretide.forecasting.settings import WorkerNetSettings
from foretide.forecasting.worker_frames import Row
from foretide.forecasting.worker_nets import NetSizes, Seen, WorkerNet, make, run

_CHUNK = 48
_BATCH = 8
_FIRST_STEP = 0.5
_NEGLIGIBLE = 1e-10
_PERIOD = 40


class TrainingSet(NamedTuple):
    """The inputs of a net and the targets after each step (machines x steps x workers x horizon x targets).

    `train` and `held` are masks of the targets for gradients and for validation; `weight` (horizon x targets) is the
    weight of a squared error.
    """

    seen: Seen
    ahead: Array
    train: Array
    held: Array
    weight: Array


class TrainedNets(NamedTuple):
    """The weights of each net, and the errors of their mean on the held-out steps, by step ahead and target."""

    weights: list[list[Floats]]
    errors: list[list[Floats]]


def train(
    settings: WorkerNetSettings, machines: Sequence[Row], seed: Seed, before: Sequence[Sequence[Any]] = ()
) -> TrainedNets:
    """Train on the histories of some machines: from scratch, or further from the weights `before` where they fit."""
    data = training_set(machines, settings.horizon, settings.budget.validation)
    start: Callable[[Array], WorkerNet] = partial(make, settings, _sizes(settings, data.seen))
    warm = [net for net in (_loaded(start, weights) for weights in before) if net is not None]
    found = fit(start, chunk_loss, validation_loss, data, settings.budget, seeded(seed), warm)
    nets = [net for net, _ in found]
    return TrainedNets([weights_of(net) for net in nets], residuals(nets, data))


def training_set(machines: Sequence[Row], horizon: int, validation: float) -> TrainingSet:
    """Pair every step with the steps after it, and hold a share of them out.

    Some steps out of every 40 are held out, not the end of the history: bursts of interference come and go, and the
    last minutes may have none or nothing else. Errors are weighted by the inverse error of the last value, so that no
    target or step dominates; half of the weight goes to the first step.
    """
    rows = _side_by_side(machines)
    steps = rows.own.shape[1]
    at = np.arange(steps)[:, None] + np.arange(1, horizon + 1)
    then = np.minimum(at, steps - 1)
    ahead = rows.own[:, then].swapaxes(2, 3)
    known = (rows.present[:, then] & (at < steps)[..., None]).swapaxes(2, 3) & rows.present[..., None]
    held = (at % _PERIOD >= round(_PERIOD * (1 - validation)))[:, None, :]
    naive = np.where(known[..., None], ahead - rows.own[:, :, :, None, :], 0.0) ** 2
    arrays = (jnp.asarray(each) for each in (ahead, known & ~held, known & held, _weight(naive, known)))
    seen = (rows.machine, rows.workers, rows.own, rows.present)
    return TrainingSet(Seen(*(jnp.asarray(each) for each in seen)), *arrays)


def _side_by_side(machines: Sequence[Row]) -> Row:
    """Histories of different lengths and numbers of slots as arrays with a first axis of machines."""
    steps, slots = (max(rows.present.shape[axis] for rows in machines) for axis in (0, 1))

    def padded(each: Floats) -> Floats:
        of_machine = each.ndim == 2 and each.dtype != bool  # noqa: PLR2004 - steps and features
        wanted = (steps, each.shape[1]) if of_machine else (steps, slots, *each.shape[2:])
        return np.pad(each, [(0, more - size) for more, size in zip(wanted, each.shape, strict=True)])

    machine, workers, own, present, _ = zip(*machines, strict=True)
    parts: list[Any] = [np.stack([padded(each) for each in part]) for part in (machine, workers, own, present)]
    return Row(*parts)


def _weight(naive: Floats, known: NDArray[np.bool_]) -> Floats:
    """The weight of a squared error by step ahead and target; 0 where the last value is always right."""
    horizon, targets = naive.shape[3:]
    scale = naive.sum(axis=(0, 1, 2)) / np.maximum(known.sum(axis=(0, 1, 2)), 1)[:, None]
    share = np.full(horizon, (1 - _FIRST_STEP) / max(horizon - 1, 1))
    share[0] = _FIRST_STEP if horizon > 1 else 1.0
    weight: Floats = np.where(scale > _NEGLIGIBLE, share[:, None] / np.maximum(scale, _NEGLIGIBLE), 0.0) / targets
    return weight


def chunk_loss(net: WorkerNet, data: TrainingSet, key: Array) -> Array:
    """The error over some chunks of the histories, drawn by the key, each from a cold start."""
    machines, steps = data.ahead.shape[:2]
    length = min(_CHUNK, steps)
    first, other = jax.random.split(key)
    starts = jax.random.randint(first, (_BATCH,), 0, steps - length + 1)
    whole = (data.seen, data.ahead, data.train)

    def summed(machine: Array, start: Array) -> tuple[Array, Array]:
        seen, ahead, counts = jax.tree.map(
            lambda each: jax.lax.dynamic_slice_in_dim(each[machine], start, length), whole
        )
        return _error(run(net, seen)[1], ahead, counts, data.weight)

    errors, counts = jax.vmap(summed)(jax.random.randint(other, (_BATCH,), 0, machines), starts)
    return errors.sum() / jnp.maximum(counts.sum(), 1)


def validation_loss(net: WorkerNet, data: TrainingSet) -> Array:
    """The error on the held-out steps, in a run over each whole history."""
    found = jax.vmap(lambda seen: run(net, seen)[1])(data.seen)
    error, count = _error(found, data.ahead, data.held, data.weight)
    return error / jnp.maximum(count, 1)


def _error(predictions: Array, ahead: Array, counts: Array, weight: Array) -> tuple[Array, Array]:
    squared = jnp.where(counts[..., None], (predictions - ahead) ** 2, 0.0)
    return (squared * weight).sum(), counts.sum() / ahead.shape[-2]


@eqx.filter_jit
def predictions(net: WorkerNet, seen: Seen) -> Array:
    """The predictions at every step of every machine."""
    found: Array = jax.vmap(lambda each: run(net, each)[1])(seen)
    return found


def residuals(nets: Sequence[WorkerNet], data: TrainingSet) -> list[list[Floats]]:
    """The errors (truth less mean forecast, scaled) on the held-out steps, by step ahead and target."""
    mean = np.mean([np.asarray(predictions(net, data.seen), dtype=np.float64) for net in nets], axis=0)
    wrong, held = np.asarray(data.ahead, dtype=np.float64) - mean, np.asarray(data.held)
    horizon, targets = wrong.shape[3:]
    return [[wrong[..., far, target][held[..., far]] for target in range(targets)] for far in range(horizon)]


def _sizes(settings: WorkerNetSettings, seen: Seen) -> NetSizes:
    targets = len(settings.targets)
    slots = seen.present.shape[-1]
    return NetSizes(seen.machine.shape[-1], seen.workers.shape[-1], targets, settings.horizon, slots, settings.hidden)


def _loaded(start: Callable[[Array], WorkerNet], weights: Sequence[Any]) -> WorkerNet | None:
    """The net with earlier weights, unless features were added or removed since."""
    try:
        return with_weights(start(jax.random.key(0)), weights)
    except ModelFolderError:
        return None
