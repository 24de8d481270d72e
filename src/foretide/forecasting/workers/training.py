"""Training the nets of workers on a history, and running a trained net step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import LEVELS, Floats
from foretide.forecasting.nets import FittedNet, fit, weights_of, with_weights
from foretide.forecasting.settings import WorkerNetSettings
from foretide.forecasting.workers.inputs import Row, WorkerSlots, stacked
from foretide.forecasting.workers.nets import FlatNet, InterferenceNet, NetSizes, PlainNet, Seen, State, WorkerNet

_CHUNK = 48
_BATCH = 8
_FIRST_STEP = 0.5
_NEGLIGIBLE = 1e-10
_PERIOD = 40


class TrainingSet(NamedTuple):
    """The inputs of a net and the targets after each step (steps x workers x horizon x targets).

    `train` and `held` are masks of the targets for gradients and for validation; `weight` (horizon x targets) is the
    weight of a squared error.
    """

    seen: Seen
    ahead: Array
    train: Array
    held: Array
    weight: Array


class NetShape(NamedTuple):
    """The kind of a net, its sizes, and the options of the paper that are not our default."""

    kind: str
    sizes: NetSizes
    sigmoid: bool = False
    targets_only: bool = False


def training_set(seen: Seen, horizon: int, validation: float) -> TrainingSet:
    """Pair every step with the steps after it, and hold a share of them out.

    Some steps out of every 40 are held out, not the end of the history: bursts of interference come and go, and the
    last minutes may have none or nothing else. Errors are weighted by the inverse error of the last value, so that no
    target or step dominates; half of the weight goes to the first step.
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
    """The weight of a squared error by step ahead and target; 0 where the last value is always right."""
    horizon, targets = naive.shape[2:]
    scale = naive.sum(axis=(0, 1)) / np.maximum(known.sum(axis=(0, 1)), 1)[:, None]
    share = np.full(horizon, (1 - _FIRST_STEP) / max(horizon - 1, 1))
    share[0] = _FIRST_STEP if horizon > 1 else 1.0
    weight: Floats = np.where(scale > _NEGLIGIBLE, share[:, None] / np.maximum(scale, _NEGLIGIBLE), 0.0) / targets
    return weight


def make(shape: NetShape, key: Array) -> WorkerNet:
    """A net that has learnt nothing yet."""
    if shape.kind == "plain":
        return PlainNet(shape.sizes, sigmoid=shape.sigmoid, key=key)
    if shape.kind == "flat":
        return FlatNet(shape.sizes, sigmoid=shape.sigmoid, key=key)
    return InterferenceNet(shape.sizes, sigmoid=shape.sigmoid, targets_only=shape.targets_only, key=key)


def run(net: WorkerNet, seen: Seen) -> tuple[State, Array]:
    """From a cold start over a whole history: the state at its end, and the predictions at every step."""
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
    """The error on the held-out steps, in a run over the whole history."""
    error, count = _error(run(net, data.seen)[1], data.ahead, data.held, data.weight)
    return error / jnp.maximum(count, 1)


def _error(predictions: Array, ahead: Array, counts: Array, weight: Array) -> tuple[Array, Array]:
    squared = jnp.where(counts[..., None], (predictions - ahead) ** 2, 0.0)
    return (squared * weight).sum(), counts.sum() / ahead.shape[2]


@eqx.filter_jit
def predictions(net: WorkerNet, seen: Seen) -> tuple[State, Array]:
    """`run`, compiled."""
    return run(net, seen)


def residuals(net: WorkerNet, data: TrainingSet) -> list[list[Floats]]:
    """The errors (truth less forecast, scaled) on the held-out steps, by step ahead and target."""
    wrong = np.asarray(data.ahead - predictions(net, data.seen)[1], dtype=np.float64)
    held = np.asarray(data.held)
    horizon, targets = wrong.shape[2:]
    return [[wrong[:, :, far, target][held[:, :, far]] for target in range(targets)] for far in range(horizon)]


