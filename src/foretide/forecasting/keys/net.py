"""A GRU encoder-decoder with attention for the shares of keys (aj-stream), and its training.

It departs from the paper in one thing: the paper's net takes a whole histogram of known keys. Here every key goes
through the same small net on its own, and only the softmax at the end brings keys together. So keys that were never
seen can become hot, the number of keys does not matter, and each window teaches the net as many times as it has keys.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from foretide.forecasting.budget import TrainingBudget
from foretide.forecasting.nets import Affine, FittedNet, GruLayer, fit

FEATURES = 3
_BATCH = 8


class KeyTrainingSet(NamedTuple):
    """Examples (first axis): what each key did, its last logarithm of share, and shares in the windows after it.

    Shapes: (examples, lookback, keys, features), (examples, keys), (examples, horizon, keys). `train` and `held` count
    the examples for gradients and for validation.
    """

    inputs: Array
    last: Array
    ahead: Array
    train: Array
    held: Array


class KeyEncoderDecoder(eqx.Module):
    """The encoder reads a key's past; the decoder, attending to all of it, writes the changes to come."""

    encoder: GruLayer
    decoder: GruLayer
    query: Affine
    change: Affine
    horizon: int = eqx.field(static=True)

    def __init__(self, hidden: int, horizon: int, *, key: Array) -> None:
        keys = jax.random.split(key, 4)
        self.encoder = GruLayer(FEATURES, hidden, key=keys[0])
        self.decoder = GruLayer(1, hidden, key=keys[1])
        self.query = Affine(hidden, hidden, key=keys[2])
        self.change = Affine(2 * hidden, 1, key=keys[3], quiet=True)
        self.horizon = horizon

    def __call__(self, inputs: Array, last: Array) -> Array:
        """Logits (horizon x keys) from the past of some keys (lookback x keys x features) and their last logits."""
        everyone = jnp.ones(inputs.shape[:2], dtype=bool)
        state, memories = self.encoder(jnp.zeros((inputs.shape[1], self.encoder.hidden)), inputs, everyone)

        def decode(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], Array]:
            state, change, level = carry
            state, _states = self.decoder(state, change[None], everyone[:1])
            score = jnp.einsum("lkh,kh->lk", memories, self.query(state)) * state.shape[-1] ** -0.5
            context = jnp.einsum("lk,lkh->kh", jax.nn.softmax(score, axis=0), memories)
            change = self.change(jnp.concatenate([state, context], axis=-1))
            level = level + change[:, 0]
            return (state, change, level), level

        start = (state, jnp.zeros((inputs.shape[1], 1)), last)
        logits: Array = jax.lax.scan(decode, start, None, length=self.horizon)[1]
        return logits


def train_keys(
    hidden: int, data: KeyTrainingSet, budget: TrainingBudget, key: Array, warm: KeyEncoderDecoder | None = None
) -> FittedNet[KeyEncoderDecoder]:
    """The best net by its cross-entropy on what is held back."""
    horizon = data.ahead.shape[1]

    def make(each: Array) -> KeyEncoderDecoder:
        return KeyEncoderDecoder(hidden, horizon, key=each)

    return fit(make, batch_loss, held_loss, data, budget, key, warm)


def batch_loss(net: KeyEncoderDecoder, data: KeyTrainingSet, key: Array) -> Array:
    """Cross-entropy of some training examples, drawn by the key."""
    which = jax.random.choice(key, len(data.inputs), (_BATCH,), p=data.train / data.train.sum())
    chosen = (data.inputs[which], data.last[which], data.ahead[which])
    return jnp.mean(jax.vmap(lambda *one: _cross_entropy(net, *one))(*chosen))


def held_loss(net: KeyEncoderDecoder, data: KeyTrainingSet) -> Array:
    """Cross-entropy of the examples that are held back."""
    each: Array = jax.lax.map(lambda one: _cross_entropy(net, *one), (data.inputs, data.last, data.ahead))
    return (each * data.held).sum() / data.held.sum()


@jax.jit
def foreseen(net: KeyEncoderDecoder, inputs: Array, last: Array) -> Array:
    """Shares (horizon x keys) of the windows ahead."""
    return jax.nn.softmax(net(inputs, last), axis=-1)


def _cross_entropy(net: KeyEncoderDecoder, inputs: Array, last: Array, ahead: Array) -> Array:
    return -(ahead * jax.nn.log_softmax(net(inputs, last), axis=-1)).sum(axis=-1).mean()
