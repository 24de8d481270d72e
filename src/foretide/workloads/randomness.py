"""Random numbers that belong to row numbers, and how to pick from a vocabulary with them.

Row i of a stream always gets the same number, whatever rows were asked for before or together with it. That
is what makes generators independent of how a range is cut.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORDS_PER_COUNT = 4  # Philox makes four words for each value of its counter


def words(seed: int, stream: str, first: int, last: int) -> NDArray[np.uint64]:
    """64 random bits for each of the rows [first, last) of a named stream.

    The bits come from Philox itself: NumPy keeps the output of its bit generators the same from release to
    release, but not that of the distributions on top of them.

    >>> whole = words(7, "speed", 0, 10)
    >>> bool((words(7, "speed", 3, 8) == whole[3:8]).all())
    True
    """
    name = hashlib.blake2b(stream.encode(), digest_size=8).digest()
    source = np.random.Philox(key=np.array([seed, int.from_bytes(name, "little")], dtype=np.uint64))
    count, skip = divmod(first, _WORDS_PER_COUNT)
    source.advance(count)
    return source.random_raw(skip + last - first)[skip:]


def uniform(seed: int, stream: str, first: int, last: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each of the rows [first, last) of a named stream."""
    numbers = (words(seed, stream, first, last) >> np.uint64(11)).astype(np.float64)
    numbers *= 2.0**-53
    return numbers


def pick(cumulative: NDArray[np.float64], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The entry of a vocabulary that each number in [0, 1) falls on: the inverse of its distribution."""
    return np.searchsorted(cumulative, numbers, side="right")


@lru_cache(maxsize=32)
def zipf_cumulative(size: int, exponent: float) -> NDArray[np.float64]:
    """The distribution of a vocabulary whose entry of rank r weighs r ** -exponent; exponent 0 is uniform.

    >>> zipf_cumulative(4, 0).tolist()
    [0.25, 0.5, 0.75, 1.0]
    """
    return _cumulative(np.arange(1, size + 1, dtype=np.float64) ** -float(exponent))


@lru_cache(maxsize=32)
def headed_cumulative(head: float, size: int, exponent: float) -> NDArray[np.float64]:
    """One entry with the share `head` of everything, before `size` others that divide the rest by Zipf.

    >>> headed_cumulative(0.5, 2, 0).tolist()
    [0.5, 0.75, 1.0]
    """
    if size == 0:
        return _cumulative(np.ones(1))
    rest = np.diff(zipf_cumulative(size, exponent), prepend=0.0)
    return _cumulative(np.concatenate(([head], (1 - head) * rest)))


def shares_cumulative(*shares: float) -> NDArray[np.float64]:
    """The distribution of a vocabulary with these shares, in any unit."""
    return _cumulative(np.array(shares, dtype=np.float64))


def _cumulative(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.cumsum(weights)
    sums /= sums[-1]
    sums.setflags(write=False)
    return sums