class LiveNet:
    """A trained net, its state, its last prediction (slots x steps x targets), and error quantiles by level, scaled."""

    def __init__(self, net: WorkerNet, state: State, prediction: Floats, errors: Floats) -> None:
        self._net, self._state = net, state
        self.prediction, self.errors = prediction, errors

    @classmethod
    def trained(
        cls, settings: WorkerNetSettings, rows: Row, seed: int, training: int, warm: Sequence[Floats] | None
    ) -> LiveNet:
        """Train on the rows of a history, and advance to its end."""
        shape = _shape(settings, rows)
        data = training_set(seen_of(rows), settings.horizon, settings.budget.validation)
        key = jax.random.fold_in(jax.random.key(seed), training)
        best: FittedNet[WorkerNet] = fit(
            partial(make, shape), chunk_loss, validation_loss, data, settings.budget, key, _loaded(shape, warm)
        )
        state, prediction = predictions(best.net, data.seen)
        errors = np.array([[_quantiles(each) for each in step] for step in residuals(best.net, data)])
        return cls(best.net, state, np.asarray(prediction[-1], dtype=np.float64), np.moveaxis(errors, 2, 0))

    @classmethod
    def restored(cls, settings: WorkerNetSettings, slots: WorkerSlots, state: Mapping[str, Any]) -> LiveNet:
        """The net of a saved state."""
        scale = slots.scale
        machine, workers = np.zeros((1, len(scale.machine_features))), np.zeros((1, 1, len(scale.worker_features)))
        empty = Row(machine, workers, np.zeros((1, 1, len(scale.targets))), np.zeros((1, slots.size), dtype=bool))
        net = with_weights(make(_shape(settings, empty), jax.random.key(0)), _series(state, "weight"))
        layers = tuple(jnp.asarray(each, dtype=jnp.float32) for each in _series(state, "layer"))
        return cls(net, layers, np.asarray(state["prediction"]), np.asarray(state["errors"]))

    @property
    def weights(self) -> list[Floats]:
        """The weights, from which a later training can start."""
        return weights_of(self._net)

    def step(self, row: Row) -> None:
        """Advance by one step."""
        if row.reset:
            self._state = _emptied(self._state, len(row.present), row.reset)
        seen = seen_of(stacked([row]))
        self._state, prediction = _step(self._net, self._state, seen)
        self.prediction = np.asarray(prediction, dtype=np.float64)

    def grow(self, slots: int) -> bool:
        """Add slots; returns False for a net with a fixed number of slots."""
        before = self.prediction.shape[0]
        if not any(len(layer) == before for layer in self._state):
            return False
        more = ((0, slots - before), (0, 0))
        self._state = tuple(jnp.pad(layer, more) if len(layer) == before else layer for layer in self._state)
        return True

    def state(self) -> dict[str, Any]:
        """Weights and state as plain arrays."""
        weights = {f"weight{at:02}": each for at, each in enumerate(self.weights)}
        layers = {f"layer{at:02}": np.asarray(each, dtype=np.float64) for at, each in enumerate(self._state)}
        return {"prediction": self.prediction, "errors": self.errors, **weights, **layers}


def seen_of(rows: Row) -> Seen:
    """Rows as the inputs of a net."""
    parts: tuple[Any, ...] = (rows.machine, rows.workers, rows.own, rows.present)
    return Seen(*parts)


def _shape(settings: WorkerNetSettings, rows: Row) -> NetShape:
    sizes = NetSizes(
        rows.machine.shape[-1],
        rows.workers.shape[-1],
        len(settings.targets),
        settings.horizon,
        rows.present.shape[-1],
        settings.hidden,
    )
    return NetShape(settings.net, sizes, settings.sigmoid, settings.targets_only)


def _loaded(shape: NetShape, weights: Sequence[Floats] | None) -> WorkerNet | None:
    """The net with earlier weights, unless features were added or removed since."""
    if weights is None:
        return None
    try:
        return with_weights(make(shape, jax.random.key(0)), weights)
    except ModelFolderError:
        return None


def _quantiles(errors: Floats) -> Floats:
    return np.quantile(errors, LEVELS) if len(errors) else np.zeros(len(LEVELS))


def _series(state: Mapping[str, Any], prefix: str) -> list[Floats]:
    return [np.asarray(state[name], dtype=np.float64) for name in sorted(state) if name.startswith(prefix)]


@jax.jit
def _step(net: WorkerNet, state: State, seen: Seen) -> tuple[State, Array]:
    state, prediction = net(state, seen)
    return state, prediction[0]


def _emptied(state: State, slots: int, which: Sequence[int]) -> State:
    at = np.array(which)
    return tuple(layer.at[at].set(0.0) if len(layer) == slots else layer for layer in state)
