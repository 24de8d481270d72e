"""The layers of nets in NumPy, with the weights of those in `nets`: forecasts need no JAX, only training does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[Any]
"""Weights and states, in single precision, and masks."""


@dataclass(frozen=True, slots=True)
class Affine:
    """Weights and a bias on the last axis."""

    weight: Tensor
    bias: Tensor

    def __call__(self, value: Tensor) -> Tensor:
        """The output for each row."""
        result: Tensor = value @ self.weight + self.bias
        return result


@dataclass(frozen=True, slots=True)
class Gru:
    """One step of `nets.GruLayer`."""

    enter: Tensor
    recur: Tensor
    bias: Tensor

    def __call__(self, state: Tensor, value: Tensor, present: Tensor) -> Tensor:
        """The next state; a row keeps its state where it is not present."""
        reset, update, new = np.split(value @ self.enter + self.bias, 3, axis=-1)
        reset_too, update_too, new_too = np.split(state @ self.recur, 3, axis=-1)
        candidate = np.tanh(new + sigmoid(reset + reset_too) * new_too)
        moved: Tensor = np.where(present, state + sigmoid(update + update_too) * (candidate - state), state)
        return moved


def sigmoid(value: Tensor) -> Tensor:
    """The logistic function."""
    result: Tensor = 0.5 * (1.0 + np.tanh(0.5 * value))
    return result
