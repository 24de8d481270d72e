"""Scales of charts: round numbers for ticks, places of values, and series with no more points than can be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from foretide.formatting import format_number
from foretide.status.run_record import Points

_STEPS = (1.0, 2.0, 5.0, 10.0)
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_LONGEST_IN_SECONDS = 180.0
_LOG_FROM = 30.0
"""A logarithmic scale is used where the largest value is so many times the typical one."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value is, within the ends.

        >>> Scale(0, 10, 0, 100).place(5), Scale(1, 100, 0, 100, log=True).place(10)
        (50.0, 50.0)
        """
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        share = (at - low) / (high - low) if high > low else 0.0
        return round(self.start + share * (self.end - self.start), 1)


def values_scale(values: Sequence[float], start: float, end: float, typical: float | None = None) -> Scale:
    """A scale from 0 to the next round number, or a logarithmic one where a value is far above the `typical` one.

    >>> values_scale([0.3, 1.7], 100, 0)
    Scale(low=0.0, high=2.0, start=100, end=0, log=False)
    """
    positive = [value for value in values if value > 0]
    highest = max(positive, default=1.0)
    if typical and highest > _LOG_FROM * typical:
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(highest))
        return Scale(10.0**low, 10.0**high, start, end, log=True)
    step = _round_step(highest / 4)
    return Scale(0.0, step * math.ceil(highest / step - 1e-9), start, end)


def _round_step(wanted: float) -> float:
    power = 10.0 ** math.floor(math.log10(wanted))
    return next((step * power for step in _STEPS if step * power >= wanted * (1 - 1e-9)), 10.0 * power)


def ticks(scale: Scale) -> list[float]:
    """Round numbers along a scale.

    >>> ticks(Scale(0.0, 2.0, 0, 1)), ticks(Scale(0.1, 100.0, 0, 1, log=True))
    ([0.0, 0.5, 1.0, 1.5, 2.0], [0.1, 1.0, 10.0, 100.0])
    """
    if scale.log:
        powers = range(round(math.log10(scale.low)), round(math.log10(scale.high)) + 1)
        return [10.0**power for power in powers]
    step = _round_step(scale.high / 4)
    return [step * place for place in range(round(scale.high / step) + 1)]


def time_ticks(seconds: float, most: int = 8) -> list[tuple[float, str]]:
    """Round times from the start of a run, and what is written there.

    >>> time_ticks(100.0)
    [(0, '0 s'), (15, '15 s'), (30, '30 s'), (45, '45 s'), (60, '60 s'), (75, '75 s'), (90, '90 s')]
    """
    days = _DAY * math.ceil(seconds / _DAY / most)
    step = next((each for each in _TIME_STEPS if seconds / each <= most), days)
    return [(place * step, elapsed(place * step, seconds)) for place in range(int(seconds // step) + 1)]


def elapsed(at: float, of: float) -> str:
    """A time from the start of a run that lasts `of` seconds.

    >>> elapsed(90, of=120), elapsed(90, of=3600), elapsed(5400, of=86_400)
    ('90 s', '1.5 min', '1.5 h')
    """
    if of <= _LONGEST_IN_SECONDS:
        return f"{format_number(at, 3)} s"
    unit, name = (_MINUTE, "min") if of <= 3 * _HOUR else (_HOUR, "h") if of <= 3 * _DAY else (_DAY, "d")
    return f"{format_number(at / unit, 3)} {name}"


def thinned(points: Points, most: int, *, highest: bool = True) -> Points:
    """At most so many points: of each part of the time, its highest value, or its mean.

    >>> thinned(((0.0, 1.0), (1.0, 9.0), (2.0, 2.0), (3.0, 4.0)), 2)
    ((1.0, 9.0), (3.0, 4.0))
    """
    if len(points) <= most:
        return points
    begin, width = points[0][0], (points[-1][0] - points[0][0]) / most or 1.0
    parts: dict[int, list[tuple[float, float]]] = {}
    for at, value in points:
        parts.setdefault(min(int((at - begin) / width), most - 1), []).append((at, value))
    if highest:
        return tuple(max(part, key=lambda point: point[1]) for part in parts.values())
    return tuple((part[-1][0], sum(value for _, value in part) / len(part)) for part in parts.values())
