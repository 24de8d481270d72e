"""Frames of the workers, a step each, out of what is measured of workers and machines at any times."""

from __future__ import annotations

import math
from collections import deque

from foretide.forecasting.workers.frames import MachineFrame
from foretide.metrics.catalogue.registry import CATALOGUE
from foretide.metrics.metric import Level, Sample

_LONGEST_GAP = 60
_LATE = 5
_GRACE = 0.25


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
        newest = self._number if self._number is not None or self.last is None else self.last + 1
        if newest is not None and newest - _LATE < number < newest:
            return []
        closed = self._close(number) if newest is not None and number != newest else []
        self._number = number
        if metric.level is Level.WORKER and sample.value >= 0:
            self._workers.setdefault(sample.subject, {})[sample.metric] = sample.value
        elif metric.level is Level.MACHINE and "/" not in sample.subject:
            self._machine[f"{sample.metric} of {sample.subject}"] = sample.value
        return closed

    def pass_time(self, now: float) -> list[MachineFrame | None]:
        """The frame whose step is over although nothing came after it; a quarter of a step is left for late figures."""
        number = int((now - _GRACE * self.step) // self.step)
        if self._number is None or number <= self._number:
            return []
        closed = self._close(self._number + 1)
        self._number = None
        return closed

    def _close(self, number: int) -> list[MachineFrame | None]:
        """The frame that was open, if any, and silent steps up to `number`; a clock set back leaves no gap."""
        closed: list[MachineFrame | None] = []
        after = number if self.last is None else self.last + 1
        if self._number is not None:
            closed.append(MachineFrame(self._machine, self._workers) if self._machine or self._workers else None)
            after = self._number + 1
        self._machine, self._workers = {}, {}
        self.last = number - 1
        closed += [None] * min(max(number - after, 0), _LONGEST_GAP)
        self.whole.extend(closed)
        return closed
