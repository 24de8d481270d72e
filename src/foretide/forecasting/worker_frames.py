"""Measurements of the workers of one machine: frames, histories as arrays, and the scaled inputs of nets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

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


_WIDEST = float(np.finfo(np.float64).max) / 1e7
_FAR = 1e6


@dataclass(frozen=True, slots=True)
class Range:
    """The value of each feature that is scaled to 0, and the width up to 1; a constant feature has no width."""

    low: Floats
    width: Floats

    @classmethod
    def of(cls, values: Floats) -> Range:
        """The range of each column; NaN is a gap. Halving first keeps the width of huge ranges finite."""
        low = np.fmin.reduce(values, axis=0, initial=np.inf)
        high = np.fmax.reduce(values, axis=0, initial=-np.inf)
        seen = low <= high
        low, high = np.where(seen, low, 0.0), np.where(seen, high, 0.0)
        return cls(low, np.minimum(2 * (high / 2 - low / 2), _WIDEST))

    def __getitem__(self, which: Any) -> Range:
        """The ranges of some rows or features, as NumPy indexes arrays."""
        return Range(self.low[which], self.width[which])

    def scaled(self, values: Floats) -> Floats:
        """0 to 1 within the range; 0 for a constant."""
        with np.errstate(over="ignore"):
            moved = (values - self.low) / np.where(self.width > 0, self.width, np.inf)
        return np.clip(moved, -_FAR, _FAR)

    def inputs(self, values: Floats) -> Floats:
        """Scaled and bounded, in single precision."""
        return np.clip(self.scaled(values), -1.0, 2.0).astype(np.float32)


@dataclass(frozen=True, slots=True)
class WorkerScale:
    """Min-max scales, fitted and saved with a net (predictive-control, section III-B).

    Stream features have a scale per worker, process features one for all workers of the machine. A worker that was
    absent when the scale was fitted gets the scale of all workers together, the last row. Features that never changed
    are left out. Inputs are clipped to [-1, 2], so that an unusual burst does not destabilise the net.
    """

    names: tuple[str, ...]
    machine_features: tuple[str, ...]
    worker_features: tuple[str, ...]
    targets: tuple[str, ...]
    machine: Range
    workers: Range
    target_ranges: Range

    @classmethod
    def of(
        cls,
        history: WorkerHistory,
        targets: tuple[str, ...],
        process_features: frozenset[str],
        like: WorkerScale | None = None,
    ) -> WorkerScale:
        """The scales of a history: of the features that change in it, or of those of another scale."""
        machine = Range.of(history.machine)
        anyone = Range.of(history.workers.reshape(-1, len(history.worker_features)))
        shared = np.array([name in process_features for name in history.worker_features], dtype=bool)
        rows = [_of_worker(history.workers[:, at], anyone, shared) for at in range(len(history.names))] + [anyone]
        workers = Range(np.stack([row.low for row in rows]), np.stack([row.width for row in rows]))
        machine_features = like.machine_features if like else _moving(machine, history.machine_features)
        features = like.worker_features if like else _moving(anyone, history.worker_features)
        return cls(
            history.names,
            machine_features,
            features,
            targets,
            _columns(machine, history.machine_features, machine_features),
            _columns(workers, history.worker_features, features),
            _columns(workers, history.worker_features, targets),
        )

    def for_anyone(self) -> WorkerScale:
        """Without scales of single workers: that of all workers together serves each."""
        return replace(self, names=(), workers=self.workers[-1:], target_ranges=self.target_ranges[-1:])

    def state(self) -> dict[str, Any]:
        """As lists of names and arrays."""
        names = {part: list(getattr(self, part)) for part in _NAMES}
        arrays = {
            f"{part}_{side}": getattr(getattr(self, part), side) for part, side in product(_RANGES, ("low", "width"))
        }
        return names | arrays

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> WorkerScale:
        """The scale of a saved state."""
        names = {part: tuple(state[part]) for part in _NAMES}
        sides = {part: (state[f"{part}_low"], state[f"{part}_width"]) for part in _RANGES}
        ranges = {part: Range(*(np.asarray(each, dtype=np.float64) for each in pair)) for part, pair in sides.items()}
        parts: dict[str, Any] = names | ranges
        return cls(**parts)


_NAMES = ("names", "machine_features", "worker_features", "targets")
_RANGES = ("machine", "workers", "target_ranges")


def _moving(ranges: Range, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name, width in zip(names, ranges.width, strict=True) if width)


def _columns(ranges: Range, names: Sequence[str], wanted: Sequence[str]) -> Range:
    """The ranges of some features; one that was never measured is constant."""
    at = [names.index(name) if name in names else len(names) for name in wanted]
    low, width = (np.pad(each, [*[(0, 0)] * (each.ndim - 1), (0, 1)])[..., at] for each in (ranges.low, ranges.width))
    return Range(low, width)


def _of_worker(values: Floats, anyone: Range, shared: Flags) -> Range:
    """The range of a worker, but that of all workers for process features and for constant ones."""
    own = Range.of(values)
    wide = shared | (own.width == 0)
    return Range(np.where(wide, anyone.low, own.low), np.where(wide, anyone.width, own.width))


SLOTS_AT_ONCE = 8
"""The number of slots that are added at a time."""


class Row(NamedTuple):
    """One step, scaled, in single precision; `present` says which slots have a worker, `reset` which have a new one.

    Shapes: (features), (slots, features), (slots, targets), (slots). Targets are not clipped: changes start from them.
    """

    machine: Floats
    workers: Floats
    own: Floats
    present: Flags
    reset: tuple[int, ...] = ()


class WorkerSlots:
    """The worker in each slot, and the last measured value of everything."""

    def __init__(self, scale: WorkerScale, slots: int = SLOTS_AT_ONCE) -> None:
        self.scale = scale
        self.names: list[str | None] = [None] * slots
        self._absent_steps = [0] * slots
        self._machine = scale.machine.low.copy()
        self._assign_ranges()
        self._workers, self._own = self._range.low.copy(), self._target_ranges.low.copy()

    def take(self, frame: MachineFrame | None) -> Row:
        """The row of the next step. What was not measured keeps its last value."""
        everyone, wanted = {} if frame is None else frame.workers, set(self.scale.targets)
        workers = {name: worker for name, worker in everyone.items() if wanted & worker.keys()}
        reset = self._assign(workers)
        put(self._machine, {} if frame is None else frame.machine, self.scale.machine_features)
        present = np.zeros(len(self.names), dtype=bool)
        for slot, name in enumerate(self.names):
            if name is not None and name in workers:
                present[slot] = True
                put(self._workers[slot], workers[name], self.scale.worker_features)
                put(self._own[slot], workers[name], self.scale.targets)
        return Row(
            self.scale.machine.inputs(self._machine),
            self._range.inputs(self._workers),
            self._target_ranges.scaled(self._own).astype(np.float32),
            present,
            reset,
        )

    def unscaled(self, scaled: Floats) -> Floats:
        """Targets (the last axis) of all slots (the first) in their own units; none is negative."""
        between = (slice(None), *[None] * (scaled.ndim - 2))
        return np.maximum(self._target_ranges.low[between] + scaled * self._target_ranges.width[between], 0.0)

    def state(self) -> dict[str, Any]:
        """As lists and arrays."""
        return {
            "names": [name or "" for name in self.names],
            "taken": [name is not None for name in self.names],
            "absent_steps": list(self._absent_steps),
            "last_machine": self._machine,
            "last_workers": self._workers,
            "last_own": self._own,
        }

    @classmethod
    def restored(cls, scale: WorkerScale, state: Mapping[str, Any]) -> WorkerSlots:
        """The slots of a saved state."""
        slots = cls(scale, len(state["names"]))
        slots.names = [name if taken else None for name, taken in zip(state["names"], state["taken"], strict=True)]
        slots._absent_steps = [int(each) for each in state["absent_steps"]]
        slots._assign_ranges()
        for part in ("machine", "workers", "own"):
            setattr(slots, f"_{part}", np.array(state[f"last_{part}"], dtype=np.float64))
        return slots

    def _assign(self, workers: Mapping[str, object]) -> tuple[int, ...]:
        """Give each worker a slot; returns the slots that got a new worker."""
        self._absent_steps = [
            0 if name in workers else steps + 1 for name, steps in zip(self.names, self._absent_steps, strict=True)
        ]
        reset = []
        for name in sorted(set(workers) - set(self.names)):
            slot = self._free(workers)
            self.names[slot], self._absent_steps[slot] = name, 0
            reset.append(slot)
        if reset:
            self._assign_ranges()
            self._workers[reset], self._own[reset] = self._range.low[reset], self._target_ranges.low[reset]
        return tuple(reset)

    def _free(self, workers: Mapping[str, object]) -> int:
        """An empty slot, else that of the worker that has been absent for longest, else a new one."""
        if None in self.names:
            return self.names.index(None)
        absent = [slot for slot, name in enumerate(self.names) if name not in workers]
        if absent:
            return max(absent, key=lambda slot: self._absent_steps[slot])
        first = len(self.names)
        self.names += [None] * SLOTS_AT_ONCE
        self._absent_steps += [0] * SLOTS_AT_ONCE
        self._workers, self._own = _longer(self._workers), _longer(self._own)
        return first

    def _assign_ranges(self) -> None:
        """The range of each slot; that of all workers together, the last row, for workers the scale does not know."""
        known = self.scale.names
        rows = [known.index(name) if name in known else -1 for name in self.names]
        self._range, self._target_ranges = self.scale.workers[rows], self.scale.target_ranges[rows]


def slots_for(scale: WorkerScale, frames: Iterable[MachineFrame | None]) -> WorkerSlots:
    """Slots for all workers in some frames, so that no slot changes its worker within a history."""
    workers = {name for frame in frames if frame is not None for name in frame.workers}
    return WorkerSlots(scale, -(-max(len(workers), 1) // SLOTS_AT_ONCE) * SLOTS_AT_ONCE)


def stacked(rows: Sequence[Row]) -> Row:
    """Steps as arrays with a first axis of steps."""
    machine, workers, own, present, _ = zip(*rows, strict=True)
    return Row(np.stack(machine), np.stack(workers), np.stack(own), np.stack(present))


def _longer(rows: Floats) -> Floats:
    return np.concatenate([rows, np.zeros((SLOTS_AT_ONCE, *rows.shape[1:]))])
