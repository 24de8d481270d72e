"""Frames as rows of a net's input: each worker has a place, so that arrays keep their size when workers come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.workers.frames import Flags, MachineFrame, put
from foretide.forecasting.workers.scaling import WorkerScale, clipped

PLACES = 8
"""Places come in so many at a time."""


class Row(NamedTuple):
    """One step, scaled, in single precision: the fields of `workers_net.Seen`, and places that changed hands."""

    machine: Floats
    workers: Floats
    own: Floats
    present: Flags
    reset: tuple[int, ...] = ()


class WorkerSlots:
    """Who sits where, and the last measured value of everything."""

    def __init__(self, scale: WorkerScale, places: int = PLACES) -> None:
        self.scale = scale
        self.names: list[str | None] = [None] * places
        self._away = [0] * places
        self._machine = scale.machine.low.copy()
        self._seat_all()
        self._workers, self._own = self._range.low.copy(), self._aims.low.copy()

    @property
    def places(self) -> int:
        """How many workers fit."""
        return len(self.names)

    def take(self, frame: MachineFrame | None) -> Row:
        """The row of one more step. What was not measured keeps its last value."""
        workers = {} if frame is None else self._complete(frame)
        reset = self._seat(workers)
        put(self._machine, {} if frame is None else frame.machine, self.scale.machine_features)
        present = np.zeros(self.places, dtype=bool)
        for place, name in enumerate(self.names):
            if name is not None and name in workers:
                present[place] = True
                put(self._workers[place], workers[name], self.scale.worker_features)
                put(self._own[place], workers[name], self.scale.targets)
        return Row(
            clipped(self.scale.machine.scaled(self._machine)).astype(np.float32),
            clipped(self._range.scaled(self._workers)).astype(np.float32),
            self._aims.scaled(self._own).astype(np.float32),
            present,
            reset,
        )

    def unscaled(self, scaled: Floats) -> Floats:
        """Targets (the last axis) of all places (the first) in their own units; none is negative."""
        between = (slice(None), *[None] * (scaled.ndim - 2))
        return np.maximum(self._aims.low[between] + scaled * self._aims.width[between], 0.0)

    def state(self) -> dict[str, Any]:
        """As lists and arrays."""
        return {
            "names": [name or "" for name in self.names],
            "taken": [name is not None for name in self.names],
            "away": list(self._away),
            "last_machine": self._machine,
            "last_workers": self._workers,
            "last_own": self._own,
        }

    @classmethod
    def restored(cls, scale: WorkerScale, state: Mapping[str, Any]) -> WorkerSlots:
        """The board of a kept state."""
        board = cls(scale, len(state["names"]))
        board.names = [name if taken else None for name, taken in zip(state["names"], state["taken"], strict=True)]
        board._away = [int(each) for each in state["away"]]
        board._seat_all()
        for part in ("machine", "workers", "own"):
            setattr(board, f"_{part}", np.array(state[f"last_{part}"], dtype=np.float64))
        return board

    def _complete(self, frame: MachineFrame) -> dict[str, Mapping[str, float]]:
        """The workers with all that is to be forecast."""
        wanted = set(self.scale.targets)
        return {name: worker for name, worker in frame.workers.items() if wanted <= worker.keys()}

    def _seat(self, workers: Mapping[str, object]) -> tuple[int, ...]:
        """Find a place for everyone; returns the places that went to somebody new."""
        self._away = [0 if name in workers else away + 1 for name, away in zip(self.names, self._away, strict=True)]
        reset = []
        for name in sorted(set(workers) - set(self.names)):
            place = self._free(workers)
            self.names[place], self._away[place] = name, 0
            reset.append(place)
        if reset:
            self._seat_all()
            self._workers[reset], self._own[reset] = self._range.low[reset], self._aims.low[reset]
        return tuple(reset)

    def _free(self, workers: Mapping[str, object]) -> int:
        """An empty place, or that of who has been away for longest, or one of a new row of places."""
        if None in self.names:
            return self.names.index(None)
        gone = [place for place, name in enumerate(self.names) if name not in workers]
        if gone:
            return max(gone, key=lambda place: self._away[place])
        first = self.places
        self.names += [None] * PLACES
        self._away += [0] * PLACES
        self._workers, self._own = _longer(self._workers), _longer(self._own)
        return first

    def _seat_all(self) -> None:
        rows = self.scale.rows_of(self.names)
        self._range, self._aims = self.scale.workers.of_rows(rows), self.scale.aims.of_rows(rows)


def board_for(scale: WorkerScale) -> WorkerSlots:
    """A board with a place for everyone that the scale knows, so that no place changes hands in a history."""
    return WorkerSlots(scale, -(-max(len(scale.names), 1) // PLACES) * PLACES)


def stacked(rows: Sequence[Row]) -> Row:
    """Steps one after the other, for training."""
    machine, workers, own, present, _ = zip(*rows, strict=True)
    return Row(np.stack(machine), np.stack(workers), np.stack(own), np.stack(present))


def _longer(rows: Floats) -> Floats:
    return np.concatenate([rows, np.zeros((PLACES, *rows.shape[1:]))])
