"""Windows of a Zipf stream whose hot keys come and go: what forecasts of key frequencies are tried on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretide.workloads.generator import check_number, check_seed, check_vocabulary, check_whole, check_zipf
from foretide.workloads.randomness import pick, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_WINDOWS = 100_000
_MAX_WEIGHTS = 50_000_000


def zipf_windows(
    seed: int,
    windows: int,
    keys: int = 500,
    zipf: float = 1.0,
    rows: int = 10_000,
    spells: float = 1.5,
    height: float = 4.0,
    rise: int = 6,
    fall: int = 10,
) -> list[dict[int, int]]:
    """How often each key occurs in each window; keys that do not occur are left out.

    A key of rank r weighs r ** -zipf. On average `spells` keys a window, any of them, begin a hot spell: over `rise`
    windows their weight grows by up to exp(height), evenly on a log scale, and over `fall` windows it goes back.

    >>> first, second = zipf_windows(seed=1, windows=2, keys=3, rows=10)
    >>> first, sum(second.values())
    ({0: 6, 1: 3, 2: 1}, 10)
    """
    check_seed(seed)
    check_whole("windows", windows, 0, _MAX_WINDOWS)
    check_vocabulary("keys", keys)
    check_whole("keys times windows", keys * windows, 0, _MAX_WEIGHTS)
    check_zipf(zipf)
    check_whole("rows", rows, 0, 10_000_000)
    check_number("spells", spells, 0, 1000)
    check_number("height", height, 0, 50)
    check_whole("rise", rise, 1, _MAX_WINDOWS)
    check_whole("fall", fall, 1, _MAX_WINDOWS)
    heat = _heat(seed, windows, keys, spells, height, rise, fall)
    weights = np.exp(heat - zipf * np.log(np.arange(1.0, keys + 1)))
    return [_counts(seed, window, weights[window], rows) for window in range(windows)]


def _heat(
    seed: int, windows: int, keys: int, spells: float, height: float, rise: int, fall: int
) -> NDArray[np.float64]:
    """The logarithm by which each key (columns) is hotter than its rank says, in each window (rows)."""
    before = rise + fall  # spells that began before the first window are still felt in it
    count = round(spells * (windows + before))
    begin = np.floor(uniform(seed, "hot_keys.begin", 0, count) * (windows + before)).astype(int) - before
    key = np.floor(uniform(seed, "hot_keys.key", 0, count) * keys).astype(int)
    peak = height * (0.5 + 0.5 * uniform(seed, "hot_keys.peak", 0, count))
    heat = np.zeros((windows, keys))
    for offset in range(1, before):
        part = offset / rise if offset <= rise else (before - offset) / fall
        at = begin + offset
        felt = (at >= 0) & (at < windows)
        np.maximum.at(heat, (at[felt], key[felt]), part * peak[felt])
    return heat


def _counts(seed: int, window: int, weights: NDArray[np.float64], rows: int) -> dict[int, int]:
    cumulative = np.cumsum(weights)
    cumulative /= cumulative[-1]
    drawn = pick(cumulative, uniform(seed, "hot_keys.row", window * rows, (window + 1) * rows))
    counts = np.bincount(drawn, minlength=len(weights))
    return {int(key): int(counts[key]) for key in np.flatnonzero(counts)}
