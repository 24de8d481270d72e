"""Seasons: how many steps a day and a week have, and finding a period in a series that says nothing of time."""

from __future__ import annotations

import numpy as np

from foretide.forecasting.forecaster import Floats

_DAY = 86_400
_SHORTEST = 4
_LONGEST_SEARCHED = 4096
_CLEAR = 0.3
_ALIKE = 0.9  # multiples of a season look alike: of those the first is meant


def calendar_seasons(step_seconds: float) -> tuple[int, ...]:
    """A day and a week in steps, as far as they are whole numbers of at least four steps.

    >>> calendar_seasons(1800.0)
    (48, 336)
    """
    steps = [length / step_seconds for length in (_DAY, 7 * _DAY)]
    return tuple(round(each) for each in steps if each == round(each) and each >= _SHORTEST)


def usable(seasons: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Those of which a series of that size shows two whole ones."""
    return tuple(season for season in seasons if 2 * season <= size)


def find_seasons(values: Floats) -> tuple[int, ...]:
    """The period at which the series resembles itself most, if it clearly does; found by autocorrelation.

    >>> find_seasons(np.tile([1.0, 5.0, 9.0, 5.0, 2.0, 1.0], 30))
    (6,)
    >>> find_seasons(np.full(100, 3.0))
    ()
    """
    logs = np.log1p(values[-_LONGEST_SEARCHED:])
    size = len(logs)
    around = logs - logs.mean()
    power = np.abs(np.fft.rfft(around, 2 * size)) ** 2
    sums = np.fft.irfft(power)[: size // 3]
    if len(sums) <= _SHORTEST or sums[0] <= 1e-12 * size:
        return ()
    likeness = sums / sums[0] * size / (size - np.arange(len(sums)))
    fallen = np.flatnonzero(likeness < _CLEAR / 2)
    if not len(fallen):
        return ()
    start = max(_SHORTEST, int(fallen[0]))
    if start >= len(likeness):
        return ()
    inner = likeness[start:-1]
    peaks = start + np.flatnonzero((inner >= likeness[start - 1 : -2]) & (inner >= likeness[start + 1 :]))
    clear = peaks[likeness[peaks] >= max(_CLEAR, _ALIKE * likeness[peaks].max(initial=0.0))]
    return (int(clear[0]),) if len(clear) else ()
