"""Forecasts of the CPU use, sending time and queuing time of each worker of a machine, by a net.

```python
model = WorkerForecaster(seed=1)
model.learn(frames)  # trains once there is enough history; later frames cost well under a millisecond each
model.forecast(1)["executor-3"]["queuing_time"].interval(0.9)
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from foretide.errors import EnvironmentNotReadyError, ForecastError, ModelFolderError, NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast, State
from foretide.forecasting.settings import MISSING_PACKAGES, WorkerNetSettings
from foretide.forecasting.worker_frames import (
    MachineFrame,
    Row,
    WorkerForecast,
    WorkerHistory,
    WorkerScale,
    WorkerSlots,
    check_frame,
    slots_for,
    stacked,
)

try:
    import jax
    import jax.numpy as jnp
    from jax import Array

    from foretide.forecasting import worker_nets
    from foretide.forecasting.nets import fit, weights_of, with_weights
    from foretide.forecasting.worker_nets import NetSizes, NetState, Seen, WorkerNet
except ImportError as missing:
    raise EnvironmentNotReadyError(MISSING_PACKAGES) from missing

_MIN_TRAINING_STEPS = 40


class WorkerForecaster:
    """Forecasts the workers of one machine by one of the nets in `worker_nets`.

    The seed determines all randomness: the same frames give the same weights. Intervals are the empirical quantiles of
    the errors of the net on its validation share. Until the first training the forecast is the last value, with the
    changes so far as its errors.
    """

    name: ClassVar[str] = "workers"

    def __init__(self, seed: int, settings: WorkerNetSettings | None = None) -> None:
        self.settings = settings or WorkerNetSettings()
        self.seed = seed
        self.trainings = 0
        self._since = 0
        self._frames: list[MachineFrame | None] = []
        self._slots: WorkerSlots | None = None
        self._net: LiveNet | None = None

    def learn(self, seen: Sequence[MachineFrame | None]) -> None:
        """Learn frames, oldest first; None is a step that was not measured. Trains when training is due."""
        for frame in seen:
            check_frame(frame, self.settings.targets)
        self._frames = [*self._frames, *seen][-self.settings.keep :]
        self._since += len(seen)
        if self._due():
            self._since = 0
            if self._trainable():
                self.retrain()
                return
        for frame in seen:
            if not self._follow(frame):
                self._net = None  # a flat net has a fixed number of slots
                self.retrain()
                return

    def retrain(self) -> None:
        """Train on the remembered history: from the present weights, or from scratch where they do not fit."""
        if not self._trainable():
            raise NotEnoughHistoryError(
                f"a net cannot be trained on {len(self._frames)} steps in which no "
                f"{' or '.join(self.settings.targets)} of a worker changed"
            )
        history = WorkerHistory.of(self._frames)
        scale = WorkerScale.of(history, self.settings.targets, self.settings.process_features)
        slots = slots_for(scale)
        rows = stacked([slots.take(frame) for frame in self._frames])
        warm = self._net.weights if self._net else None
        self._net = LiveNet.trained(self.settings, rows, self.seed, self.trainings, warm)
        self._slots = slots
        self._since = 0
        self.trainings += 1

    def forecast(self, horizon: int) -> WorkerForecast:
        """The next steps of every worker that is present in the last frame, by worker and target."""
        if horizon < 1:
            raise ForecastError(f"horizon must be at least 1 step, got {horizon}")
        if not self._frames:
            raise NotEnoughHistoryError("no frame has been learnt yet")
        last = self._frames[-1]
        if last is None:
            return {}
        present = [name for name, worker in last.workers.items() if set(self.settings.targets) <= worker.keys()]
        if self._net is None or self._slots is None:
            return {name: self._last_values(name, horizon) for name in present}
        mean, quantiles = _extended(self._net.prediction, self._net.errors, horizon)
        mean, quantiles = self._slots.unscaled(mean), self._slots.unscaled(quantiles)
        slots = {name: self._slots.names.index(name) for name in present}
        return {name: self._by_target(mean[at], quantiles[at]) for name, at in slots.items()}

    def state(self) -> State:
        """The history and the trained net, as names, numbers and arrays."""
        history = WorkerHistory.of(self._frames)
        kept: dict[str, Any] = {
            "seed": self.seed,
            "trainings": self.trainings,
            "since": self._since,
            "net": self.settings.net,
            "history_names": list(history.names),
            "history_machine_features": list(history.machine_features),
            "history_worker_features": list(history.worker_features),
            "history_machine": history.machine,
            "history_workers": history.workers,
        }
        if self._net is None or self._slots is None:
            return kept
        parts = {"scale": self._slots.scale.state(), "slots": self._slots.state(), "live": self._net.state()}
        return kept | {f"{part}_{name}": value for part, values in parts.items() for name, value in values.items()}

    def restore(self, state: State) -> None:
        """Continue from a saved state of a forecaster with the same settings."""
        if state.get("net") != self.settings.net:
            raise ModelFolderError(f"the saved net is {state.get('net')!r}, expected '{self.settings.net}'")
        history = WorkerHistory(
            tuple(state["history_names"]),
            tuple(state["history_machine_features"]),
            tuple(state["history_worker_features"]),
            np.asarray(state["history_machine"], dtype=np.float64),
            np.asarray(state["history_workers"], dtype=np.float64),
        )
        self._frames = history.frames()
        self.seed, self.trainings, self._since = int(state["seed"]), int(state["trainings"]), int(state["since"])
        self._slots = self._net = None
        if "live_prediction" in state:
            self._slots = WorkerSlots.restored(
                WorkerScale.restored(_with_prefix(state, "scale_")), _with_prefix(state, "slots_")
            )
            self._net = LiveNet.restored(self.settings, self._slots, _with_prefix(state, "live_"))

    def _due(self) -> bool:
        due = self.settings.retrain_every if self._net else max(self.settings.first_training, _MIN_TRAINING_STEPS)
        return 0 < due <= self._since

    def _trainable(self) -> bool:
        """Whether there are enough frames, and some target changed."""
        wanted = self.settings.targets
        workers = [each for frame in self._frames if frame is not None for each in frame.workers.values()]
        seen = {tuple(each[target] for target in wanted) for each in workers if set(wanted) <= each.keys()}
        return len(self._frames) >= _MIN_TRAINING_STEPS and len(seen) > 1

    def _follow(self, frame: MachineFrame | None) -> bool:
        """Advance the net by one step; False if it has no slot for some worker."""
        if self._net is None or self._slots is None:
            return True
        row: Row = self._slots.take(frame)
        if len(row.present) != len(self._net.prediction) and not self._net.grow(len(row.present)):
            return False
        self._net.step(row)
        return True

    def _by_target(self, mean: Floats, quantiles: Floats) -> Mapping[str, SeriesForecast]:
        return {
            target: SeriesForecast(mean[..., at], quantiles[..., at].T)
            for at, target in enumerate(self.settings.targets)
        }

    def _last_values(self, name: str, horizon: int) -> Mapping[str, SeriesForecast]:
        rows = [frame.workers[name] for frame in self._frames if frame is not None and name in frame.workers]
        return {
            target: _last_value(np.array([row[target] for row in rows if target in row]), horizon)
            for target in self.settings.targets
        }


def _last_value(values: Floats, horizon: int) -> SeriesForecast:
    """The last value, with quantiles from the changes so far."""
    changes = np.diff(values) if len(values) > 1 else np.zeros(1)
    spread = np.sqrt(np.arange(1, horizon + 1))[:, None] * np.quantile(changes, LEVELS)
    return SeriesForecast(np.full(horizon, values[-1]), np.maximum(values[-1] + spread, 0.0))


def _extended(prediction: Floats, errors: Floats, horizon: int) -> tuple[Floats, Floats]:
    """Mean (slots x steps x targets) and quantiles (slots x levels x steps x targets), scaled.

    Beyond the learnt steps the mean is constant, and errors grow with the square root of the distance, like those of a
    random walk.
    """
    known = prediction.shape[1]
    far = np.minimum(np.arange(horizon), known - 1)
    wider = np.sqrt(np.maximum(np.arange(1, horizon + 1) / known, 1.0))[:, None]
    mean = prediction[:, far]
    return mean, mean[:, None] + errors[:, far] * wider


def _with_prefix(state: State, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


class LiveNet:
    """A trained net, its state, its last prediction (slots x steps x targets), and error quantiles by level, scaled."""

    def __init__(self, net: WorkerNet, state: NetState, prediction: Floats, errors: Floats) -> None:
        self._net, self._state = net, state
        self.prediction, self.errors = prediction, errors

    @classmethod
    def trained(
        cls, settings: WorkerNetSettings, rows: Row, seed: int, training: int, warm: Sequence[Floats] | None
    ) -> LiveNet:
        """Train on the rows of a history, and advance to its end."""
        data = worker_nets.training_set(seen_of(rows), settings.horizon, settings.budget.validation)
        key = jax.random.fold_in(jax.random.key(seed), training)
        make: Callable[[Array], WorkerNet] = partial(worker_nets.make, settings, _sizes(settings, rows))
        loss, score = worker_nets.chunk_loss, worker_nets.validation_loss
        best: tuple[WorkerNet, float] = fit(make, loss, score, data, settings.budget, key, _loaded(make, warm))
        net = best[0]
        state, prediction = worker_nets.predictions(net, data.seen)
        errors = np.array([[_quantiles(each) for each in step] for step in worker_nets.residuals(net, data)])
        return cls(net, state, np.asarray(prediction[-1], dtype=np.float64), np.moveaxis(errors, 2, 0))

    @classmethod
    def restored(cls, settings: WorkerNetSettings, slots: WorkerSlots, state: Mapping[str, Any]) -> LiveNet:
        """The net of a saved state."""
        scale = slots.scale
        machine, workers = np.zeros((1, len(scale.machine_features))), np.zeros((1, 1, len(scale.worker_features)))
        empty = Row(machine, workers, np.zeros((1, 1, len(scale.targets))), np.zeros((1, len(slots.names)), dtype=bool))
        net = worker_nets.make(settings, _sizes(settings, empty), jax.random.key(0))
        layers = tuple(jnp.asarray(each, dtype=jnp.float32) for each in _series(state, "layer"))
        weighted = with_weights(net, _series(state, "weight"))
        return cls(weighted, layers, np.asarray(state["prediction"]), np.asarray(state["errors"]))

    @property
    def weights(self) -> list[Floats]:
        """The weights, from which a later training can start."""
        return weights_of(self._net)

    def step(self, row: Row) -> None:
        """Advance by one step."""
        if row.reset:
            self._state = _emptied(self._state, len(row.present), row.reset)
        seen = seen_of(stacked([row]))
        self._state, prediction = _step(self._net, self._state, seen)
        self.prediction = np.asarray(prediction, dtype=np.float64)

    def grow(self, slots: int) -> bool:
        """Add slots; returns False for a net with a fixed number of slots."""
        before = self.prediction.shape[0]
        if not any(len(layer) == before for layer in self._state):
            return False
        more = ((0, slots - before), (0, 0))
        self._state = tuple(jnp.pad(layer, more) if len(layer) == before else layer for layer in self._state)
        return True

    def state(self) -> dict[str, Any]:
        """Weights and state as plain arrays."""
        weights = {f"weight{at:02}": each for at, each in enumerate(self.weights)}
        layers = {f"layer{at:02}": np.asarray(each, dtype=np.float64) for at, each in enumerate(self._state)}
        return {"prediction": self.prediction, "errors": self.errors, **weights, **layers}


def seen_of(rows: Row) -> Seen:
    """Rows as the inputs of a net."""
    parts: tuple[Any, ...] = (rows.machine, rows.workers, rows.own, rows.present)
    return Seen(*parts)


def _sizes(settings: WorkerNetSettings, rows: Row) -> NetSizes:
    return NetSizes(
        rows.machine.shape[-1],
        rows.workers.shape[-1],
        len(settings.targets),
        settings.horizon,
        rows.present.shape[-1],
        settings.hidden,
    )


def _loaded(make: Callable[[Array], WorkerNet], weights: Sequence[Floats] | None) -> WorkerNet | None:
    """The net with earlier weights, unless features were added or removed since."""
    if weights is None:
        return None
    try:
        return with_weights(make(jax.random.key(0)), weights)
    except ModelFolderError:
        return None


def _quantiles(errors: Floats) -> Floats:
    return np.quantile(errors, LEVELS) if len(errors) else np.zeros(len(LEVELS))


def _series(state: Mapping[str, Any], prefix: str) -> list[Floats]:
    return [np.asarray(state[name], dtype=np.float64) for name in sorted(state) if name.startswith(prefix)]


@jax.jit
def _step(net: WorkerNet, state: NetState, seen: Seen) -> tuple[NetState, Array]:
    state, prediction = net(state, seen)
    return state, prediction[0]


def _emptied(state: NetState, slots: int, which: Sequence[int]) -> NetState:
    at = np.array(which)
    return tuple(layer.at[at].set(0.0) if len(layer) == slots else layer for layer in state)
