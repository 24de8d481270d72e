"""Forecasts of key frequencies by a GRU encoder-decoder with attention (aj-stream).

One departure from the paper: its net takes a whole histogram of known keys. Here each key passes through the same small
net on its own, and only the final softmax brings keys together. So a key that was never seen can become hot, the number
of keys does not matter, and each window is as many training examples as it has keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from foretide.errors import EnvironmentNotReadyError, NotEnoughHistoryError
from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.key_models import MAX_ERRORS, SCORED_KEYS, Key, KeyEwma, KeyModel, Shares
from foretide.forecasting.settings import MISSING_PACKAGES, KeyNetSettings

try:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from jax import Array

    from foretide.forecasting.nets import Affine, GruLayer, fit, weights_of, with_weights
except ImportError as missing:
    raise EnvironmentNotReadyError(MISSING_PACKAGES) from missing

_BATCH = 8
_FADING = 0.85
_COUNT_OFFSET = 0.5  # added to a count before its logarithm is taken
_BLOCKS = 8
FEATURES = 3


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
    """The encoder reads the past of a key; the decoder attends to all of it and predicts the next changes."""

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
        present = jnp.ones(inputs.shape[:2], dtype=bool)
        state, memories = self.encoder(jnp.zeros((inputs.shape[1], self.encoder.hidden)), inputs, present)

        def decode(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], Array]:
            state, change, level = carry
            state, _states = self.decoder(state, change[None], present[:1])
            score = jnp.einsum("lkh,kh->lk", memories, self.query(state)) * state.shape[-1] ** -0.5
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


@jax.jit
def predicted_shares(net: KeyEncoderDecoder, inputs: Array, last: Array) -> Array:
    """Shares (horizon x keys) of the windows ahead."""
    return jax.nn.softmax(net(inputs, last), axis=-1)


def _cross_entropy(net: KeyEncoderDecoder, inputs: Array, last: Array, ahead: Array) -> Array:
    return -(ahead * jax.nn.log_softmax(net(inputs, last), axis=-1)).sum(axis=-1).mean()


class KeyNet(KeyModel):
    """Forecasts by the encoder-decoder, trained when training is due. The seed determines all randomness."""

    name: ClassVar[str] = "key-net"

    def __init__(self, seed: int, settings: KeyNetSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or KeyNetSettings()
        self.seed = seed
        self.trainings = 0
        self._since = 0
        self._windows: list[dict[Key, float]] = []
        self._ewma = KeyEwma()
        self._net: KeyEncoderDecoder | None = None

    def retrain(self) -> None:
        """Train on all remembered windows, from the present weights."""
        steps = range(1, len(self._windows) - self.settings.horizon + 1)
        if len(steps) < _BLOCKS:
            raise NotEnoughHistoryError(f"{len(self._windows)} windows are too few to train on")
        data = _training_set([self._example(end) for end in steps], self.settings)
        key = jax.random.fold_in(jax.random.key(self.seed), self.trainings)
        warm = () if self._net is None else (self._net,)
        ((self._net, _),) = fit(self._new_net, batch_loss, held_loss, data, self.settings.budget, key, warm)
        self._errors = _held_errors(self._net, data)
        self.trainings += 1
        self._since = 0

    def learn(self, seen: Sequence[Mapping[Key, float] | None]) -> None:
        """Learn windows, oldest first; None is one that was not counted. Trains when training is due."""
        super().learn(seen)
        due = self.settings.first_training if self._net is None else self.settings.retrain_every
        if 0 < due <= self._since and len(self._windows) > self.settings.horizon + _BLOCKS:
            self.retrain()

    def _take(self, window: dict[Key, float]) -> None:
        self._windows = [*self._windows, window][-self.settings.keep :]
        self._ewma.learn([window])
        self._since += 1

    def _ahead(self, horizon: int) -> list[Shares]:
        if self._net is None:
            return self._ewma._ahead(horizon)  # noqa: SLF001 - the same kind of model
        past = self._windows[-self.settings.lookback :]
        keys = _candidates(past, self.settings.candidates)
        inputs, last = _inputs(_counts(past, keys, self.settings.candidates), self.settings.lookback)
        shares = np.asarray(predicted_shares(self._net, jnp.asarray(inputs), jnp.asarray(last)), dtype=np.float64)
        rows = [dict(zip(keys, row.tolist(), strict=False)) for row in shares]
        return [rows[min(far, len(rows) - 1)] for far in range(horizon)]

    def _own_state(self) -> dict[str, Any]:
        keys = list({key: None for window in self._windows for key in window})
        place = {key: at for at, key in enumerate(keys)}
        entries = [(at, place[key], count) for at, window in enumerate(self._windows) for key, count in window.items()]
        ewma = {f"ewma_{name}": value for name, value in self._ewma.state().items()}
        weights = {} if self._net is None else {f"weight{at:02}": w for at, w in enumerate(weights_of(self._net))}
        numbers = {"seed": self.seed, "trainings": self.trainings, "since": self._since}
        history = {"keys": keys, "entries": np.array(entries).reshape(-1, 3), "windows": len(self._windows)}
        return numbers | history | ewma | weights

    def _restore_own(self, state: State) -> None:
        self.seed, self.trainings, self._since = int(state["seed"]), int(state["trainings"]), int(state["since"])
        self._windows = [{} for _ in range(int(state["windows"]))]
        for window, key, count in np.asarray(state["entries"]).tolist():
            self._windows[int(window)][state["keys"][int(key)]] = count
        ewma = {name: each for name, each in state.items() if name.startswith("ewma_")}
        self._ewma.restore({name.removeprefix("ewma_"): each for name, each in ewma.items()})
        weights = [np.asarray(state[name]) for name in sorted(state) if name.startswith("weight")]
        self._net = with_weights(self._new_net(jax.random.key(0)), weights) if weights else None

    def _new_net(self, key: Array) -> KeyEncoderDecoder:
        return KeyEncoderDecoder(self.settings.hidden, self.settings.horizon, key=key)

    def _example(self, end: int) -> tuple[Floats, Floats, Floats]:
        """The inputs before window `end`, and the shares of the windows from there on."""
        past = self._windows[max(0, end - self.settings.lookback) : end]
        keys = _candidates(past, self.settings.candidates)
        later = _counts(self._windows[end : end + self.settings.horizon], keys, self.settings.candidates)
        inputs, last = _inputs(_counts(past, keys, self.settings.candidates), self.settings.lookback)
        return inputs, last, later / later.sum(axis=1, keepdims=True)


def _training_set(examples: Sequence[tuple[Floats, Floats, Floats]], settings: KeyNetSettings) -> KeyTrainingSet:
    """Examples as arrays; the end of each eighth is held out, and examples that overlap with it are left out."""
    inputs, last, ahead = (np.stack(each) for each in zip(*examples, strict=True))
    at = np.arange(len(examples) + settings.horizon)
    held = at * _BLOCKS / len(examples) % 1 >= 1 - settings.budget.validation
    looks_in = np.stack([held[far : far + len(examples)] for far in range(settings.horizon)]).any(axis=0)
    arrays = (inputs, last, ahead, ~looks_in, held[: len(examples)])
    return KeyTrainingSet(*(jnp.asarray(each, dtype=jnp.float32) for each in arrays))


def _held_errors(net: KeyEncoderDecoder, data: KeyTrainingSet) -> list[float]:
    """The errors one window ahead on the held-out examples, for the most frequent keys."""
    errors: list[float] = []
    for at in np.flatnonzero(np.asarray(data.held)):
        expected, truth = predicted_shares(net, data.inputs[at], data.last[at])[0], data.ahead[at][0]
        errors += np.asarray(jnp.sqrt(truth) - jnp.sqrt(expected))[:SCORED_KEYS].tolist()
    return errors[-MAX_ERRORS:]


def _candidates(past: Sequence[Mapping[Key, float]], count: int) -> list[Key]:
    """The most frequent recent keys; the weight of a window fades with its age."""
    weight: dict[Key, float] = {}
    for age, window in enumerate(reversed(past)):
        total = sum(window.values())
        for key, seen in window.items():
            weight[key] = weight.get(key, 0.0) + _FADING**age * seen / total
    return sorted(weight, key=lambda key: (-weight[key], str(key)))[:count]


def _counts(windows: Sequence[Mapping[Key, float]], keys: Sequence[Key], places: int) -> Floats:
    """Counts (windows x places + 1): one column for each key, empty ones, and a last one for all other keys."""
    table = np.zeros((len(windows), places + 1))
    for row, window in zip(table, windows, strict=True):
        row[: len(keys)] = [window.get(key, 0.0) for key in keys]
        row[-1] = max(sum(window.values()) - row.sum(), 0.0)
    return table


def _inputs(counts: Floats, lookback: int) -> tuple[Floats, Floats]:
    """Features (lookback x keys x 3) and last logits of counts (windows x keys); missing windows are zeros.

    The features of a key are the logarithm of its share, its change up to the last window, and the logarithm of its
    count, which measures how reliable a share is. All are scaled by constants that suit any stream.
    """
    logs = np.log((counts + _COUNT_OFFSET) / (counts.sum(axis=1, keepdims=True) + _COUNT_OFFSET * counts.shape[1]))
    features = np.stack([(logs + 5) / 3, logs - logs[-1], np.log1p(counts) / 5], axis=-1)
    padded = np.zeros((lookback, counts.shape[1], FEATURES))
    padded[lookback - len(counts) :] = features
    return padded.astype(np.float32), logs[-1].astype(np.float32)
