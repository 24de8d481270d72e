"""Disturbances of the workers on a core: most are announced by a signal that rises, some come without one, some signals
are followed by nothing.

A signal is ordinary work of another process on that core, whose share of the core grows until the disturbance begins:
it reads a file, fills memory, or computes. A false signal is the same work at a constant share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foretide.workloads.generator import check_number, check_seed

Signal = Literal["disk", "memory", "load"]
SIGNALS: tuple[Signal, ...] = ("disk", "memory", "load")
Case = Literal["announced", "unannounced", "false"]
CASES: tuple[Case, ...] = ("announced", "unannounced", "false")


@dataclass(frozen=True, slots=True)
class Stress:
    """One disturbance of a core, in seconds: its signal begins `lead` before `start`; without a signal `lead` is 0.

    `loops` busy loops run from `start` to `end`; a false signal has none, and lasts until `end`.
    """

    case: Case
    signal: Signal
    core: int
    start: float
    end: float
    lead: float
    loops: int

    @property
    def signals(self) -> tuple[float, float]:
        """When its signal begins and ends; an empty time for one that is not announced."""
        return self.start - self.lead, self.start


def stresses(
    seed: int, seconds: float, cores: Sequence[int], signals: Sequence[Signal] = SIGNALS, share: float = 0.6
) -> list[Stress]:
    """One disturbance after the other until the time is over; a `share` of them is announced.

    >>> [(each.case, each.signal, round(each.start)) for each in stresses(1, 120.0, [0, 1])]
    [('announced', 'load', 31), ('false', 'memory', 64), ('unannounced', 'disk', 72), ('announced', 'disk', 100)]
    """
    check_seed(seed)
    check_number("seconds", seconds, 0.0, 1e6)
    rng = np.random.default_rng(seed)
    made: list[Stress] = []
    free = 10.0
    while True:
        case: Case = CASES[int(rng.choice(3, p=[share, (1 - share) / 2, (1 - share) / 2]))]
        signal = signals[int(rng.integers(len(signals)))]
        lead = 0.0 if case == "unannounced" else float(rng.uniform(8.0, 20.0))
        start = free + lead + float(rng.uniform(4.0, 12.0))
        end = start if case == "false" else start + float(rng.uniform(8.0, 18.0))
        loops = 0 if case == "false" else int(rng.integers(4, 8))
        if end > seconds:
            return made
        made.append(Stress(case, signal, int(rng.choice(np.asarray(cores))), start, end, lead, loops))
        free = end
