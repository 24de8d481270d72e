"""The history that a load model remembers, and the seasons in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretide.errors import BadSeriesError
from foretide.forecasting.forecaster import Floats

LIMIT = 20_000
"""The number of values that are remembered; up to half as many more are kept for a while."""

LARGEST = 1e100
"""The largest load; beyond it squares overflow."""

Mask = NDArray[np.bool_]


def checked(seen: Sequence[float | None]) -> tuple[Floats, Mask]:
    """The values, 0 where there is a gap, and which of them are known.

    >>> checked([2.0, None, 3.0])
    (array([2., 0., 3.]), array([ True, False,  True]))

    Raises:
        BadSeriesError: A value is NaN, infinite, negative or beyond `LARGEST`; the message says which.
    """
    known = np.array([value is not None for value in seen], dtype=np.bool_)
    values = np.array([0.0 if value is None else value for value in seen], dtype=np.float64)
    wrong = ~((values >= 0) & (values <= LARGEST))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise BadSeriesError(
            f"value {place + 1} of {len(values)} must be between 0 and {LARGEST:g}, got {values[place]:g}; "
            "give None where nothing was measured"
        )
    return values, known


@dataclass
class History:
    """The last values, oldest first. A gap is bridged by the value before it and marked as not known."""

    values: Floats = field(default_factory=lambda: np.empty(0))
    known: Mask = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.values)

    def bridge(self, values: Floats, known: Mask) -> tuple[Floats, Mask]:
        """The values to append: gaps bridged, and gaps before the very first value left out."""
        if not len(self) and not known.all():
            first = int(np.argmax(known)) if known.any() else len(known)
            values, known = values[first:], known[first:]
        before = np.concatenate([self.values[-1:], values])
        present = np.concatenate([np.ones(len(self.values[-1:]), dtype=np.bool_), known])
        source = np.maximum.accumulate(np.where(present, np.arange(len(before)), 0))
        return before[source][len(before) - len(values) :], known

    def extend(self, values: Floats, known: Mask) -> None:
        """Append values that `bridge` has prepared."""
        self.values = np.concatenate([self.values, values])
        self.known = np.concatenate([self.known, known])

    def forget(self) -> int:
        """Drop the oldest values when there are too many; returns how many were dropped."""
        surplus = len(self) - LIMIT
        if surplus <= LIMIT // 2:
            return 0
        self.values, self.known = self.values[surplus:], self.known[surplus:]
        return surplus


def windows(values: Floats, first: int, reach: int) -> Floats:
    """For each position from `first` on the `reach` values up to it, padded with the oldest (a view, not copies).

    >>> windows(np.array([1.0, 2.0, 3.0]), 1, 3)
    array([[1., 1., 2.],
           [1., 2., 3.]])
    """
    start = first - reach + 1
    padding = np.full(max(0, -start), values[0])
    padded = np.concatenate([padding, values[max(0, start) :]])
    view: Floats = np.lib.stride_tricks.sliding_window_view(padded, reach)
    return view


_DAY_SECONDS = 86_400
_MIN_SEASON = 4
_MAX_SEARCHED = 4096
_MIN_CORRELATION = 0.3
_ALIKE = 0.9  # multiples of a season correlate alike: the first one is taken


def calendar_seasons(step_seconds: float) -> tuple[int, ...]:
    """A day and a week in steps, as far as they are whole numbers of at least four steps.

    >>> calendar_seasons(1800.0)
    (48, 336)
    """
    steps = [length / step_seconds for length in (_DAY_SECONDS, 7 * _DAY_SECONDS)]
    return tuple(round(each) for each in steps if each == round(each) and each >= _MIN_SEASON)


def usable(seasons: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The seasons that a series of that size contains twice."""
    return tuple(season for season in seasons if 2 * season <= size)


def find_seasons(values: Floats) -> tuple[int, ...]:
    """The period with the highest autocorrelation, if it is high enough.

    >>> find_seasons(np.tile([1.0, 5.0, 9.0, 5.0, 2.0, 1.0], 30))
    (6,)
    >>> find_seasons(np.full(100, 3.0))
    ()
    """
    logs = np.log1p(values[-_MAX_SEARCHED:])
    size = len(logs)
    around = logs - logs.mean()
    power = np.abs(np.fft.rfft(around, 2 * size)) ** 2
    sums = np.fft.irfft(power)[: size // 3]
    if len(sums) <= _MIN_SEASON or sums[0] <= 1e-12 * size:
        return ()
    correlation = sums / sums[0] * size / (size - np.arange(len(sums)))
    fallen = np.flatnonzero(correlation < _MIN_CORRELATION / 2)
    if not len(fallen):
        return ()
    start = max(_MIN_SEASON, int(fallen[0]))
    if start >= len(correlation):
        return ()
    inner = correlation[start:-1]
    peaks = start + np.flatnonzero((inner >= correlation[start - 1 : -2]) & (inner >= correlation[start + 1 :]))
    clear = peaks[correlation[peaks] >= max(_MIN_CORRELATION, _ALIKE * correlation[peaks].max(initial=0.0))]
    return (int(clear[0]),) if len(clear) else ()
