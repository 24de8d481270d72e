"""Distributions of times on a lattice 0, h, 2h, ...: probabilities that keep the mean exactly.

A time is known by the integral of its tail, I(t) = E[max(X - t, 0)]. Spreading each time over its two
neighbours on the lattice turns that into probabilities by second differences, and no step is ever too coarse
for the mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_MOST_PHASES = 50


def lattice_probabilities(integrated_tail: Floats, step: float) -> Floats:
    """Probabilities of 0, h, 2h, ... from I at 0, h, 2h, ... (one point fewer than given)."""
    slope = np.diff(integrated_tail) / step
    return np.concatenate(([1.0 + slope[0]], np.diff(slope)))


def wait_tail(times: Floats, chance: float, mean: float) -> Floats:
    """I(t) of a wait that is 0 but for a `chance` of an exponential one; `mean` is that of the whole.

    Exact for M/M/k; for GI/G/k the usual approximation.
    """
    if chance == 0 or mean == 0:
        return np.zeros_like(times)
    tail: Floats = mean * np.exp(-times * chance / mean)
    return tail


def service_tail(times: Floats, rate: float, scv: float) -> Floats:
    """I(t) of a service time known by its rate and squared coefficient of variation.

    The usual two-moment fits: exponential at 1, a mixture of two exponentials with balanced means above, a
    mixture of two Erlang distributions below, and a constant when the coefficient is under 1/50.
    """
    if scv == 1:
        tail: Floats = np.exp(-rate * times) / rate
        return tail
    if scv > 1:
        p = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2
        fast, slow = 2 * p * rate, 2 * (1 - p) * rate
        mixed: Floats = p / fast * np.exp(-fast * times) + (1 - p) / slow * np.exp(-slow * times)
        return mixed
    if scv * _MOST_PHASES < 1:
        return np.maximum(1 / rate - times, 0.0)
    phases = math.ceil(1 / scv)
    p = (phases * scv - math.sqrt(max(phases * (1 + scv) - phases**2 * scv, 0.0))) / (1 + scv)
    speed = (phases - p) * rate
    return p * _erlang_tail(times, phases - 1, speed) + (1 - p) * _erlang_tail(times, phases, speed)


def _erlang_tail(times: Floats, phases: int, speed: float) -> Floats:
    """I(t) of a sum of exponential phases: (1/v) * sum over i < n of (n - i) * P(Poisson(v t) = i)."""
    left = speed * times
    probability = np.exp(-left)
    tail = np.zeros_like(left)
    for i in range(phases):
        tail += (phases - i) * probability
        probability = probability * left / (i + 1)
    return tail / speed
