"""Measurements of the workers of one machine: frames, and a history of frames as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretide.errors import BadSeriesError
from foretide.forecasting.forecaster import Floats, SeriesForecast

Flags = NDArray[np.bool_]

WorkerForecast = Mapping[str, Mapping[str, SeriesForecast]]
"""A forecast for each target of each worker that is present."""


@dataclass(frozen=True, slots=True)
class MachineFrame:
    """One step of one machine: its features, and those of each of its workers, by name. Absent workers are left out."""

    machine: Mapping[str, float]
    workers: Mapping[str, Mapping[str, float]]


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
        measured = [frame for frame in frames if frame is not None]
        names = _union(frame.workers for frame in measured)
        features = _union(worker for frame in measured for worker in frame.workers.values())
        machine_features = _union(frame.machine for frame in measured)
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
        """Which workers were present with all of these features: steps x workers."""
        which = [self.worker_features.index(target) for target in targets]
        complete: Flags = np.logical_not(np.isnan(self.workers[:, :, which]).any(axis=2))
        return complete

    def series(self, name: str, feature: str) -> Floats:
        """One feature of one worker, with gaps filled by the value before (at the beginning: after) them."""
        values = self.workers[:, self.names.index(name), self.worker_features.index(feature)]
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            raise BadSeriesError(f"{feature} of worker '{name}' was never measured")
        before = np.maximum(np.searchsorted(known, np.arange(len(values)), side="right") - 1, 0)
        return values[known[before]]

    def _frame(self, step: int) -> MachineFrame | None:
        machine = _measured(self.machine[step], self.machine_features)
        rows = zip(self.names, self.workers[step], strict=True)
        workers = {name: found for name, row in rows if (found := _measured(row, self.worker_features))}
        return MachineFrame(machine, workers) if machine or workers else None


def check_frame(frame: MachineFrame | None, targets: Iterable[str]) -> None:
    """Raise `BadSeriesError` for NaN, infinite numbers and negative targets."""
    if frame is None:
        return
    _check("the machine", frame.machine)
    for name, worker in frame.workers.items():
        _check(f"worker '{name}'", worker)
        if wrong := [target for target in targets if worker.get(target, 0.0) < 0]:
            raise BadSeriesError(
                f"{', '.join(wrong)} of worker '{name}' must not be negative; leave out what was not measured"
            )


def _check(subject: str, features: Mapping[str, float]) -> None:
    if wrong := [name for name, value in features.items() if not math.isfinite(value)]:
        raise BadSeriesError(f"{', '.join(wrong)} of {subject} must be finite; leave out what was not measured")


def put(row: Floats, values: Mapping[str, float], names: Sequence[str]) -> None:
    """Write the known values into a row, in the order of the names."""
    for at, name in enumerate(names):
        if name in values:
            row[at] = values[name]


def _measured(row: Floats, names: Sequence[str]) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, row, strict=True) if not math.isnan(value)}


def _union(mappings: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(sorted({name for each in mappings for name in each}))
