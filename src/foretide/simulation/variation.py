"""What varies in a simulation: times around their mean, and arrivals that follow a curve.

Random numbers come from a NumPy generator that the caller passes. How many values are drawn at a time changes nothing:
a stream gives the same values in one piece or in many.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from foretide.errors import ModelError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foretide.queueing.model import CurveShape

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Family = Literal["gamma", "lognormal"]

_MAX_SURPLUS = 100_000
"""Gaps that are drawn at once beyond those expected, where they vary so much that most are close to 0."""


@dataclass(frozen=True, slots=True)
class Variation:
    """How a time varies around its mean.

    >>> Variation(scv=0.0).unit(np.random.default_rng(1), 3)
    array([1., 1., 1.])
    >>> spiky = Variation(scv=4.0, family="lognormal").unit(np.random.default_rng(1), 100_000)
    >>> float(spiky.mean().round(1)), float(spiky.var().round())
    (1.0, 4.0)

    Attributes:
        scv: Squared coefficient of variation: 0 is deterministic; 1 with the gamma family is exponential.
        family: What the times look like for other values; lognormal has the heavier tail.
    """

    scv: float = 1.0
    family: Family = "gamma"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scv) and self.scv >= 0):
            raise ModelError([Problem("variation", f"scv is {self.scv:g}", "Give a finite number, 0 or more.")])

    def unit(self, rng: np.random.Generator, count: int) -> Floats:
        """That many independent values of mean 1."""
        if self.scv == 0:
            return np.ones(count)
        if self.family == "lognormal":
            variance = math.log1p(self.scv)
            return np.exp(math.sqrt(variance) * rng.standard_normal(count) - variance / 2)
        if self.scv == 1:
            return rng.standard_exponential(count)
        return rng.standard_gamma(1 / self.scv, count) * self.scv


@dataclass(frozen=True)
class RateCurve:
    """An arrival rate over time; the last one holds for ever.

    >>> surge = RateCurve(since=(0.0, 60.0), rates=(100.0, 400.0))
    >>> surge.expected(61.0)
    6400.0
    >>> RateCurve((0.0, 60.0), (100.0, 400.0), shape="linear").expected(60.0)
    15000.0

    Attributes:
        since: When each rate is reached, in seconds; starts at 0 and does not fall.
        rates: Tuples a second; 0 is a pause.
        shape: "steps" holds each rate until the next, "linear" goes straight to it.
    """

    since: tuple[float, ...]
    rates: tuple[float, ...]
    shape: CurveShape = "steps"

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ModelError(problems)

    def _problems(self) -> Iterator[Problem]:
        if len(self.since) != len(self.rates) or not self.since:
            what = f"has {len(self.since)} times and {len(self.rates)} rates"
            yield Problem("arrival curve", what, "Give one rate for each time.")
        elif self.since[0] != 0 or np.any(np.diff(self.since) < 0) or not np.all(np.isfinite(self.since)):
            yield Problem("arrival curve", f"its times are {self.since}", "Start at 0 and do not go back.")
        for rate in self.rates:
            if not (math.isfinite(rate) and rate >= 0):
                yield Problem("arrival curve", f"a rate is {rate:g}", "Give a finite rate, 0 or more.")

    @classmethod
    def constant(cls, rate: float) -> RateCurve:
        """The same rate for ever."""
        return cls((0.0,), (rate,))

    @property
    def peak(self) -> float:
        """The highest rate."""
        return max(self.rates)

    def expected(self, time: float) -> float:
        """Tuples expected before that time."""
        piece = max(bisect_left(self.since, time) - 1, 0)
        into = max(time - self.since[piece], 0.0)
        slope = float(self._slopes[piece])
        return float(self._knots[piece]) + self.rates[piece] * into + slope * into * into / 2

    def when(self, expected: Floats) -> Floats:
        """The times at which that many tuples are expected; infinite if that never happens."""
        piece = np.maximum(np.searchsorted(self._knots, expected, side="left") - 1, 0)
        rate, slope = np.array(self.rates)[piece], self._slopes[piece]
        more = expected - self._knots[piece]
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(np.maximum(rate * rate + 2 * slope * more, 0.0))
            into = np.where(slope == 0, more / rate, 2 * more / (rate + root))
        return np.asarray(np.array(self.since)[piece] + into, dtype=np.float64)

    @cached_property
    def _slopes(self) -> Floats:
        slopes = np.zeros(len(self.since))
        if self.shape == "linear":
            run = np.diff(self.since)
            np.divide(np.diff(self.rates), run, out=slopes[:-1], where=run > 0)
        return slopes

    @cached_property
    def _knots(self) -> Floats:
        """Tuples expected before each rate is reached."""
        run = np.diff(self.since)
        whole = np.array(self.rates[:-1]) * run + self._slopes[:-1] * run * run / 2
        return np.concatenate(([0.0], np.cumsum(whole)))


class ArrivalStream:
    """Arrival times along a curve, returned up to one horizon after the other.

    The gaps are drawn on a scale on which one tuple is expected a unit, then mapped to seconds by the curve.
    With scv 1 this is exactly the Poisson process with that rate; with scv 0 arrivals are exactly regular.

    >>> regular = ArrivalStream(RateCurve.constant(2.0), Variation(0.0), np.random.default_rng(1), end=2.1)
    >>> regular.until(1.2), regular.until(9.0)
    (array([0.5, 1. ]), array([1.5, 2. ]))
    """

    def __init__(self, curve: RateCurve, variation: Variation, rng: np.random.Generator, end: float) -> None:
        self._curve, self._variation, self._rng, self._end = curve, variation, rng, end
        self._reached = 0.0
        self._held = np.empty(0)

    def until(self, horizon: float) -> Floats:
        """All arrivals before the horizon (and the end) that were not returned yet."""
        horizon = min(horizon, self._end)
        self._draw_past(horizon)
        cut = int(np.searchsorted(self._held, horizon, side="left"))
        due, self._held = self._held[:cut], self._held[cut:]
        return due

    def peek(self) -> float:
        """When the next tuple arrives; infinite if none will."""
        while not len(self._held) and self._reached < self._curve.expected(self._end):
            self._draw(64)
        return float(self._held[0]) if len(self._held) and self._held[0] < self._end else math.inf

    def _draw_past(self, horizon: float) -> None:
        target = self._curve.expected(horizon)
        while self._reached < target:
            self._draw(int(target - self._reached) + 64 + int(min(self._variation.scv, _MAX_SURPLUS)))

    def _draw(self, count: int) -> None:
        gaps = self._variation.unit(self._rng, count)
        reached = np.cumsum(np.concatenate(([self._reached], gaps)))[1:]
        self._reached = float(reached[-1])
        self._held = np.concatenate((self._held, self._curve.when(reached)))


def one_by_one(draw: Callable[[int], Floats], block: int = 4096) -> Iterator[float]:
    """The values of `draw` for code that needs one at a time.

    >>> next(one_by_one(np.ones))
    1.0
    """
    while True:
        yield from draw(block).tolist()
