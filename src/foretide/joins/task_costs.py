"""What the tasks of a join cost, learnt from those that ran: by the rows they take in and the pairs they compare.

Aj-Stream's load |R| x dS (eq 1) counts pairs of rows whatever their keys are. Spark compares rows of one key only, and
each row costs something by itself, each copy as well. So balance by eq 1 is not yet balance of time, and a plan may
cost more in copies than it saves. Both can be told once it is known what a row and a pair cost on this machine, for
this join: by the times that its tasks took.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_KEPT = 0.8
_NOISE = 0.2
_FIRST = (0.03, 25e-6, 0.2e-6)
_FIRST_WRONG = (10.0, 0.3, 100.0)
"""What was usual elsewhere, and by what share it may be wrong. Rows and pairs can hardly be told apart before hot keys
are split, so what rows cost follows most slowly."""


@dataclass(frozen=True, slots=True)
class JoinCost:
    """Seconds of a core: for each task, each row that it takes in, and each pair of rows of one key; and the cores.

    >>> cost = JoinCost(task=0.5, row=0.001, pair=0.0001, cores=2)
    >>> cost.work(rows=[1000, 10], pairs=[20_000, 0])
    [3.5, 0.51]
    >>> cost.span([3.5, 0.51]), cost.span([2.0, 2.0, 2.0])
    (3.5, 3.0)
    """

    task: float
    row: float
    pair: float
    cores: int = 1

    def work(self, rows: Sequence[float], pairs: Sequence[float]) -> list[float]:
        """Seconds of each task."""
        return [self.task + self.row * taken + self.pair * met for taken, met in zip(rows, pairs, strict=True)]

    def span(self, work: Sequence[float]) -> float:
        """Seconds until all tasks are done: as long as the longest one takes, or all of them on all cores."""
        return max(max(work, default=0.0), math.fsum(work) / self.cores)


@dataclass(frozen=True, slots=True)
class CostModel:
    """A linear model of tasks that follows what they took, older ones counting ever less.

    `weights` and `moments` are a Bayesian regression's precision and precision-weighted mean. It begins with what was
    usual elsewhere, and that wears off with the first tasks that tell something else.
    """

    weights: tuple[tuple[float, ...], ...] = tuple(
        tuple((_FIRST[row] * _FIRST_WRONG[row]) ** -2 if row == column else 0.0 for column in range(3))
        for row in range(3)
    )
    moments: tuple[float, ...] = tuple(1 / (_FIRST[place] * _FIRST_WRONG[place] ** 2) for place in range(3))

    def learned(self, rows: Sequence[float], pairs: Sequence[float], seconds: Sequence[float]) -> CostModel:
        """With the tasks of one more batch."""
        tasks = np.column_stack([np.ones(len(rows)), rows, pairs])
        took = np.asarray(seconds, float)
        certain = 1 / max(_NOISE * float(took.mean()), 1e-6) ** 2
        first = CostModel()
        weights = _aged(self.weights, first.weights) + certain * tasks.T @ tasks
        moments = _aged(self.moments, first.moments) + certain * tasks.T @ took
        return CostModel(tuple(map(tuple, weights.tolist())), tuple(moments.tolist()))

    @property
    def cost(self) -> JoinCost:
        """What is most likely, among what is possible: nothing costs less than nothing."""
        weights, moments = np.array(self.weights), np.array(self.moments)
        unit = 1 / np.sqrt(np.diag(weights))  # rows, pairs and tasks differ by many powers of ten
        even, moments = weights * np.outer(unit, unit), moments * unit
        kept = [0, 1, 2]
        while kept:
            found = np.linalg.lstsq(even[np.ix_(kept, kept)], moments[kept])[0] * unit[kept]
            if (found >= 0).all():
                break
            kept.pop(int((found / unit[kept]).argmin()))
        full = dict(zip(kept, found.tolist(), strict=True)) if kept else {}
        return JoinCost(*(full.get(place, 0.0) for place in range(3)))


def _aged(now: object, first: object) -> np.ndarray:
    """What was learnt, worn off a little towards what was known at first."""
    return _KEPT * np.array(now) + (1 - _KEPT) * np.array(first)
