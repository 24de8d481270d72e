"""Forecasts of the workers of several machines by one model: each machine is followed for itself, all are learnt from.

```python
model = ClusterForecaster(seed=1, settings=settings)
model.learn([{"host-1": frame, "host-2": other}])
model.forecast(3)["7"]["worker_slowness"].mean
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foretide.errors import NotEnoughHistoryError
from foretide.forecasting.forecaster import State
from foretide.forecasting.settings import WorkerNetSettings
from foretide.forecasting.worker_forecaster import WorkerForecaster, trainable
from foretide.forecasting.worker_frames import MachineFrame, WorkerForecast
from foretide.forecasting.worker_model import WorkerModel, with_prefix

ClusterFrame = Mapping[str, MachineFrame]
"""One step: the frame of each machine that was measured."""


class ClusterForecaster:
    """A model, and what follows each machine with it. Trains when `retrain` is called, never by itself."""

    def __init__(self, seed: int, settings: WorkerNetSettings, model: WorkerModel | None = None) -> None:
        self.settings, self.seed, self.model = settings, seed, model
        self.machines: dict[str, WorkerForecaster] = {}
        self.trainings = 0

    def learn(self, seen: Sequence[ClusterFrame | None]) -> None:
        """Learn steps, oldest first; None is one in which nothing was measured."""
        for step in seen:
            known = step or {}
            for machine in known.keys() - self.machines.keys():
                self.machines[machine] = self._follower(machine)
                if self.model is not None:
                    self.machines[machine].adopt(self.model)
            for machine, follower in self.machines.items():
                follower.learn([known.get(machine)])
        self.machines = {name: each for name, each in self.machines.items() if any(each.frames)}

    def retrain(self) -> None:
        """Train on the histories of all machines, from the present weights if there are some."""
        histories = {name: each.frames for name, each in self.machines.items()}
        if not any(trainable(frames, self.settings.targets) for frames in histories.values()):
            raise NotEnoughHistoryError("the workers of no machine have been seen long enough, or nothing changed")
        self.model = WorkerModel.trained(self.settings, histories, (self.seed, self.trainings), self.model)
        self.trainings += 1
        for follower in self.machines.values():
            follower.adopt(self.model)

    def forecast(self, horizon: int) -> WorkerForecast:
        """The next steps of every worker in the last step."""
        found: dict[str, Any] = {}
        for follower in self.machines.values():
            found |= follower.forecast(horizon)
        return found

    def state(self) -> State:
        """The model, and the state of each machine, as names, numbers and arrays."""
        kept: dict[str, Any] = {"seed": self.seed, "trainings": self.trainings, "followed": list(self.machines)}
        for at, follower in enumerate(self.machines.values()):
            kept |= {f"machine{at}_{name}": each for name, each in follower.own_state().items()}
        model = {} if self.model is None else self.model.state()
        return kept | {f"model_{name}": each for name, each in model.items()}

    def restore(self, state: State) -> None:
        """Continue from a saved state of a forecaster with the same settings."""
        model = with_prefix(state, "model_")
        self.model = WorkerModel.restored(self.settings, model) if model else None
        self.seed, self.trainings = int(state["seed"]), int(state["trainings"])
        self.machines = {name: self._follower(name) for name in state["followed"]}
        for at, follower in enumerate(self.machines.values()):
            follower.restore_own(with_prefix(state, f"machine{at}_"), self.model)

    def _follower(self, machine: str) -> WorkerForecaster:
        return WorkerForecaster(self.seed, self.settings, machine, trains=False)
