"""What a load model remembers: its values, the seasons in them, its past errors, and the drift in those.

Errors are measured in logarithms (loads vary by factors) and in units of the recent movement of the series, so that a
forecast is wide after turbulent steps and narrow after calm ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretide.errors import BadSeriesError
from foretide.forecasting.forecaster import LEVELS, Floats

LIMIT = 20_000
"""The number of values that are remembered; up to half as many more are kept for a while."""

LARGEST = 1e100
"""The largest load; beyond it squares overflow."""

LEARNT = LIMIT + LIMIT // 2
"""The number of latest values of a longer series that are learnt: earlier ones would be forgotten again."""

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


WINDOW = 1500
"""The number of latest errors that count."""

REACH = 97
"""The number of values that the recent movement is computed from."""

MAX_LOG_ERROR = 3.0
"""Errors are bounded to a factor of 20 (e to the third): a centre near zero must not make others infinite."""

_FLOOR = 0.01
_MIN_ERRORS = 40
_PRIOR = 5 * np.array([-2.3, -1.6, -1.0, -0.7, -0.4, -0.2, 0.0, 0.2, 0.4, 0.7, 1.0, 1.6, 2.3])


def movement(windows: Floats) -> Floats:
    """The recent movement of the logarithm, from windows of at least two values: the unit of errors."""
    steps = np.abs(np.diff(np.log1p(windows[:, -REACH:]), axis=1))
    unit: Floats = _FLOOR + 0.5 * steps[:, -12:].mean(axis=1) + 0.5 * steps.mean(axis=1)
    return unit


@dataclass(frozen=True)
class Calibration:
    """Offsets by horizon and level, in units of movement, and the ratio of truth to centre by horizon."""

    offsets: Floats
    ratio: Floats

    def quantiles(self, centre: Floats, unit: Floats) -> Floats:
        """Steps x horizons x levels, from centres (steps x horizons) and the movement at each step."""
        moved = np.clip(unit[:, None, None] * self.offsets, -MAX_LOG_ERROR, MAX_LOG_ERROR)
        return np.maximum(np.expm1(np.log1p(centre)[:, :, None] + moved), 0.0)


def scaled_errors(truth: Floats, centre: Floats, unit: Floats) -> Floats:
    """Errors in logarithms, bounded, in units of movement."""
    errors: Floats = np.clip(np.log1p(truth) - np.log1p(centre), -MAX_LOG_ERROR, MAX_LOG_ERROR) / unit
    return errors


def uncalibrated(horizons: tuple[int, ...]) -> Calibration:
    """Before any error is known: wide, and wider for later steps."""
    base = np.quantile(_PRIOR, LEVELS)
    return Calibration(np.sqrt(np.array(horizons, dtype=np.float64))[:, None] * base, np.ones(len(horizons)))


def calibrate(
    scaled: list[Floats], truth: list[Floats], centre: list[Floats], horizons: tuple[int, ...]
) -> Calibration:
    """The calibration by errors (in units of movement), truths and centres; few errors are blended with wide ones."""
    prior = uncalibrated(horizons)
    offsets, ratio = [], []
    for place, (errors, true, expected) in enumerate(zip(scaled, truth, centre, strict=True)):
        if len(errors) >= _MIN_ERRORS:
            offsets.append(np.quantile(errors, LEVELS))
        else:
            share = len(errors) / _MIN_ERRORS
            own = np.quantile(errors, LEVELS) if len(errors) else np.zeros(len(LEVELS))
            offsets.append(share * own + (1 - share) * prior.offsets[place])
        total = expected.sum()
        enough = len(errors) >= _MIN_ERRORS and total > 0
        ratio.append(float(np.clip(true.sum() / total, 0.5, 2.0)) if enough else 1.0)
    return Calibration(np.array(offsets), np.array(ratio))


@dataclass
class DriftDetector:
    """The Page-Hinkley test on scaled errors: sums up their excess over their average up to a threshold.

    Errors are scaled by their running average, so that neither the unit nor the level of the series matters, and
    a single outlier counts no more than `max_error` average errors.

    >>> detector = DriftDetector()
    >>> any(detector.update(1.0) for _ in range(200))
    False
    >>> sum(detector.update(3.0) for _ in range(60))
    1

    Attributes:
        tolerance: Excess, in average errors, that is not added.
        threshold: The sum, in average errors, that counts as drift.
        max_error: The bound of a single error, in average errors.
        patience: The number of errors before the first detection, and after each.
    """

    tolerance: float = 0.5
    threshold: float = 50.0
    max_error: float = 5.0
    patience: int = 64
    average: float = 0.0
    seen: int = 0
    excess: float = 0.0

    def update(self, error: float) -> bool:
        """Add the size of the next error; returns whether drift is detected."""
        self.seen += 1
        if self.average > 0 and self.seen > self.patience:
            scaled = min(error / self.average, self.max_error)
            self.excess = max(0.0, self.excess + scaled - 1 - self.tolerance)
        rate = max(1 / self.seen, 0.001)
        self.average += rate * (min(error, self.max_error * self.average) - self.average if self.seen > 1 else error)
        if self.excess <= self.threshold:
            return False
        self.average, self.seen, self.excess = 0.0, 0, 0.0
        return True

    def state(self) -> dict[str, float]:
        """The running figures."""
        return {"average": self.average, "seen": self.seen, "excess": self.excess}

    def restore(self, state: dict[str, float]) -> None:
        """Continue from saved figures."""
        self.average, self.excess = float(state["average"]), float(state["excess"])
        self.seen = int(state["seen"])
