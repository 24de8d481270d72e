"""Forecasts of what each worker of a machine will need and suffer: CPU use, sending time, queuing time.

```python
model = WorkerForecaster(seed=1)
model.learn(frames)  # trains once there is enough history; later frames cost well under a millisecond each
model.forecast(1)["executor-3"]["queuing_time"].interval(0.9)
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from foretide.errors import EnvironmentNotReadyError, ForecastError, ModelFolderError, NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast, State
from foretide.forecasting.workers.frames import (
    MachineFrame,
    WorkerForecast,
    WorkerHistory,
    WorkerNetSettings,
    check_frame,
)
from foretide.forecasting.workers.scaling import WorkerScale
from foretide.forecasting.workers.slots import Row, WorkerSlots, board_for, stacked

try:
    from foretide.forecasting.workers import live
except ImportError as missing:
    raise EnvironmentNotReadyError("nets need JAX, Equinox and Optax: pip install 'foretide[forecast]'") from missing

_LEAST_TO_TRAIN = 40


class WorkerForecaster:
    """One machine's workers by one net (see `workers_net`), with all that a later process needs to go on.

    The seed is where all randomness comes from: the same frames give the same weights. Intervals are the empirical
    quantiles of what the net got wrong on its validation share. Until the first training, the last value stands in,
    with the changes seen so far as its errors.
    """

    name: ClassVar[str] = "workers"

    def __init__(self, seed: int, settings: WorkerNetSettings | None = None) -> None:
        self.settings = settings or WorkerNetSettings()
        self.seed = seed
        self.trainings = 0
        self._since = 0
        self._frames: list[MachineFrame | None] = []
        self._board: WorkerSlots | None = None
        self._net: live.LiveNet | None = None

    def learn(self, seen: Sequence[MachineFrame | None]) -> None:
        """Take in frames, oldest first; None is a step that was not measured. Trains when it is time."""
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
                self._net = None  # it knows a fixed number of workers, and there are more now
                self.retrain()
                return

    def retrain(self) -> None:
        """Learn from all remembered history: from the weights there are, or from scratch if there are none that fit."""
        if not self._trainable():
            raise NotEnoughHistoryError(
                f"{len(self._frames)} steps, in which no {' or '.join(self.settings.targets)} of a worker changed, are "
                "nothing to train on; go on learning, the last value stands in."
            )
        history = WorkerHistory.of(self._frames)
        scale = WorkerScale.of(history, self.settings.targets, self.settings.process_features)
        board = board_for(scale)
        rows = stacked([board.take(frame) for frame in self._frames])
        warm = self._net.weights if self._net else None
        self._net = live.trained(self.settings, rows, self.seed, self.trainings, warm)
        self._board = board
        self._since = 0
        self.trainings += 1

    def forecast(self, horizon: int) -> WorkerForecast:
        """The next steps of every worker that was there in the last frame, by worker and target."""
        if horizon < 1:
            raise ForecastError(f"a horizon of {horizon} steps; ask for at least 1.")
        if not self._frames:
            raise NotEnoughHistoryError("no frame was learnt yet; ask again after the first one.")
        last = self._frames[-1]
        if last is None:
            return {}
        there = [name for name, worker in last.workers.items() if set(self.settings.targets) <= worker.keys()]
        if self._net is None or self._board is None:
            return {name: self._last_values(name, horizon) for name in there}
        mean, quantiles = _stretched(self._net.answer, self._net.errors, horizon)
        mean, quantiles = self._board.unscaled(mean), self._board.unscaled(quantiles)
        places = {name: self._board.names.index(name) for name in there}
        return {name: self._of_place(mean[at], quantiles[at]) for name, at in places.items()}

    def state(self) -> State:
        """The history, and what was learnt: names, numbers and arrays only."""
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
        if self._net is None or self._board is None:
            return kept
        parts = {"scale": self._board.scale.state(), "board": self._board.state(), "live": self._net.state()}
        return kept | {f"{part}_{name}": value for part, values in parts.items() for name, value in values.items()}

    def restore(self, state: State) -> None:
        """Go on from a kept state of a forecaster with the same settings."""
        if state.get("net") != self.settings.net:
            raise ModelFolderError(f"the state is that of net {state.get('net')!r}, not '{self.settings.net}'.")
        history = WorkerHistory(
            tuple(state["history_names"]),
            tuple(state["history_machine_features"]),
            tuple(state["history_worker_features"]),
            np.asarray(state["history_machine"], dtype=np.float64),
            np.asarray(state["history_workers"], dtype=np.float64),
        )
        self._frames = history.frames()
        self.seed, self.trainings, self._since = int(state["seed"]), int(state["trainings"]), int(state["since"])
        self._board = self._net = None
        if "live_answer" in state:
            self._board = WorkerSlots.restored(WorkerScale.restored(_part(state, "scale_")), _part(state, "board_"))
            self._net = live.restored(self.settings, self._board, _part(state, "live_"))

    def _due(self) -> bool:
        due = self.settings.retrain_every if self._net else max(self.settings.first_training, _LEAST_TO_TRAIN)
        return 0 < due <= self._since

    def _trainable(self) -> bool:
        """Whether there is anything to learn."""
        wanted = self.settings.targets
        workers = [each for frame in self._frames if frame is not None for each in frame.workers.values()]
        seen = {tuple(each[target] for target in wanted) for each in workers if set(wanted) <= each.keys()}
        return len(self._frames) >= _LEAST_TO_TRAIN and len(seen) > 1

    def _follow(self, frame: MachineFrame | None) -> bool:
        """Take the net along by one step; False if it has no room for all the workers."""
        if self._net is None or self._board is None:
            return True
        row: Row = self._board.take(frame)
        if len(row.present) != len(self._net.answer) and not self._net.grow(len(row.present)):
            return False
        self._net.step(row)
        return True

    def _of_place(self, mean: Floats, quantiles: Floats) -> Mapping[str, SeriesForecast]:
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
    """The last value, with the changes so far as its errors."""
    changes = np.diff(values) if len(values) > 1 else np.zeros(1)
    spread = np.sqrt(np.arange(1, horizon + 1))[:, None] * np.quantile(changes, LEVELS)
    return SeriesForecast(np.full(horizon, values[-1]), np.maximum(values[-1] + spread, 0.0))


def _stretched(answer: Floats, errors: Floats, horizon: int) -> tuple[Floats, Floats]:
    """Mean (places x steps x targets) and quantiles (places x levels x steps x targets), scaled.

    Beyond what is learnt it stays so, and the errors grow with the square root of the distance, as those of a random
    walk do.
    """
    known = answer.shape[1]
    far = np.minimum(np.arange(horizon), known - 1)
    wider = np.sqrt(np.maximum(np.arange(1, horizon + 1) / known, 1.0))[:, None]
    mean = answer[:, far]
    return mean, mean[:, None] + errors[:, far] * wider


def _part(state: State, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
