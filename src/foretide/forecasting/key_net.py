"""Forecasts of key frequencies by a GRU encoder-decoder with attention (aj-stream). Only training needs JAX.

One departure from the paper: its net takes a whole histogram of known keys. Here each key passes through the same small
net on its own, and only the final softmax brings keys together. So a key that was never seen can become hot, the number
of keys does not matter, and each window is as many training examples as it has keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from foretide.errors import EnvironmentNotReadyError, ModelFolderError, NotEnoughHistoryError
from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.key_models import Key, KeyEwma, KeyModel, Shares
from foretide.forecasting.layers import Affine, Gru
from foretide.forecasting.settings import MISSING_PACKAGES, KeyNetSettings

_FADING = 0.85
_COUNT_OFFSET = 0.5  # added to a count before its logarithm is taken
BLOCKS = 8
"""Parts of a history, of the end of each of which some is held out from training."""

FEATURES = 3
_TENSORS = 11

Example = tuple[Floats, Floats, Floats]
"""The features of each key before a window, the logarithms of its last share, and its next shares."""


def predicted_shares(weights: Sequence[Any], inputs: Floats, last: Floats, horizon: int) -> Floats:
    """Shares (horizon x keys) from the past of some keys (lookback x keys x features) and their last logits.

    The encoder reads the past; the decoder attends to all of it (equations 9 to 11) and adds up the changes.
    """
    encoder, decoder = Gru(*weights[:3]), Gru(*weights[3:6])
    of_memory, of_state, score = weights[6:9]
    change_by = Affine(*weights[9:])
    present = np.ones((inputs.shape[1], 1), dtype=bool)
    state = np.zeros((inputs.shape[1], len(score)), dtype=np.float32)
    memories = np.empty((len(inputs), *state.shape), dtype=np.float32)
    for at, window in enumerate(inputs):
        memories[at] = state = encoder(state, window, present)
    attended, level, change, rows = memories @ of_memory, last, np.zeros_like(state[:, :1]), []
    for _ in range(horizon):
        state = decoder(state, change, present)
        weight = _softmax(np.tanh(attended + state @ of_state) @ score, axis=0)
        context = (weight[..., None] * memories).sum(axis=0)
        change = change_by(np.concatenate([state, context], axis=-1))
        level = level + change[:, 0]
        rows.append(_softmax(level, axis=-1))
    return np.array(rows, dtype=np.float64)


def _softmax(values: Floats, axis: int) -> Floats:
    grown = np.exp(values - values.max(axis=axis, keepdims=True))
    shares: Floats = grown / grown.sum(axis=axis, keepdims=True)
    return shares


class KeyNet(KeyModel):
    """Forecasts by the encoder-decoder, trained when training is due. The seed determines all randomness."""

    name: ClassVar[str] = "key-net"

    def __init__(
        self, seed: int, settings: KeyNetSettings | None = None, weights: Sequence[Floats] | None = None
    ) -> None:
        """With the weights of a net that was trained before it forecasts from the first window on."""
        super().__init__()
        self.settings = settings or KeyNetSettings()
        self.seed = seed
        self.trainings = 0
        self._since = 0
        self._windows: list[dict[Key, float]] = []
        self._ewma = KeyEwma()
        self.weights: list[Floats] | None = None if weights is None else self._checked(weights)

    def retrain(self) -> None:
        """Train on all remembered windows, from the present weights."""
        steps = range(1, len(self._windows) - self.settings.horizon + 1)
        if len(steps) < BLOCKS:
            raise NotEnoughHistoryError(f"{len(self._windows)} windows are too few to train on")
        try:
            from foretide.forecasting.key_training import train  # noqa: PLC0415 - of an extra
        except ImportError as missing:
            raise EnvironmentNotReadyError(MISSING_PACKAGES) from missing
        examples = [self._example(end) for end in steps]
        weights, self._errors = train(self.settings, examples, (self.seed, self.trainings), self.weights)
        self.weights = self._checked(weights)
        self.trainings += 1
        self._since = 0

    def learn(self, seen: Sequence[Mapping[Key, float] | None]) -> None:
        """Learn windows, oldest first; None is one that was not counted. Trains when training is due."""
        super().learn(seen)
        due = self.settings.retrain_every if self.trainings else self.settings.first_training
        if 0 < due <= self._since and len(self._windows) > self.settings.horizon + BLOCKS:
            self.retrain()

    def _take(self, window: dict[Key, float]) -> None:
        self._windows = [*self._windows, window][-self.settings.keep :]
        self._ewma.learn([window])
        self._since += 1

    def _ahead(self, horizon: int) -> list[Shares]:
        if self.weights is None or not self._windows:
            return self._ewma._ahead(horizon)  # noqa: SLF001 - the same kind of model
        past = self._windows[-self.settings.lookback :]
        keys = _candidates(past, self.settings.candidates)
        inputs, last = _inputs(_counts(past, keys, self.settings.candidates), self.settings.lookback)
        shares = predicted_shares(self.weights, inputs, last, self.settings.horizon)
        usual = self._ewma._ahead(1)[0]  # noqa: SLF001 - the same kind of model
        others = {key: share for key, share in usual.items() if key not in {*keys}}
        rows = [dict(zip(keys, row.tolist(), strict=False)) | _scaled(others, float(row[-1])) for row in shares]
        return [rows[min(far, len(rows) - 1)] for far in range(horizon)]

    def _own_state(self) -> dict[str, Any]:
        keys = list({key: None for window in self._windows for key in window})
        place = {key: at for at, key in enumerate(keys)}
        entries = [(at, place[key], count) for at, window in enumerate(self._windows) for key, count in window.items()]
        ewma = {f"ewma_{name}": value for name, value in self._ewma.state().items()}
        weights = {f"weight{at:02}": each for at, each in enumerate(self.weights or ())}
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
        self.weights = self._checked(weights) if weights else None

    def _checked(self, weights: Sequence[Floats]) -> list[Floats]:
        if len(weights) != _TENSORS or np.shape(weights[8]) != (self.settings.hidden,):
            raise ModelFolderError("the saved weights are those of another net; train a new one")
        return [np.asarray(each, dtype=np.float32) for each in weights]

    def _example(self, end: int) -> Example:
        """The inputs before window `end`, and the shares of the windows from there on."""
        past = self._windows[max(0, end - self.settings.lookback) : end]
        keys = _candidates(past, self.settings.candidates)
        later = _counts(self._windows[end : end + self.settings.horizon], keys, self.settings.candidates)
        inputs, last = _inputs(_counts(past, keys, self.settings.candidates), self.settings.lookback)
        return inputs, last, later / later.sum(axis=1, keepdims=True)


def _scaled(shares: Shares, total: float) -> Shares:
    """Shares with another sum."""
    before = sum(shares.values())
    return {key: share * total / before for key, share in shares.items()}


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
