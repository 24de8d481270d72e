"""Features of machines and workers as numbers around 0 to 1, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.workers.frames import Flags, WorkerHistory

_WIDEST = float(np.finfo(np.float64).max) / 1e7
_FAR = 1e6


@dataclass(frozen=True, slots=True)
class Range:
    """What is scaled to 0 and to 1, for each feature; a feature without width was constant."""

    low: Floats
    width: Floats

    @classmethod
    def of(cls, values: Floats) -> Range:
        """The range of each column; NaN is a gap. Halves keep the width of huge ranges finite."""
        low = np.fmin.reduce(values, axis=0, initial=np.inf)
        high = np.fmax.reduce(values, axis=0, initial=-np.inf)
        seen = low <= high
        low, high = np.where(seen, low, 0.0), np.where(seen, high, 0.0)
        return cls(low, np.minimum(2 * (high / 2 - low / 2), _WIDEST))

    def of_features(self, which: Sequence[int] | NDArray[np.int64]) -> Range:
        """The ranges of some of the features."""
        return Range(self.low[..., which], self.width[..., which])

    def of_rows(self, rows: Sequence[int]) -> Range:
        """The ranges of some rows, where there is one for each worker."""
        return Range(self.low[rows], self.width[rows])

    def scaled(self, values: Floats) -> Floats:
        """0 to 1 within the range; 0 for a constant."""
        with np.errstate(over="ignore"):
            moved = (values - self.low) / np.where(self.width > 0, self.width, np.inf)
        return np.clip(moved, -_FAR, _FAR)

    def back(self, scaled: Floats) -> Floats:
        """From scaled numbers to the feature's own unit."""
        return self.low + scaled * self.width


@dataclass(frozen=True, slots=True)
class WorkerScale:
    """Min-max scales, learnt with a net and kept with it (predictive-control, section III-B).

    Stream features have a scale a worker, process features one for all workers of the machine. A worker that was not
    there when the scale was learnt gets the scale of all workers together, the last row. Features that never changed
    are left out. Inputs are clipped to [-1, 2], so that a burst beyond all that was seen does not unhinge the net.
    """

    names: tuple[str, ...]
    machine_features: tuple[str, ...]
    worker_features: tuple[str, ...]
    targets: tuple[str, ...]
    machine: Range
    workers: Range
    aims: Range

    @classmethod
    def of(cls, history: WorkerHistory, targets: tuple[str, ...], process_features: frozenset[str]) -> WorkerScale:
        """The scales of a history."""
        machine = Range.of(history.machine)
        anyone = Range.of(history.workers.reshape(-1, len(history.worker_features)))
        shared = np.array([name in process_features for name in history.worker_features], dtype=bool)
        rows = [_of_worker(history.workers[:, at], anyone, shared) for at in range(len(history.names))] + [anyone]
        workers = Range(np.stack([row.low for row in rows]), np.stack([row.width for row in rows]))
        moving_machine, moving = np.flatnonzero(machine.width), np.flatnonzero(anyone.width)
        return cls(
            history.names,
            tuple(history.machine_features[at] for at in moving_machine),
            tuple(history.worker_features[at] for at in moving),
            targets,
            machine.of_features(moving_machine),
            workers.of_features(moving),
            workers.of_features([history.worker_features.index(target) for target in targets]),
        )

    def rows_of(self, names: Sequence[str | None]) -> list[int]:
        """The rows of some workers; the last one for who was not there."""
        return [self.names.index(name) if name in self.names else -1 for name in names]

    def state(self) -> dict[str, Any]:
        """As lists of names and arrays."""
        names = {part: list(getattr(self, part)) for part in _NAMES}
        arrays = {
            f"{part}_{side}": getattr(getattr(self, part), side) for part, side in product(_RANGES, ("low", "width"))
        }
        return names | arrays

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> WorkerScale:
        """The scale of a kept state."""
        names = {part: tuple(state[part]) for part in _NAMES}
        ranges = {part: Range(_floats(state[f"{part}_low"]), _floats(state[f"{part}_width"])) for part in _RANGES}
        parts: dict[str, Any] = names | ranges
        return cls(**parts)


_NAMES = ("names", "machine_features", "worker_features", "targets")
_RANGES = ("machine", "workers", "aims")


def _of_worker(values: Floats, anyone: Range, shared: Flags) -> Range:
    """The worker's own range, but that of all workers for process features and where its own has no width."""
    own = Range.of(values)
    wide = shared | (own.width == 0)
    return Range(np.where(wide, anyone.low, own.low), np.where(wide, anyone.width, own.width))


def clipped(scaled: Floats) -> Floats:
    """Inputs of a net: a burst beyond all that was seen is only far."""
    return np.clip(scaled, -1.0, 2.0)


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)
