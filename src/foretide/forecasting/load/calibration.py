"""From past errors to quantiles, and to the detection of drift.

Errors are measured in logarithms (loads vary by factors) and in units of the recent movement of the series, so that a
forecast is wide after turbulent steps and narrow after calm ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretide.forecasting.forecaster import LEVELS, Floats

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
