"""Queues of one server each, simulated tuple by tuple."""

from __future__ import annotations

import numpy as np


def gaps_of(scv, count, rng):
    """Random times with a mean of 1 and this squared variation coefficient."""
    if scv == 0:
        return np.ones(count)
    if scv <= 1:
        return rng.gamma(1 / scv, scv, count)
    short = 0.5 * (1 + np.sqrt((scv - 1) / (scv + 1)))  # two exponential distributions that are equally heavy
    means = np.where(rng.random(count) < short, 1 / (2 * short), 1 / (2 * (1 - short)))
    return rng.exponential(means)


def taken_at(came, work):
    """When a server takes each tuple, if it works on one at a time, in their order."""
    before = np.cumsum(work) - work
    return before + np.maximum.accumulate(came - before)
