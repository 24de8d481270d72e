"""What is known of the workers of one machine: frames as they are measured, and a history as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretide.errors import BadSeriesError
from foretide.forecasting.budget import TrainingBudget
from foretide.forecasting.forecaster import Floats, SeriesForecast

Flags = NDArray[np.bool_]

WorkerForecast = Mapping[str, Mapping[str, SeriesForecast]]
"""A forecast for each target of each worker that is there."""


@dataclass(frozen=True, slots=True)
class MachineFrame:
    """One step of one machine: its features, and those of each of its workers, by name. Who is away is left out."""

    machine: Mapping[str, float]
    workers: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class WorkerNetSettings:
    """Which net, of what, and how it trains.

    Attributes:
        net: 'interference' (two tiers), or one of its ablations: 'plain' (a worker alone), 'flat' (all side by side).
        targets: The features of a worker that are forecast; none of them is ever negative.
        process_features: Features of a worker with one scale for the whole machine; the others have a scale a worker.
        horizon: So many steps ahead are learnt; what lies further is taken to stay there, less and less surely.
        hidden: Numbers that each GRU layer remembers.
        sigmoid: Answer with the level through a sigmoid, as in the paper, not with the change from the last value.
        targets_only: Let tier 2 see a worker's targets only, as in the paper, not all of the worker's own features.
        first_training: Steps of history before the first training; until then the last value stands in.
        retrain_every: Train on, from the weights there are, after so many more steps; 0 leaves that to `retrain`.
        keep: At most so many steps are remembered to train on.
        budget: How long to train.
    """

    net: str = "interference"
    targets: tuple[str, ...] = ("cpu", "sending_time", "queuing_time")
    process_features: frozenset[str] = frozenset({"cpu"})
    horizon: int = 6
    hidden: int = 24
    sigmoid: bool = False
    targets_only: bool = False
    first_training: int = 120
    retrain_every: int = 720
    keep: int = 2160
    budget: TrainingBudget = field(default_factory=TrainingBudget)

    def __post_init__(self) -> None:
        if self.net not in {"interference", "plain", "flat"}:
            raise ValueError(f"there is no net '{self.net}'; choose 'interference', 'plain' or 'flat'")
        if not self.targets or min(self.horizon, self.hidden, self.first_training, self.keep) < 1:
            raise ValueError("targets, horizon, hidden, first_training and keep have to be there and at least 1")


@dataclass(frozen=True, slots=True)
class WorkerHistory:
    """Steps of a machine as arrays: machine (steps x features) and workers (steps x workers x features).

    What was not measured is NaN here, and nowhere else.
    """

    names: tuple[str, ...]
    machine_features: tuple[str, ...]
    worker_features: tuple[str, ...]
    machine: Floats
    workers: Floats

    @classmethod
    def of(cls, frames: Sequence[MachineFrame | None]) -> WorkerHistory:
        """The arrays of some frames, oldest first; None is a step that was not measured."""
        there = [frame for frame in frames if frame is not None]
        names = _union(frame.workers for frame in there)
        features = _union(worker for frame in there for worker in frame.workers.values())
        machine_features = _union(frame.machine for frame in there)
        machine = np.full((len(frames), len(machine_features)), np.nan)
        workers = np.full((len(frames), len(names), len(features)), np.nan)
        for step, frame in enumerate(frames):
            if frame is not None:
                put(machine[step], frame.machine, machine_features)
                for name, worker in frame.workers.items():
                    put(workers[step, names.index(name)], worker, features)
        return cls(names, machine_features, features, machine, workers)

    def frames(self) -> list[MachineFrame | None]:
        """The frames that `of` gives these arrays for."""
        return [self._frame(step) for step in range(len(self.machine))]

    def present(self, targets: Iterable[str]) -> Flags:
        """Who was there with all of these features: steps x workers."""
        which = [self.worker_features.index(target) for target in targets]
        there: Flags = np.logical_not(np.isnan(self.workers[:, :, which]).any(axis=2))
        return there

    def series(self, name: str, feature: str) -> Floats:
        """One feature of one worker, with gaps filled by the value before (at the beginning: after) them."""
        values = self.workers[:, self.names.index(name), self.worker_features.index(feature)]
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            raise BadSeriesError(f"{feature} of worker '{name}' was never measured; leave that worker out.")
        before = np.maximum(np.searchsorted(known, np.arange(len(values)), side="right") - 1, 0)
        return values[known[before]]

    def _frame(self, step: int) -> MachineFrame | None:
        machine = _measured(self.machine[step], self.machine_features)
        rows = zip(self.names, self.workers[step], strict=True)
        workers = {name: found for name, row in rows if (found := _measured(row, self.worker_features))}
        return MachineFrame(machine, workers) if machine or workers else None


def check_frame(frame: MachineFrame | None, targets: Iterable[str]) -> None:
    """Refuse what no measurement gives: NaN, infinite numbers, negative targets."""
    if frame is None:
        return
    _check("the machine", frame.machine)
    for name, worker in frame.workers.items():
        _check(f"worker '{name}'", worker)
        if wrong := [target for target in targets if worker.get(target, 0.0) < 0]:
            raise BadSeriesError(f"{', '.join(wrong)} of worker '{name}' is negative; leave out what is not known.")


def _check(subject: str, features: Mapping[str, float]) -> None:
    if wrong := [name for name, value in features.items() if not math.isfinite(value)]:
        raise BadSeriesError(f"{', '.join(wrong)} of {subject} is no finite number; leave out what is not known.")


def put(row: Floats, values: Mapping[str, float], names: Sequence[str]) -> None:
    """Write the values that are there into a row, in the order of the names."""
    for at, name in enumerate(names):
        if name in values:
            row[at] = values[name]


def _measured(row: Floats, names: Sequence[str]) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, row, strict=True) if not math.isnan(value)}


def _union(mappings: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(sorted({name for each in mappings for name in each}))
