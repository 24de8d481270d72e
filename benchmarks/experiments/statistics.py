"""Median, spread and noise of repetitions. Pure.

A repetition has one figure for a side and a measure: the median of its raw samples. Sides of one repetition ran one
after the other under the same conditions, so differences are taken within it. The noise is that of an A/A run: in each
repetition the first side runs twice, first and last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Spread:
    """The figures of all repetitions: their median, quartiles and extremes."""

    median: float
    low: float
    high: float
    least: float
    most: float
    count: int


def figure(samples: Sequence[float]) -> float:
    """The figure of a repetition: the median of its samples, nan if there are none.

    >>> figure([3.0, 1.0, 2.0])
    2.0
    """
    return median(samples) if samples else math.nan


def spread(figures: Sequence[float]) -> Spread:
    """Median and spread of repetitions; those without a figure are left out.

    >>> spread([1.0, 2.0, 3.0, math.nan])
    Spread(median=2.0, low=1.5, high=2.5, least=1.0, most=3.0, count=3)
    """
    found = [each for each in figures if not math.isnan(each)]
    if not found:
        return Spread(*(math.nan,) * 5, count=0)
    low, _, high = quantiles(found, n=4, method="inclusive") if len(found) > 1 else (found[0],) * 3
    return Spread(median(found), low, high, min(found), max(found), len(found))


def change(figure: float, base: float) -> float:
    """How far a figure is from another one, as a share of that; nan if that cannot be said.

    >>> change(3.0, 2.0), change(0.0, 0.0), change(1.0, 0.0)
    (0.5, 0.0, inf)
    """
    if math.isnan(figure) or math.isnan(base):
        return math.nan
    if base == 0:
        return 0.0 if figure == 0 else math.copysign(math.inf, figure)
    return (figure - base) / abs(base)


def changes(figures: Sequence[float], bases: Sequence[float]) -> list[float]:
    """The change within each repetition; those without one are left out.

    >>> changes([2.0, 6.0], [1.0, 4.0])
    [1.0, 0.5]
    """
    found = [change(one, other) for one, other in zip(figures, bases, strict=True)]
    return [each for each in found if not math.isnan(each)]


def noise(first: Sequence[float], again: Sequence[float]) -> float | None:
    """The largest difference between two runs of one side in a repetition, as a share; None without a second run.

    >>> noise([1.0, 2.0], [1.1, 2.0]), noise([1.0], [])
    (0.10000000000000009, None)
    """
    pairs = list(zip(first, again, strict=False))
    found = [abs(each) for one, other in pairs if not math.isnan(each := change(other, one))]
    return max(found, default=None)


def beyond_noise(figures: Sequence[float], bases: Sequence[float], noise: float | None) -> bool | None:
    """Whether two sides differ by more than one side differs from itself; None if the noise is not known.

    >>> beyond_noise([2.0, 2.2], [1.0, 1.0], 0.2), beyond_noise([1.1], [1.0], 0.2), beyond_noise([2.0], [1.0], None)
    (True, False, None)
    """
    found = changes(figures, bases)
    if noise is None or not found:
        return None
    return abs(median(found)) > noise
