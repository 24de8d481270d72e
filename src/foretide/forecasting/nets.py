"""Parts of all nets: stacked GRU layers, a training loop with early stopping, and weights as plain arrays.

Imports JAX, so modules that work without the extra `forecast` import it inside functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from jax import Array

from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import Floats
from foretide.forecasting.settings import TrainingBudget

Net = TypeVar("Net", bound=eqx.Module)
_SMOOTHING = 0.97


def _optimizer(rate: Array | float, decay: Array | float) -> Any:
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=decay))


class GruLayer(eqx.Module):
    """A GRU over a sequence, for any number of rows side by side.

    The reset gate acts after the recurrent weights, as in most libraries (the paper: before them), so that one product
    per step serves all gates. The contribution of the inputs is computed for all steps at once.
    """

    enter: Array
    recur: Array
    bias: Array
    hidden: int = eqx.field(static=True)

    def __init__(self, inputs: int, hidden: int, *, key: Array) -> None:
        first, second = jax.random.split(key)
        bound = hidden**-0.5
        self.enter = jax.random.uniform(first, (inputs, 3 * hidden), minval=-bound, maxval=bound)
        self.recur = jax.random.uniform(second, (hidden, 3 * hidden), minval=-bound, maxval=bound)
        self.bias = jnp.zeros(3 * hidden)
        self.hidden = hidden

    def __call__(self, state: Array, inputs: Array, present: Array) -> tuple[Array, Array]:
        """The last state, and the states after each step; a row keeps its state where it is not present.

        Shapes: state (rows, hidden), inputs (steps, rows, features), present (steps, rows).
        """

        def step(before: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            entered, is_present = now
            reset, update, new = jnp.split(entered, 3, axis=-1)
            reset_too, update_too, new_too = jnp.split(before @ self.recur, 3, axis=-1)
            gate = jax.nn.sigmoid(update + update_too)
            candidate = jnp.tanh(new + jax.nn.sigmoid(reset + reset_too) * new_too)
            after = jnp.where(is_present[:, None], before + gate * (candidate - before), before)
            return after, after

        return jax.lax.scan(step, state, (inputs @ self.enter + self.bias, present))


class GruStack(eqx.Module):
    """Stacked GRU layers; the state has an entry for each."""

    layers: tuple[GruLayer, ...]

    def __init__(self, inputs: int, hidden: int, layers: int, *, key: Array) -> None:
        sizes = (inputs, *[hidden] * (layers - 1))
        keys = jax.random.split(key, layers)
        self.layers = tuple(GruLayer(size, hidden, key=each) for size, each in zip(sizes, keys, strict=True))

    def start(self, rows: int) -> tuple[Array, ...]:
        """The state before anything was seen."""
        return tuple(jnp.zeros((rows, layer.hidden)) for layer in self.layers)

    def __call__(self, state: tuple[Array, ...], inputs: Array, present: Array) -> tuple[tuple[Array, ...], Array]:
        """The last state, and the output of the last layer after each step."""
        states = []
        for layer, before in zip(self.layers, state, strict=True):
            after, inputs = layer(before, inputs, present)
            states.append(after)
        return tuple(states), inputs


class Affine(eqx.Module):
    """Weights and a bias on the last axis.

    A `quiet` one returns 0 before training: a net that adds to the last value then starts from that value.
    """

    weight: Array
    bias: Array

    def __init__(self, inputs: int, outputs: int, *, key: Array, quiet: bool = False) -> None:
        bound = 0.0 if quiet else max(inputs, 1) ** -0.5
        self.weight = jax.random.uniform(key, (inputs, outputs), minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)

    def __call__(self, value: Array) -> Array:
        """The output for each row."""
        return value @ self.weight + self.bias


Seed = tuple[int, int]
"""The seed of a forecaster, and the number of its training."""


def seeded(seed: Seed) -> Array:
    """The random key of a training."""
    return jax.random.fold_in(jax.random.key(seed[0]), seed[1])


Loss = Callable[[Any, Any, Array], Array]
"""Net, data and a random key in; the loss of one gradient step out. No closure, so that it compiles once."""

Score = Callable[[Any, Any], Array]
"""Net and data in; the loss on the validation share out."""


def fit(
    make: Callable[[Array], Net],
    loss: Loss,
    score: Score,
    data: Any,
    budget: TrainingBudget,
    key: Array,
    warm: Sequence[Net] = (),
) -> list[tuple[Net, float]]:
    """The nets with the lowest validation losses among several seeds, or `warm` nets trained further, with the losses.

    The lowest is first.
    """
    trained = []
    for at, each in enumerate(jax.random.split(key, len(warm) or budget.seeds)):
        initial, draws = jax.random.split(each)
        trained.append(_trained(warm[at] if warm else make(initial), loss, score, data, budget, draws))
    return sorted(trained, key=lambda one: one[1])[: budget.kept]


def _trained(net: Net, loss: Loss, score: Score, data: Any, budget: TrainingBudget, key: Array) -> tuple[Net, float]:
    """The best net of all epochs, and its validation loss.

    The initial weights are a candidate at the end, so training never makes a net worse; but they do not count for the
    patience, because a net may have to get worse than the last value before it gets better.
    """
    values, fixed = eqx.partition(net, eqx.is_inexact_array)
    memory, smooth = _optimizer(budget.rate, budget.decay).init(values), values
    before = (float(_score(values, fixed, data, score)), 0, values)
    best = (math.inf, 0, values)
    for epoch, keys in enumerate(jax.random.split(key, (budget.epochs, budget.steps)), start=1):
        rate = budget.rate * (0.55 + 0.45 * math.cos(math.pi * epoch / budget.epochs))
        for each in keys:
            pace = jnp.array([rate, budget.decay])
            values, smooth, memory = _step(values, smooth, fixed, memory, data, each, pace, loss)
        found = float(_score(smooth, fixed, data, score))
        if found < best[0]:
            best = (found, epoch, smooth)
        elif epoch - best[1] >= budget.patience:
            break
    lowest, _, values = min(before, best, key=lambda one: one[0])
    joined: Net = eqx.combine(values, fixed)
    return joined, lowest


def weights_of(net: eqx.Module) -> list[Floats]:
    """The weights as plain arrays, in the order of the tree."""
    return [np.asarray(leaf, dtype=np.float64) for leaf in jax.tree.leaves(eqx.filter(net, eqx.is_inexact_array))]


def with_weights(net: Net, weights: Sequence[Floats]) -> Net:
    """The net with other weights; raises `ModelFolderError` when their shapes differ."""
    values, fixed = eqx.partition(net, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(values)
    if [leaf.shape for leaf in leaves] != [np.shape(each) for each in weights]:
        raise ModelFolderError("the saved weights are those of another net; train a new one")
    loaded = [jnp.asarray(each, dtype=leaf.dtype) for each, leaf in zip(weights, leaves, strict=True)]
    joined: Net = eqx.combine(jax.tree.unflatten(tree, loaded), fixed)
    return joined


@eqx.filter_jit
def _step(
    values: Any, smooth: Any, fixed: Any, memory: Any, data: Any, key: Array, pace: Array, loss: Loss
) -> tuple[Any, Any, Any]:
    """One gradient step of Adam with weight decay, and the running mean of the weights.

    Single steps are noisy where bursts make gradients large; their running mean is validated and kept. `pace` (rate
    and decay) is an argument, so that another budget needs no compilation.
    """
    slope = jax.grad(lambda each: loss(eqx.combine(each, fixed), data, key))(values)
    update, memory = _optimizer(pace[0], pace[1]).update(slope, memory, values)
    values = optax.apply_updates(values, update)
    smooth = jax.tree.map(lambda mean, value: _SMOOTHING * mean + (1 - _SMOOTHING) * value, smooth, values)
    return values, smooth, memory


@eqx.filter_jit
def _score(values: Any, fixed: Any, data: Any, score: Score) -> Array:
    return score(eqx.combine(values, fixed), data)
