"""Frames of the workers, a step each, out of what is measured of workers and machines at any times."""

from __future__ import annotations

import math
from collections import deque

from foretide.forecasting.workers import MachineFrame
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level, Sample

_LONGEST_GAP = 60
_LATE = 5


class Frames:
    """The newest figure of everything in each step. One net sees all workers, whatever machine they are on.

    Figures of a machine carry its name, so that those of several machines stay apart.
    """

    def __init__(self, step: float, keep: int) -> None:
        self.step = step
        self.whole: deque[MachineFrame | None] = deque(maxlen=keep)
        self.last: int | None = None
        """The number of the last whole step, counted from time 0."""
        self._number: int | None = None
        self._machine: dict[str, float] = {}
        self._workers: dict[str, dict[str, float]] = {}

    def add(self, sample: Sample) -> list[MachineFrame | None]:
        """Take in one figure; the frames that became whole by it. Others than of workers and machines are left out."""
        metric = CATALOGUE.get(sample.metric)
        if metric is None or not math.isfinite(sample.value) or not math.isfinite(sample.at):
            return []
        number = int(sample.at // self.step)
        if self._number is not None and self._number - _LATE < number < self._number:
            return []
        closed = self._close(number) if self._number is not None and number != self._number else []
        self._number = number
        if metric.level is Level.WORKER and sample.value >= 0:
            self._workers.setdefault(sample.subject, {})[sample.metric] = sample.value
        elif metric.level is Level.MACHINE and "/" not in sample.subject:
            self._machine[f"{sample.metric} of {sample.subject}"] = sample.value
        return closed

    def _close(self, number: int) -> list[MachineFrame | None]:
        """The frame that was open, and those of silent steps up to `number`; a clock set back leaves no gap."""
        begun = number - 1 if self._number is None else self._number
        silent = min(max(number - begun - 1, 0), _LONGEST_GAP)
        found = MachineFrame(self._machine, self._workers) if self._machine or self._workers else None
        self._machine, self._workers = {}, {}
        self.last = number - 1
        closed = [found, *[None] * silent]
        self.whole.extend(closed)
        return closed
