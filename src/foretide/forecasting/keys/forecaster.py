"""Key frequencies by a net: which keys are looked at, training when it is time, and the state that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from foretide.errors import EnvironmentNotReadyError, NotEnoughHistoryError
from foretide.forecasting.budget import TrainingBudget
from foretide.forecasting.forecaster import Floats, State
from foretide.forecasting.keys.models import ERRORS, JUDGED, Key, KeyEwma, KeyModel, Shares

try:
    import jax
    import jax.numpy as jnp

    from foretide.forecasting.keys.net import FEATURES, KeyEncoderDecoder, KeyTrainingSet, foreseen, train_keys
    from foretide.forecasting.nets import weights_of, with_weights
except ImportError as missing:
    raise EnvironmentNotReadyError("nets need JAX, Equinox and Optax: pip install 'foretide[forecast]'") from missing

_FADING = 0.85
_HALF = 0.5  # added to a count before its logarithm is taken
_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class KeyNetSettings:
    """What the net looks at, and how it trains.

    Attributes:
        candidates: So many keys, the most frequent of late, are forecast; all others together are one more.
        lookback: Windows that the encoder reads.
        horizon: Windows ahead that are learnt; beyond, shares stay as in the last of them.
        hidden: Numbers that encoder and decoder remember of a key.
        first_training: Windows before the first training; until then an EWMA stands in.
        retrain_every: Train on, from the weights there are, after so many more windows; 0 leaves that to `retrain`.
        keep: At most so many windows are remembered.
        budget: How long to train.
    """

    candidates: int = 100
    lookback: int = 16
    horizon: int = 3
    hidden: int = 16
    first_training: int = 60
    retrain_every: int = 200
    keep: int = 600
    budget: TrainingBudget = field(default_factory=lambda: TrainingBudget(seeds=2))


class KeyNet(KeyModel):
    """The encoder-decoder of `keys_net`. The seed is where all randomness comes from."""

    name: ClassVar[str] = "key-net"

    def __init__(self, seed: int, settings: KeyNetSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or KeyNetSettings()
        self.seed = seed
        self.trainings = 0
        self._since = 0
        self._windows: list[dict[Key, float]] = []
        self._simple = KeyEwma()
        self._net: KeyEncoderDecoder | None = None

    def retrain(self) -> None:
        """Learn from all remembered windows, from the weights there are."""
        steps = range(1, len(self._windows) - self.settings.horizon + 1)
        if len(steps) < _BLOCKS:
            raise NotEnoughHistoryError(f"{len(self._windows)} windows are too few to train on; go on learning.")
        data = _lesson([self._example(end) for end in steps], self.settings)
        key = jax.random.fold_in(jax.random.key(self.seed), self.trainings)
        fitted = train_keys(self.settings.hidden, data, self.settings.budget, key, self._net)
        self._net = fitted.net
        self._errors = _held_errors(fitted.net, data)
        self.trainings += 1
        self._since = 0

    def learn(self, seen: Sequence[Mapping[Key, float] | None]) -> None:
        """Take in windows, oldest first; None is one that was not counted. Trains when it is time."""
        super().learn(seen)
        due = self.settings.first_training if self._net is None else self.settings.retrain_every
        if 0 < due <= self._since and len(self._windows) > self.settings.horizon + _BLOCKS:
            self.retrain()

    def _take(self, window: dict[Key, float]) -> None:
        self._windows = [*self._windows, window][-self.settings.keep :]
        self._simple.learn([window])
        self._since += 1

    def _ahead(self, horizon: int) -> list[Shares]:
        if self._net is None:
            return self._simple._ahead(horizon)  # noqa: SLF001 - the same kind of model
        past = self._windows[-self.settings.lookback :]
        keys = _candidates(past, self.settings.candidates)
        inputs, last = _inputs(_counts(past, keys, self.settings.candidates), self.settings.lookback)
        shares = np.asarray(foreseen(self._net, jnp.asarray(inputs), jnp.asarray(last)), dtype=np.float64)
        rows = [dict(zip(keys, row.tolist(), strict=False)) for row in shares]
        return [rows[min(far, len(rows) - 1)] for far in range(horizon)]

    def _own_state(self) -> dict[str, Any]:
        keys = list({key: None for window in self._windows for key in window})
        place = {key: at for at, key in enumerate(keys)}
        entries = [(at, place[key], count) for at, window in enumerate(self._windows) for key, count in window.items()]
        simple = {f"simple_{name}": value for name, value in self._simple.state().items()}
        weights = {} if self._net is None else {f"weight{at:02}": w for at, w in enumerate(weights_of(self._net))}
        numbers = {"seed": self.seed, "trainings": self.trainings, "since": self._since}
        history = {"keys": keys, "entries": np.array(entries).reshape(-1, 3), "windows": len(self._windows)}
        return numbers | history | simple | weights

    def _restore_own(self, state: State) -> None:
        self.seed, self.trainings, self._since = int(state["seed"]), int(state["trainings"]), int(state["since"])
        self._windows = [{} for _ in range(int(state["windows"]))]
        for window, key, count in np.asarray(state["entries"]).tolist():
            self._windows[int(window)][state["keys"][int(key)]] = count
        simple = {name: each for name, each in state.items() if name.startswith("simple_")}
        self._simple.restore({name.removeprefix("simple_"): each for name, each in simple.items()})
        weights = [np.asarray(state[name]) for name in sorted(state) if name.startswith("weight")]
        empty = KeyEncoderDecoder(self.settings.hidden, self.settings.horizon, key=jax.random.key(0))
        self._net = with_weights(empty, weights) if weights else None

    def _example(self, end: int) -> tuple[Floats, Floats, Floats]:
        """What was known before window `end`, and the shares of the windows from there on."""
        past = self._windows[max(0, end - self.settings.lookback) : end]
        keys = _candidates(past, self.settings.candidates)
        later = _counts(self._windows[end : end + self.settings.horizon], keys, self.settings.candidates)
        inputs, last = _inputs(_counts(past, keys, self.settings.candidates), self.settings.lookback)
        return inputs, last, later / later.sum(axis=1, keepdims=True)


def _lesson(examples: Sequence[tuple[Floats, Floats, Floats]], settings: KeyNetSettings) -> KeyTrainingSet:
    """Examples as arrays; the end of each eighth of them is held back, and what looks into it is left out."""
    inputs, last, ahead = (np.stack(each) for each in zip(*examples, strict=True))
    at = np.arange(len(examples) + settings.horizon)
    held = at * _BLOCKS / len(examples) % 1 >= 1 - settings.budget.validation
    looks_in = np.stack([held[far : far + len(examples)] for far in range(settings.horizon)]).any(axis=0)
    arrays = (inputs, last, ahead, ~looks_in, held[: len(examples)])
    return KeyTrainingSet(*(jnp.asarray(each, dtype=jnp.float32) for each in arrays))


def _held_errors(net: KeyEncoderDecoder, data: KeyTrainingSet) -> list[float]:
    """What the net got wrong a window ahead where history was held back, for the keys that were most frequent."""
    wrong: list[float] = []
    for at in np.flatnonzero(np.asarray(data.held)):
        expected, truth = foreseen(net, data.inputs[at], data.last[at])[0], data.ahead[at][0]
        wrong += np.asarray(jnp.sqrt(truth) - jnp.sqrt(expected))[:JUDGED].tolist()
    return wrong[-ERRORS:]


def _candidates(past: Sequence[Mapping[Key, float]], count: int) -> list[Key]:
    """The most frequent keys of late; older windows count less and less."""
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
    """Features (lookback x keys x 3) and last logits of counts (windows x keys); the past before them stays empty.

    A key's features are the logarithm of its share, the change of that from here to the last window, and the
    logarithm of its count, which says how sure a share is. All are scaled by constants, which suit any stream.
    """
    logs = np.log((counts + _HALF) / (counts.sum(axis=1, keepdims=True) + _HALF * counts.shape[1]))
    features = np.stack([(logs + 5) / 3, logs - logs[-1], np.log1p(counts) / 5], axis=-1)
    padded = np.zeros((lookback, counts.shape[1], FEATURES))
    padded[lookback - len(counts) :] = features
    return padded.astype(np.float32), logs[-1].astype(np.float32)
