"""The encoder-decoder of `key_net` as JAX trains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.key_models import MAX_ERRORS, SCORED_KEYS
from foretide.forecasting.key_net import BLOCKS, FEATURES, Example, predicted_shares
from foretide.forecasting.nets import Affine, GruLayer, Seed, fit, seeded, weights_of, with_weights
from foretide.forecasting.settings import KeyNetSettings

_BATCH = 8


class KeyTrainingSet(NamedTuple):
    """Examples (first axis): the features of each key, the logarithms of its last share, and its next shares.

    Shapes: (examples, lookback, keys, features), (examples, keys), (examples, horizon, keys). `train` and `held` are
    the weights of the examples for gradients and for validation.
    """

    inputs: Array
    last: Array
    ahead: Array
    train: Array
    held: Array


class KeyEncoderDecoder(eqx.Module):
    """The encoder reads the past of a key; the decoder attends to all of it and predicts the next changes.

    Attention is additive, as in equations 9 to 11 of aj-stream.
    """

    encoder: GruLayer
    decoder: GruLayer
    of_memory: Array
    of_state: Array
    score: Array
    change: Affine
    horizon: int = eqx.field(static=True)

    def __init__(self, hidden: int, horizon: int, *, key: Array) -> None:
        keys = jax.random.split(key, 6)
        bound = hidden**-0.5
        self.encoder = GruLayer(FEATURES, hidden, key=keys[0])
        self.decoder = GruLayer(1, hidden, key=keys[1])
        shapes = ((hidden, hidden), (hidden, hidden), (hidden,))
        self.of_memory, self.of_state, self.score = (
            jax.random.uniform(each, shape, minval=-bound, maxval=bound)
            for each, shape in zip(keys[2:5], shapes, strict=True)
        )
        self.change = Affine(2 * hidden, 1, key=keys[5], quiet=True)
        self.horizon = horizon

    def __call__(self, inputs: Array, last: Array) -> Array:
        """Logits (horizon x keys) from the past of some keys (lookback x keys x features) and their last logits."""
        present = jnp.ones(inputs.shape[:2], dtype=bool)
        state, memories = self.encoder(jnp.zeros((inputs.shape[1], self.encoder.hidden)), inputs, present)

        def decode(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], Array]:
            state, change, level = carry
            state, _states = self.decoder(state, change[None], present[:1])
            score = jnp.tanh(memories @ self.of_memory + state @ self.of_state) @ self.score
            context = jnp.einsum("lk,lkh->kh", jax.nn.softmax(score, axis=0), memories)
            change = self.change(jnp.concatenate([state, context], axis=-1))
            level = level + change[:, 0]
            return (state, change, level), level

        start = (state, jnp.zeros((inputs.shape[1], 1)), last)
        logits: Array = jax.lax.scan(decode, start, None, length=self.horizon)[1]
        return logits


def batch_loss(net: KeyEncoderDecoder, data: KeyTrainingSet, key: Array) -> Array:
    """Cross-entropy of some training examples, drawn by the key."""
    which = jax.random.choice(key, len(data.inputs), (_BATCH,), p=data.train / data.train.sum())
    chosen = (data.inputs[which], data.last[which], data.ahead[which])
    return jnp.mean(jax.vmap(lambda *one: _cross_entropy(net, *one))(*chosen))


def held_loss(net: KeyEncoderDecoder, data: KeyTrainingSet) -> Array:
    """Cross-entropy of the held-out examples."""
    each: Array = jax.lax.map(lambda one: _cross_entropy(net, *one), (data.inputs, data.last, data.ahead))
    return (each * data.held).sum() / data.held.sum()


def _cross_entropy(net: KeyEncoderDecoder, inputs: Array, last: Array, ahead: Array) -> Array:
    return -(ahead * jax.nn.log_softmax(net(inputs, last), axis=-1)).sum(axis=-1).mean()


def train(
    settings: KeyNetSettings, examples: Sequence[Example], seed: Seed, before: Sequence[Floats] | None
) -> tuple[list[Floats], list[float]]:
    """The weights after training, from those `before` if there are some, and the errors on what was held out."""
    data = training_set(examples, settings)

    def new(key: Array) -> KeyEncoderDecoder:
        return KeyEncoderDecoder(settings.hidden, settings.horizon, key=key)

    warm = () if before is None else (with_weights(new(jax.random.key(0)), before),)
    ((net, _),) = fit(new, batch_loss, held_loss, data, settings.budget, seeded(seed), warm)
    weights = weights_of(net)
    return weights, held_errors(weights, data)


def training_set(examples: Sequence[Example], settings: KeyNetSettings) -> KeyTrainingSet:
    """Examples as arrays; the end of each eighth is held out, and examples that overlap with it are left out."""
    inputs, last, ahead = (np.stack(each) for each in zip(*examples, strict=True))
    at = np.arange(len(examples) + settings.horizon)
    held = at * BLOCKS / len(examples) % 1 >= 1 - settings.budget.validation
    looks_in = np.stack([held[far : far + len(examples)] for far in range(settings.horizon)]).any(axis=0)
    arrays = (inputs, last, ahead, ~looks_in, held[: len(examples)])
    return KeyTrainingSet(*(jnp.asarray(each, dtype=jnp.float32) for each in arrays))


def held_errors(weights: Sequence[Any], data: KeyTrainingSet) -> list[float]:
    """The errors one window ahead on the held-out examples, for the most frequent keys."""
    errors: list[float] = []
    for at in np.flatnonzero(np.asarray(data.held)):
        inputs, last = np.asarray(data.inputs[at]), np.asarray(data.last[at])
        expected, truth = predicted_shares(weights, inputs, last, 1)[0], np.asarray(data.ahead[at][0])
        errors += (np.sqrt(truth) - np.sqrt(expected))[:SCORED_KEYS].tolist()
    return errors[-MAX_ERRORS:]
