"""Generated trouble that announces itself: foreign processes read from the disk for a while before they compute.

What forecasts of worker performance have to see: a worker is slow only once the reading is over, but the reading shows
in its figures before. An easy case on purpose: all reading is followed by trouble, and all trouble follows reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretide.workloads.generator import check_number, check_seed, check_whole

_QUIET, _BUSY = 2.0, 60.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A worker takes `factor` times as long from `start` to `end` (seconds); reading begins `lead` seconds before."""

    worker: str
    factor: float
    start: float
    end: float
    lead: float

    def reads(self, at: float) -> bool:
        """Whether its processes read at a time."""
        return self.start - self.lead <= at < self.start

    def slows(self, at: float) -> bool:
        """Whether the worker is slow at a time."""
        return self.start <= at < self.end


def troubles(
    seed: int, seconds: float, workers: Sequence[str], lead: float = 15.0, every: float = 90.0
) -> list[Trouble]:
    """One after the other, each of a worker drawn at random, until the time is over.

    >>> [round(each.start) for each in troubles(1, 300.0, ["0", "1"])]
    [68, 153, 234]
    """
    check_seed(seed)
    check_whole("workers", len(workers), 1, 1000)
    for name, value in (("seconds", seconds), ("lead", lead), ("every", every)):
        check_number(name, value, 0.0, 1e7)
    rng = np.random.default_rng(seed)
    made: list[Trouble] = []
    start = every * rng.uniform(0.5, 1.0)
    while start < seconds:
        length = float(rng.uniform(0.2, 0.4) * every)
        worker = workers[int(rng.integers(len(workers)))]
        made.append(Trouble(worker, float(rng.uniform(3.0, 7.0)), start, start + length, lead))
        start += length + lead + every * float(rng.uniform(0.2, 0.8))
    return made


def reading(rng: np.random.Generator, found: Sequence[Trouble], worker: str, at: float) -> float:
    """Megabytes a second that the processes beside a worker read at a time, with noise."""
    level = _BUSY if any(each.worker == worker and each.reads(at) for each in found) else _QUIET
    return level * float(np.clip(rng.normal(1.0, 0.1), 0.5, 1.5))
