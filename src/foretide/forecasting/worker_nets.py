"""Three nets for the workers of one machine: aware of interference, plain, and flat.

They are for training; `worker_steps` forecasts with their weights.

Each takes a state and some steps of a machine, and returns the last state and, for each of those steps, the scaled
targets of every worker in the steps after it. Workers have slots in arrays of a fixed size; a mask says which of them
are present, and an absent worker keeps its state.

`InterferenceNet` is the two-tier net of predictive-control. Where it departs, and why:

- The paper feeds tier 1 the features of all workers side by side. Here each worker's features pass one shared small
  layer, and tier 1 sees their mean and maximum. So any number of workers fits, their order does not matter, and an
  hour of history is enough to learn from.
- The paper ends in a sigmoid. With `sigmoid=False` the net predicts the change from the last value instead, which is
  easier to learn and not confined to the range of the training data.
- The paper's tier 2 sees a worker's own targets only. Unless `targets_only`, it sees all of the worker's own features:
  what arrives at a worker says more about its next step than its last values do.
- Several steps ahead come from heads of their own, one for each step, not by feeding forecasts back.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from foretide.forecasting.nets import Affine, GruStack
from foretide.forecasting.settings import WorkerNetSettings
from foretide.forecasting.worker_steps import LAYERS

INTERFERENCE = 3
_EMBEDDING = 8
_LOWEST = -1.0  # of a hyperbolic tangent


NetState = tuple[Array, ...]
"""The hidden state of a net, layer by layer."""


class Seen(NamedTuple):
    """Steps of a machine, scaled: its features, those of its workers, their targets, and who is present.

    Shapes: (steps, features), (steps, slots, features), (steps, slots, targets), (steps, slots). Targets are not
    clipped: changes start from them.
    """

    machine: Array
    workers: Array
    own: Array
    present: Array


class NetSizes(NamedTuple):
    """The sizes of a net. `slots` matters only for the flat net."""

    machine: int
    worker: int
    targets: int
    horizon: int
    slots: int
    hidden: int


class Head(eqx.Module):
    """From the hidden state of each row to the targets of each step ahead."""

    layer: Affine
    shape: tuple[int, int] = eqx.field(static=True)
    sigmoid: bool = eqx.field(static=True)

    def __init__(self, sizes: NetSizes, *, sigmoid: bool, key: Array) -> None:
        self.shape, self.sigmoid = (sizes.horizon, sizes.targets), sigmoid
        self.layer = Affine(sizes.hidden + sizes.targets, sizes.horizon * sizes.targets, key=key, quiet=True)

    def __call__(self, memory: Array, own: Array) -> Array:
        """The targets after each step."""
        known = jnp.concatenate([memory, clipped(own)], axis=-1)
        prediction = self.layer(known).reshape(*own.shape[:-1], *self.shape)
        return jax.nn.sigmoid(prediction) if self.sigmoid else own[..., None, :] + prediction


class InterferenceNet(eqx.Module):
    """Tier 1 turns a machine and all its workers into three numbers; tier 2 sees those and one worker."""

    embed: Affine
    tier_1: GruStack
    squeeze: Affine
    tier_2: GruStack
    head: Head
    targets_only: bool = eqx.field(static=True)

    def __init__(self, sizes: NetSizes, *, sigmoid: bool, targets_only: bool, key: Array) -> None:
        keys = jax.random.split(key, 5)
        own = sizes.targets if targets_only else sizes.worker
        self.embed = Affine(sizes.worker, _EMBEDDING, key=keys[0])
        self.tier_1 = GruStack(sizes.machine + 2 * _EMBEDDING, sizes.hidden, LAYERS, key=keys[1])
        self.squeeze = Affine(sizes.hidden, INTERFERENCE, key=keys[2])
        self.tier_2 = GruStack(INTERFERENCE + own, sizes.hidden, LAYERS, key=keys[3])
        self.head = Head(sizes, sigmoid=sigmoid, key=keys[4])
        self.targets_only = targets_only

    def start(self, slots: int) -> NetState:
        """The state before anything was seen."""
        return self.tier_1.start(1) + self.tier_2.start(slots)

    def __call__(self, state: NetState, seen: Seen) -> tuple[NetState, Array]:
        """The last state, and the predictions after each step."""
        machine, workers = state[:LAYERS], state[LAYERS:]
        pooled = _pooled(jnp.tanh(self.embed(seen.workers)), seen.present)
        around = jnp.concatenate([seen.machine, pooled], axis=-1)[:, None]
        machine, memory = self.tier_1(machine, around, jnp.ones(around.shape[:2], dtype=bool))
        interference = jnp.tanh(self.squeeze(memory))
        own = clipped(seen.own) if self.targets_only else seen.workers
        everywhere = jnp.broadcast_to(interference, (*own.shape[:2], INTERFERENCE))
        workers, memories = self.tier_2(workers, jnp.concatenate([everywhere, own], axis=-1), seen.present)
        return machine + workers, self.head(memories, seen.own)


class PlainNet(eqx.Module):
    """Sees a worker's own features and nothing of its neighbours; weights shared by all workers."""

    layers: GruStack
    head: Head

    def __init__(self, sizes: NetSizes, *, sigmoid: bool, key: Array) -> None:
        first, second = jax.random.split(key)
        self.layers = GruStack(sizes.worker, sizes.hidden, LAYERS, key=first)
        self.head = Head(sizes, sigmoid=sigmoid, key=second)

    def start(self, slots: int) -> NetState:
        """The state before anything was seen."""
        return self.layers.start(slots)

    def __call__(self, state: NetState, seen: Seen) -> tuple[NetState, Array]:
        """The last state, and the predictions after each step."""
        state, memories = self.layers(state, seen.workers, seen.present)
        return state, self.head(memories, seen.own)


