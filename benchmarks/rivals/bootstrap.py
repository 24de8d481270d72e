"""The difference of two models' losses with its confidence interval, by a block bootstrap."""

from __future__ import annotations

import numpy as np

from foretide.forecasting.forecaster import Floats


def bootstrap_difference(
    first: Floats, second: Floats, rng: np.random.Generator, block: int = 48, rounds: int = 1000
) -> tuple[float, float, float]:
    """The difference of two models' mean losses on the same steps, and its 95 % interval, by a block bootstrap.

    Whole blocks are drawn again, because errors of neighbouring steps go together.

    >>> low = bootstrap_difference(np.ones(500), 2 * np.ones(500), np.random.default_rng(1))
    >>> low
    (-1.0, -1.0, -1.0)
    """
    difference = first - second
    size = len(difference)
    block = min(block, size)
    sums = np.convolve(difference, np.ones(block), mode="valid")
    starts = rng.integers(0, len(sums), (rounds, max(1, round(size / block))))
    drawn = sums[starts].mean(axis=1) / block
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(difference.mean()), float(low), float(high)
