"""The nets of `worker_nets`, step by step in NumPy: forecasts need no JAX, only training does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from foretide.errors import ModelFolderError
from foretide.forecasting.layers import Affine, Gru, Tensor, sigmoid
from foretide.forecasting.settings import WorkerNetSettings
from foretide.forecasting.worker_frames import Row

NetState = tuple[Tensor, ...]
"""The hidden state of a net, layer by layer."""

LAYERS = 2
_TENSORS = {"interference": 18, "plain": 8, "flat": 8}
_LOWEST = -1.0  # of a hyperbolic tangent


class StepNet:
    """A net with given weights: `weights_of` of the nets in `worker_nets`, in that order."""

    def __init__(self, settings: WorkerNetSettings, weights: Sequence[Tensor]) -> None:
        if len(weights) != _TENSORS[settings.net] or np.shape(weights[-3]) != (3 * settings.hidden,):
            raise ModelFolderError(f"the saved weights are those of another net than '{settings.net}'; train a new one")
        self.settings, self.weights = settings, [np.asarray(each, dtype=np.float32) for each in weights]
        tensors = iter(self.weights)
        if settings.net == "interference":
            self._embed = Affine(next(tensors), next(tensors))
            self._machine = _stack(tensors)
            self._squeeze = Affine(next(tensors), next(tensors))
        self._workers = _stack(tensors)
        self._head = Affine(next(tensors), next(tensors))

    def start(self, slots: int) -> NetState:
        """The state before anything was seen."""
        hidden = self._workers[0].recur.shape[0]
        single, every = (
            tuple(np.zeros((rows, hidden), dtype=np.float32) for _ in range(LAYERS)) for rows in (1, slots)
        )
        return {"interference": single + every, "plain": every, "flat": single}[self.settings.net]

    def step(self, state: NetState, row: Row) -> tuple[NetState, Tensor]:
        """The state after a step, and the scaled targets ahead: slots x steps x targets."""
        present, everyone = row.present[:, None], np.ones((1, 1), dtype=bool)
        if self.settings.net == "flat":
            masked = np.where(present, row.workers, 0.0).ravel()
            state, memory = _advance(self._workers, state, np.concatenate([row.machine, masked])[None], everyone)
            return state, self._ahead(self._head(memory), row)
        inputs, own = row.workers, np.clip(row.own, -1.0, 2.0)
        around: NetState = ()
        if self.settings.net == "interference":
            pooled = _pooled(np.tanh(self._embed(row.workers)), present)
            seen = np.concatenate([row.machine, pooled])[None]
            around, memory = _advance(self._machine, state[:LAYERS], seen, everyone)
            interference = np.tanh(self._squeeze(memory)).repeat(len(own), axis=0)
            inputs = np.concatenate([interference, own if self.settings.targets_only else row.workers], axis=-1)
        workers, memory = _advance(self._workers, state[len(around) :], inputs, present)
        return around + workers, self._ahead(self._head(np.concatenate([memory, own], axis=-1)), row)

    def _ahead(self, raw: Tensor, row: Row) -> Tensor:
        horizon, targets = self.settings.horizon, len(self.settings.targets)
        shaped = raw.reshape(-1, horizon, targets)
        return sigmoid(shaped) if self.settings.sigmoid else row.own[:, None, :] + shaped


def _stack(tensors: Iterator[Tensor]) -> tuple[Gru, ...]:
    return tuple(Gru(next(tensors), next(tensors), next(tensors)) for _ in range(LAYERS))


def _advance(layers: Sequence[Gru], state: NetState, value: Tensor, present: Tensor) -> tuple[NetState, Tensor]:
    """The states after a step, and the output of the last layer."""
    after = []
    for layer, before in zip(layers, state, strict=True):
        value = layer(before, value, present)
        after.append(value)
    return tuple(after), value


def _pooled(each: Tensor, present: Tensor) -> Tensor:
    """Mean and maximum over the present workers; zeros when there is none."""
    mean = np.where(present, each, 0.0).sum(axis=0) / max(int(present.sum()), 1)
    highest = np.where(present, each, _LOWEST).max(axis=0)
    return np.concatenate([mean, highest if present.any() else np.zeros_like(highest)])
