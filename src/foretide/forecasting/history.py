"""What a load model remembers of its series: a bounded record without gaps or values that are no load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretide.errors import BadSeriesError
from foretide.forecasting.forecaster import Floats

LIMIT = 20_000
"""How many values are remembered at least; up to half as many more may be kept for a while."""

LARGEST = 1e100
"""Beyond it squares overflow; no load is that large."""

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
            f"value {place + 1} of {len(values)} is {values[place]:g}: a load is a number from 0 to {LARGEST:g}. "
            "Give None where nothing was measured."
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
        """What would be appended: gaps bridged, and gaps before the very first value left out."""
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
        """Drop the oldest values when there are too many; says how many were dropped."""
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


def rounded_up(share: float, count: int) -> int:
    """A share of a number of things, at least one."""
    return max(1, math.ceil(share * count))
