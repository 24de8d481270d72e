"""A small neural net on lags (pa-sps: ANN), trained by JAX, Equinox and Optax.

Training stops when a validation share, the latest rows, no longer gets better. A later fit continues from the weights
of the last one. Once trained it is a few matrix products, so forecasting needs NumPy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.load.lags import LagModel, missing_extra

_BATCH = 256
_VALIDATION = 0.15

Layers = tuple[tuple[Floats, Floats], ...]


class NeuralNet(LagModel):
    """A multi-layer perceptron with one output a horizon, trained by absolute errors."""

    name: ClassVar[str] = "neural net"
    needs: ClassVar[tuple[str, ...]] = ("jax", "equinox", "optax")
    refit_every = 2000
    train_rows = 8000
    width = 48
    epochs = 60
    patience = 8
    rate = 2e-3

    def __init__(self, *args: Any, progress: Callable[[int, float], None] | None = None, **kwargs: Any) -> None:
        """Call `progress` with the epoch and the validation loss after each epoch."""
        super().__init__(*args, **kwargs)
        self._progress = progress
        self._layers: Layers = ()
        self._scale: tuple[Floats, Floats] = (np.zeros(0), np.ones(0))
        self.validation: list[float] = []

    @property
    def ready(self) -> bool:
        """Whether it has been trained."""
        return bool(self._layers)

    def regress(self, features: Floats, targets: Floats) -> None:
        """Train, from the weights of the last fit if they fit the features."""
        warm = bool(self._layers) and self._layers[0][0].shape[1] == features.shape[1]
        if not warm:
            self._scale = (features.mean(axis=0), features.std(axis=0) + 1e-2)
        scaled = self._scaled(features)
        held = max(1, math.ceil(_VALIDATION * len(scaled)))
        rng = np.random.default_rng([self.seed, self.fits])
        start = (
            self._layers
            if warm
            else _initial_layers(rng, (features.shape[1], self.width, self.width, targets.shape[1]))
        )
        train, check = (scaled[:-held], targets[:-held]), (scaled[-held:], targets[-held:])
        self._layers = self._trained(start, train, check, rng)

    def _trained(
        self, layers: Layers, train: tuple[Floats, Floats], check: tuple[Floats, Floats], rng: np.random.Generator
    ) -> Layers:
        try:
            start, step = _trainer(self.rate)
        except ImportError as error:
            raise missing_extra(self.name, error) from error
        carried = start(layers)
        best, best_loss, since = layers, _loss(layers, *check), 0
        self.validation = []
        for epoch in range(self.epochs):
            for rows in _batches(rng, len(train[0])):
                carried = step(carried, train[0][rows], train[1][rows])
            layers = _as_numpy(carried)
            loss = _loss(layers, *check)
            self.validation.append(loss)
            if self._progress is not None:
                self._progress(epoch, loss)
            since += 1
            if loss < best_loss:
                best, best_loss, since = layers, loss, 0
            if since >= self.patience:
                break
        return best

    def _scaled(self, features: Floats) -> Floats:
        return np.clip((features - self._scale[0]) / self._scale[1], -8.0, 8.0)

    def regressed(self, features: Floats) -> Floats:
        """A pass through the layers."""
        return _forward(self._layers, self._scaled(features))

    def fitted(self) -> dict[str, Any]:
        """The scaling and the weights."""
        found = super().fitted() | {"middle": self._scale[0], "scale": self._scale[1], "layers": len(self._layers)}
        for place, (weights, bias) in enumerate(self._layers):
            found |= {f"weights_{place}": weights, f"bias_{place}": bias}
        return found

    def restore_fitted(self, found: State) -> None:
        """Restore them."""
        super().restore_fitted(found)
        self._scale = (np.array(found["middle"]), np.array(found["scale"]))
        self._layers = tuple(
            (np.array(found[f"weights_{place}"]), np.array(found[f"bias_{place}"]))
            for place in range(int(found["layers"]))
        )


def _initial_layers(rng: np.random.Generator, sizes: tuple[int, ...]) -> Layers:
    """He initialisation; the last layer is zero, so that an untrained net forecasts the recent level."""
    layers = [(rng.normal(0.0, np.sqrt(2 / into), (out, into)), np.zeros(out)) for into, out in pairwise(sizes[:-1])]
    return (*layers, (np.zeros((sizes[-1], sizes[-2])), np.zeros(sizes[-1])))


def _forward(layers: Layers, rows: Floats) -> Floats:
    for weights, bias in layers[:-1]:
        rows = np.maximum(rows @ weights.T + bias, 0.0)
    result: Floats = rows @ layers[-1][0].T + layers[-1][1]
    return result


def _loss(layers: Layers, rows: Floats, targets: Floats) -> float:
    return float(np.abs(_forward(layers, rows) - targets).mean())


def _batches(rng: np.random.Generator, rows: int) -> list[Any]:
    """Batches of one size, so that JAX compiles once: the last one is filled with random rows."""
    order = rng.permutation(rows)
    surplus = -rows % _BATCH
    return np.split(np.concatenate([order, rng.integers(0, rows, surplus)]), (rows + surplus) // _BATCH)


@cache
def _trainer(rate: float) -> tuple[Callable[[Layers], Any], Callable[[Any, Floats, Floats], Any]]:
    """How training starts from some weights, and one step of it on a batch."""
    import equinox as eqx  # noqa: PLC0415 an extra
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415
    import optax  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=1e-3))

    def net_of(layers: Layers) -> Any:
        sizes = [layers[0][0].shape[1], *(len(bias) for _, bias in layers)]
        net: Any = eqx.nn.MLP(sizes[0], sizes[-1], sizes[1], len(layers) - 1, key=jax.random.key(0))
        given = [jnp.asarray(array, jnp.float32) for layer in layers for array in layer]
        return eqx.tree_at(lambda tree: [a for each in tree.layers for a in (each.weight, each.bias)], net, given)

    def loss(net: Any, rows: Any, targets: Any) -> Any:
        return jnp.abs(jax.vmap(net)(rows) - targets).mean()

    def start(layers: Layers) -> Any:
        net: Any = net_of(layers)
        return net, optimizer.init(eqx.filter(net, eqx.is_inexact_array))

    @eqx.filter_jit  # type: ignore[untyped-decorator,unused-ignore]
    def jitted(carried: Any, rows: Any, targets: Any) -> Any:
        net, memory = carried
        slope = eqx.filter_grad(loss)(net, rows, targets)  # type: ignore[no-untyped-call,unused-ignore]
        change, memory = optimizer.update(slope, memory, eqx.filter(net, eqx.is_inexact_array))
        return eqx.apply_updates(net, change), memory

    def step(carried: Any, rows: Floats, targets: Floats) -> Any:
        return jitted(carried, rows.astype(np.float32), targets.astype(np.float32))

    return start, step


def _as_numpy(carried: Any) -> Layers:
    net = carried[0]
    return tuple((np.asarray(each.weight, np.float64), np.asarray(each.bias, np.float64)) for each in net.layers)