class FlatNet(eqx.Module):
    """Sees the machine and all its workers side by side, and predicts all slots at once (figure 2 of the paper)."""

    layers: GruStack
    head: Affine
    shape: tuple[int, int, int] = eqx.field(static=True)
    sigmoid: bool = eqx.field(static=True)

    def __init__(self, sizes: NetSizes, *, sigmoid: bool, key: Array) -> None:
        first, second = jax.random.split(key)
        self.shape, self.sigmoid = (sizes.slots, sizes.horizon, sizes.targets), sigmoid
        self.layers = GruStack(sizes.machine + sizes.slots * sizes.worker, sizes.hidden, LAYERS, key=first)
        self.head = Affine(sizes.hidden, sizes.slots * sizes.horizon * sizes.targets, key=second, quiet=True)

    def start(self, slots: int) -> NetState:  # noqa: ARG002 - one state for the whole machine
        """The state before anything was seen."""
        return self.layers.start(1)

    def __call__(self, state: NetState, seen: Seen) -> tuple[NetState, Array]:
        """The last state, and the predictions after each step."""
        masked = jnp.where(seen.present[..., None], seen.workers, 0.0).reshape(len(seen.machine), -1)
        side_by_side = jnp.concatenate([seen.machine, masked], axis=-1)[:, None]
        state, memory = self.layers(state, side_by_side, jnp.ones(side_by_side.shape[:2], dtype=bool))
        prediction = self.head(memory).reshape(-1, *self.shape)
        return state, jax.nn.sigmoid(prediction) if self.sigmoid else seen.own[..., None, :] + prediction


WorkerNet = InterferenceNet | PlainNet | FlatNet


def clipped(scaled: Array) -> Array:
    """Bound the inputs, so that bursts do not saturate the gates."""
    return jnp.clip(scaled, -1.0, 2.0)


def _pooled(each: Array, present: Array) -> Array:
    """Mean and maximum over the present workers; zeros when there is none."""
    mask = present[..., None]
    mean = jnp.where(mask, each, 0.0).sum(axis=1) / jnp.maximum(mask.sum(axis=1), 1)
    highest = jnp.where(mask, each, _LOWEST).max(axis=1)
    return jnp.concatenate([mean, jnp.where(mask.any(axis=1), highest, 0.0)], axis=-1)


def make(settings: WorkerNetSettings, sizes: NetSizes, key: Array) -> WorkerNet:
    """A net that has learnt nothing yet."""
    if settings.net == "plain":
        return PlainNet(sizes, sigmoid=settings.sigmoid, key=key)
    if settings.net == "flat":
        return FlatNet(sizes, sigmoid=settings.sigmoid, key=key)
    return InterferenceNet(sizes, sigmoid=settings.sigmoid, targets_only=settings.targets_only, key=key)


def run(net: WorkerNet, seen: Seen) -> tuple[NetState, Array]:
    """From a cold start over a whole history: the state at its end, and the predictions at every step."""
    return net(net.start(seen.present.shape[1]), seen)
