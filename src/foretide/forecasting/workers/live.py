"""A trained net at work: one compiled step for each frame, with the state of the GRU layers carried along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import LEVELS, Floats
from foretide.forecasting.nets import weights_of, with_weights
from foretide.forecasting.workers.frames import WorkerNetSettings
from foretide.forecasting.workers.nets import Seen, Sizes, State, WorkerNet
from foretide.forecasting.workers.slots import Row, WorkerSlots, stacked
from foretide.forecasting.workers.training import NetShape, answers, lesson, make, residuals, train


class LiveNet:
    """A net, its state, its last answer (places x steps x targets), and quantiles of its errors by level, scaled."""

    def __init__(self, net: WorkerNet, state: State, answer: Floats, errors: Floats) -> None:
        self._net, self._state = net, state
        self.answer, self.errors = answer, errors

    @property
    def weights(self) -> list[Floats]:
        """What a later training can start from."""
        return weights_of(self._net)

    def step(self, row: Row) -> None:
        """Follow one more frame."""
        if row.reset:
            self._state = _emptied(self._state, len(row.present), row.reset)
        seen = seen_of(stacked([row]))
        self._state, answer = _step(self._net, self._state, seen)
        self.answer = np.asarray(answer, dtype=np.float64)

    def grow(self, places: int) -> bool:
        """Make room for more workers; a net that cannot says so."""
        before = self.answer.shape[0]
        if not any(len(layer) == before for layer in self._state):
            return False
        more = ((0, places - before), (0, 0))
        self._state = tuple(jnp.pad(layer, more) if len(layer) == before else layer for layer in self._state)
        return True

    def state(self) -> dict[str, Any]:
        """Weights and state as plain arrays."""
        weights = {f"weight{at:02}": each for at, each in enumerate(self.weights)}
        layers = {f"layer{at:02}": np.asarray(each, dtype=np.float64) for at, each in enumerate(self._state)}
        return {"answer": self.answer, "errors": self.errors, **weights, **layers}


def trained(settings: WorkerNetSettings, rows: Row, seed: int, training: int, warm: Sequence[Floats] | None) -> LiveNet:
    """Train on the rows of a history and follow them to their end."""
    shape = _shape(settings, rows)
    data = lesson(seen_of(rows), settings.horizon, settings.budget.validation)
    key = jax.random.fold_in(jax.random.key(seed), training)
    fitted = train(shape, data, settings.budget, key, _loaded(shape, warm))
    state, answer = answers(fitted.net, data.seen)
    found = np.array([[_quantiles(each) for each in step] for step in residuals(fitted.net, data)])
    return LiveNet(fitted.net, state, np.asarray(answer[-1], dtype=np.float64), np.moveaxis(found, 2, 0))


def restored(settings: WorkerNetSettings, board: WorkerSlots, state: Mapping[str, Any]) -> LiveNet:
    """The net of a kept state."""
    scale = board.scale
    machine, workers = np.zeros((1, len(scale.machine_features))), np.zeros((1, 1, len(scale.worker_features)))
    empty = Row(machine, workers, np.zeros((1, 1, len(scale.targets))), np.zeros((1, board.places), dtype=bool))
    net = with_weights(make(_shape(settings, empty), jax.random.key(0)), _series(state, "weight"))
    layers = tuple(jnp.asarray(each, dtype=jnp.float32) for each in _series(state, "layer"))
    return LiveNet(net, layers, np.asarray(state["answer"]), np.asarray(state["errors"]))


def seen_of(rows: Row) -> Seen:
    """Rows of a board as what a net sees; NumPy's arrays go to JAX as they are."""
    parts: tuple[Any, ...] = (rows.machine, rows.workers, rows.own, rows.present)
    return Seen(*parts)


def _shape(settings: WorkerNetSettings, rows: Row) -> NetShape:
    sizes = Sizes(
        rows.machine.shape[-1],
        rows.workers.shape[-1],
        len(settings.targets),
        settings.horizon,
        rows.present.shape[-1],
        settings.hidden,
    )
    return NetShape(settings.net, sizes, settings.sigmoid, settings.targets_only)


def _loaded(shape: NetShape, weights: Sequence[Floats] | None) -> WorkerNet | None:
    """The old net, if its weights still fit: features that began or ceased to change make it another one."""
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
    state, answer = net(state, seen)
    return state, answer[0]


def _emptied(state: State, places: int, which: Sequence[int]) -> State:
    at = np.array(which)
    return tuple(layer.at[at].set(0.0) if len(layer) == places else layer for layer in state)
