"""From past errors to a distribution: how far the truth was from a model's centre, at each horizon.

Errors are measured in logarithms (loads vary by factors) and in units of how much the series moved lately, so that
a forecast is wide after turbulent steps and narrow after calm ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretide.forecasting.forecaster import LEVELS, Floats

WINDOW = 1500
"""So many of the latest errors count."""

REACH = 97
"""So many values are needed to say how much a series moved lately."""

FARTHEST = 3.0
"""An error counts as a factor of 20 (e to the third) at most: a centre near zero must not make others infinite."""

_FLOOR = 0.01
_FEW = 40
_PRIOR = 5 * np.array([-2.3, -1.6, -1.0, -0.7, -0.4, -0.2, 0.0, 0.2, 0.4, 0.7, 1.0, 1.6, 2.3])


def movement(windows: Floats) -> Floats:
    """How much the logarithm moved lately, from windows of at least two values: the unit of errors."""
    steps = np.abs(np.diff(np.log1p(windows[:, -REACH:]), axis=1))
    unit: Floats = _FLOOR + 0.5 * steps[:, -12:].mean(axis=1) + 0.5 * steps.mean(axis=1)
    return unit


@dataclass(frozen=True)
class Calibration:
    """What past errors say: offsets by horizon and level, in units of movement, and mean of truth over centre."""

    offsets: Floats
    ratio: Floats

    def quantiles(self, centre: Floats, unit: Floats) -> Floats:
        """Steps x horizons x levels, from centres (steps x horizons) and the movement at each step."""
        moved = np.clip(unit[:, None, None] * self.offsets, -FARTHEST, FARTHEST)
        return np.maximum(np.expm1(np.log1p(centre)[:, :, None] + moved), 0.0)


def scaled_errors(truth: Floats, centre: Floats, unit: Floats) -> Floats:
    """Errors in logarithms, bounded, in units of movement."""
    errors: Floats = np.clip(np.log1p(truth) - np.log1p(centre), -FARTHEST, FARTHEST) / unit
    return errors


def uncalibrated(horizons: tuple[int, ...]) -> Calibration:
    """Before any error is known: wide, and wider for later steps."""
    base = np.quantile(_PRIOR, LEVELS)
    return Calibration(np.sqrt(np.array(horizons, dtype=np.float64))[:, None] * base, np.ones(len(horizons)))


def calibrate(
    scaled: list[Floats], truth: list[Floats], centre: list[Floats], horizons: tuple[int, ...]
) -> Calibration:
    """From errors (in units of movement), truths and centres by horizon; few errors are filled up with wide ones."""
    prior = uncalibrated(horizons)
    offsets, ratio = [], []
    for place, (errors, true, foreseen) in enumerate(zip(scaled, truth, centre, strict=True)):
        if len(errors) >= _FEW:
            offsets.append(np.quantile(errors, LEVELS))
        else:
            share = len(errors) / _FEW
            own = np.quantile(errors, LEVELS) if len(errors) else np.zeros(len(LEVELS))
            offsets.append(share * own + (1 - share) * prior.offsets[place])
        total = foreseen.sum()
        trusted = len(errors) >= _FEW and total > 0
        ratio.append(float(np.clip(true.sum() / total, 0.5, 2.0)) if trusted else 1.0)
    return Calibration(np.array(offsets), np.array(ratio))
