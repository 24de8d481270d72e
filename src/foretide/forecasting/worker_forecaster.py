"""Forecasts of the targets of each worker of a machine, such as its CPU use and its slowness, by a net.

```python
model = WorkerForecaster(seed=1)
model.learn(frames)  # trains once there is enough history; later frames cost about a millisecond each
model.forecast(1)["executor-3"]["queuing_time"].interval(0.9)
```

Only training needs JAX: a trained net is followed in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

import numpy as np

from foretide.errors import ForecastError, ModelFolderError, NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast, State
from foretide.forecasting.portable_features import plain_values, portable
from foretide.forecasting.settings import WorkerNetSettings
from foretide.forecasting.worker_frames import (
    MachineFrame,
    WorkerForecast,
    WorkerHistory,
    WorkerSlots,
    check_frame,
    slots_for,
)
from foretide.forecasting.worker_model import WorkerModel, with_prefix
from foretide.forecasting.worker_steps import NetState

MIN_TRAINING_STEPS = 40


class WorkerForecaster:
    """Forecasts the workers of one machine by one of the nets in `worker_nets`.

    The seed determines all randomness: the same frames give the same weights. Intervals are the empirical quantiles of
    the errors of the net on its validation share. Until the first training the forecast is the last value, with the
    changes so far as its errors.
    """

    name: ClassVar[str] = "workers"

    def __init__(
        self, seed: int, settings: WorkerNetSettings | None = None, machine: str = "", *, trains: bool = True
    ) -> None:
        self.settings, self._trains = settings or WorkerNetSettings(), trains
        self.seed, self.machine = seed, machine
        self.trainings = 0
        self._since = 0
        self.frames: list[MachineFrame | None] = []
        self.model: WorkerModel | None = None
        self._live: _Live | None = None

    def learn(self, seen: Sequence[MachineFrame | None]) -> None:
        """Learn frames, oldest first; None is a step that was not measured. Trains when training is due."""
        for frame in seen:
            check_frame(frame, self.settings.targets)
        if self.settings.portable:
            seen = [portable(frame, self.settings.targets) for frame in seen]
        self.frames = [*self.frames, *seen][-self.settings.keep :]
        self._since += len(seen)
        if self._trains and self._due():
            self._since = 0
            if trainable(self.frames, self.settings.targets):
                self.retrain()
                return
        for frame in seen:
            if self._live is not None and not self._live.follow(frame):  # a flat net has a fixed number of slots
                self.model = self._live = None
                self.retrain()
                return

    def retrain(self) -> None:
        """Train on the remembered history: from the present weights, or from scratch where they do not fit."""
        if not trainable(self.frames, self.settings.targets):
            raise NotEnoughHistoryError(
                f"a net cannot be trained on {len(self.frames)} steps in which no "
                f"{' or '.join(self.settings.targets)} of a worker changed"
            )
        seed = (self.seed, self.trainings)
        self.adopt(WorkerModel.trained(self.settings, {self.machine: self.frames}, seed, self.model))
        self._since = 0
        self.trainings += 1

    def adopt(self, model: WorkerModel) -> None:
        """Use a model from now on; it sees the remembered history first."""
        self.model = model
        self._live = _Live.after(model, self.machine, self.frames)

    def forecast(self, horizon: int) -> WorkerForecast:
        """The next steps of every worker that is present in the last frame, by worker and target."""
        if horizon < 1:
            raise ForecastError(f"horizon must be at least 1 step, got {horizon}")
        if not self.frames:
            raise NotEnoughHistoryError("no frame has been learnt yet")
        last = self.frames[-1]
        if last is None:
            return {}
        present = {name: worker.keys() & set(self.settings.targets) for name, worker in last.workers.items()}
        present = {name: targets for name, targets in present.items() if targets}
        if self._live is None:
            found: WorkerForecast = {name: self._last_values(name, known, horizon) for name, known in present.items()}
        else:
            found = self._live.forecast(present, horizon)
        return plain_values(found) if self.settings.portable else found

    def state(self) -> State:
        """The history and the trained net, as names, numbers and arrays."""
        model = {} if self.model is None else self.model.state()
        return self.own_state() | {f"model_{name}": each for name, each in model.items()}

    def restore(self, state: State) -> None:
        """Continue from a saved state of a forecaster with the same settings."""
        model = with_prefix(state, "model_")
        self.restore_own(state, WorkerModel.restored(self.settings, model) if model else None)

    def own_state(self) -> dict[str, Any]:
        """Its state without the model."""
        history = WorkerHistory.of(self.frames)
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
        return kept if self._live is None else kept | self._live.state()

    def restore_own(self, state: State, model: WorkerModel | None) -> None:
        """Continue from such a state with the model that it belongs to."""
        if state.get("net") != self.settings.net:
            raise ModelFolderError(f"the saved net is {state.get('net')!r}, expected '{self.settings.net}'")
        history = WorkerHistory(
            tuple(state["history_names"]),
            tuple(state["history_machine_features"]),
            tuple(state["history_worker_features"]),
            np.asarray(state["history_machine"], dtype=np.float64),
            np.asarray(state["history_workers"], dtype=np.float64),
        )
        self.frames = history.frames()
        self.seed, self.trainings, self._since = int(state["seed"]), int(state["trainings"]), int(state["since"])
        self.model = model
        self._live = None if model is None else _Live.restored(model, self.machine, state)

    def _due(self) -> bool:
        due = self.settings.retrain_every if self._live else max(self.settings.first_training, MIN_TRAINING_STEPS)
        return 0 < due <= self._since

    def _last_values(self, name: str, targets: AbstractSet[str], horizon: int) -> Mapping[str, SeriesForecast]:
        rows = [frame.workers[name] for frame in self.frames if frame is not None and name in frame.workers]
        return {
            target: _last_value(np.array([row[target] for row in rows if target in row]), horizon)
            for target in self.settings.targets
            if target in targets
        }


def trainable(frames: Sequence[MachineFrame | None], targets: Sequence[str]) -> bool:
    """Whether there are enough frames, and some target changed."""
    workers = [each for frame in frames if frame is not None for each in frame.workers.values()]
    seen = {known for each in workers if any(known := tuple(each.get(target, 0.0) for target in targets))}
    return len(frames) >= MIN_TRAINING_STEPS and len(seen) > 1


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


class _Live:
    """A model that follows one machine: its slots, its states, and its last prediction (slots x steps x targets)."""

    def __init__(
        self, model: WorkerModel, slots: WorkerSlots, states: tuple[NetState, ...], prediction: Floats
    ) -> None:
        self.model, self.slots, self._states, self._prediction = model, slots, states, prediction

    @classmethod
    def after(cls, model: WorkerModel, machine: str, frames: Sequence[MachineFrame | None]) -> _Live:
        """After it has seen a history."""
        slots = slots_for(model.scale_of(machine), frames)
        settings = model.nets[0].settings
        nothing = np.zeros((len(slots.names), settings.horizon, len(settings.targets)))
        live = cls(model, slots, model.start(len(slots.names)), nothing)
        for frame in frames:
            live.follow(frame)
        return live

    def follow(self, frame: MachineFrame | None) -> bool:
        """Advance by one step; False if there are more workers than a flat net has slots."""
        row = self.slots.take(frame)
        more = len(row.present) - len(self._prediction)
        if more and self.model.nets[0].settings.net == "flat":
            return False
        self._states = tuple(_emptied(state, len(self._prediction), more, row.reset) for state in self._states)
        self._states, self._prediction = self.model.step(self._states, row)
        return True

    def forecast(self, present: Mapping[str, AbstractSet[str]], horizon: int) -> WorkerForecast:
        """The next steps of some targets of some workers."""
        mean, quantiles = _extended(self._prediction, self.model.errors, horizon)
        mean, quantiles = self.slots.unscaled(mean), self.slots.unscaled(quantiles)
        places = {name: self.slots.names.index(name) for name in present}
        targets = self.slots.scale.targets
        return {
            name: {
                target: SeriesForecast(mean[at][..., which], quantiles[at][..., which].T)
                for which, target in enumerate(targets)
                if target in present[name]
            }
            for name, at in places.items()
        }

    def state(self) -> dict[str, Any]:
        """Slots, states and prediction as lists and arrays."""
        slots = {f"slots_{name}": each for name, each in self.slots.state().items()}
        layers = {
            f"layer{net}_{at}": layer.astype(np.float64)
            for net, state in enumerate(self._states)
            for at, layer in enumerate(state)
        }
        return {"live_prediction": self._prediction, **slots, **layers}

    @classmethod
    def restored(cls, model: WorkerModel, machine: str, state: Mapping[str, Any]) -> _Live:
        """From such a state."""
        slots = WorkerSlots.restored(model.scale_of(machine), with_prefix(state, "slots_"))
        states = tuple(
            tuple(np.asarray(each, dtype=np.float32) for each in with_prefix(state, f"layer{net}_").values())
            for net in range(len(model.nets))
        )
        return cls(model, slots, states, np.asarray(state["live_prediction"], dtype=np.float64))


def _emptied(state: NetState, slots: int, more: int, reset: Sequence[int]) -> NetState:
    """A state with more slots, and zeros in those with a new worker."""
    if not more and not reset:
        return state
    grown = [np.pad(layer, ((0, more), (0, 0))) if len(layer) == slots else layer.copy() for layer in state]
    for layer in grown:
        if len(layer) == slots + more:
            layer[list(reset)] = 0.0
    return tuple(grown)
