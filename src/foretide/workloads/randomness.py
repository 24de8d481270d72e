"""Random numbers and arrivals that belong to row numbers, and how to pick from a vocabulary with them.

Row i of a stream always gets the same number, whatever rows were asked for before or together with it. That
is what makes generators independent of how a range is cut.

Arrivals: in units of the cumulative count of a curve, a Poisson process has rate 1. Given how many rows fall into a
stretch, their places in it are independent and uniform. So the rows are cut into blocks, and each block draws its
places from its own number.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
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


def normal(seed: int, stream: str, first: int, last: int) -> NDArray[np.float64]:
    """A standard normal number for each of the rows [first, last) of a named stream, by Box and Muller."""
    radius = np.sqrt(-2 * np.log1p(-uniform(seed, f"{stream}.radius", first, last)))
    numbers: NDArray[np.float64] = radius * np.cos(2 * math.pi * uniform(seed, f"{stream}.angle", first, last))
    return numbers


def choose(size: int | NDArray[np.int64], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """One of `size` equally likely entries for each number in [0, 1)."""
    return (numbers * size).astype(np.int64)


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


ARRIVALS_BLOCK = 1024
_ARRIVALS_STREAM = "arrivals"


def random_counts(seed: int, first: int, last: int, total: int) -> NDArray[np.float64]:
    """The cumulative counts at which rows [first, last) of `total` arrive, in ascending order.

    >>> whole = random_counts(7, 0, 3000, 3000)
    >>> bool((random_counts(7, 1000, 2500, 3000) == whole[1000:2500]).all()), bool((np.diff(whole) >= 0).all())
    (True, True)
    """
    if first >= last:
        return np.empty(0)
    blocks = range(first // ARRIVALS_BLOCK, (last - 1) // ARRIVALS_BLOCK + 1)
    places = np.concatenate([_block(seed, block, total) for block in blocks])
    begin = blocks[0] * ARRIVALS_BLOCK
    return places[first - begin : last - begin]


def random_rows_before(
    due: Callable[[NDArray[np.float64]], NDArray[np.bool_]], seed: int, guess: int, total: int
) -> int:
    """How many rows are due, for a cumulative count of about `guess`; `due` tells it of counts in ascending order."""
    block = min(guess, max(0, total - 1)) // ARRIVALS_BLOCK
    while True:
        places = _block(seed, block, total)
        count = int(np.count_nonzero(due(places)))
        if count == 0 and block > 0 and not due(_block(seed, block - 1, total)[-1:])[0]:
            block -= 1
        elif count == len(places) and (block + 1) * ARRIVALS_BLOCK < total:
            block += 1
        else:
            return block * ARRIVALS_BLOCK + count


def _block(seed: int, block: int, total: int) -> NDArray[np.float64]:
    """The counts at which the rows of one block arrive; the last block may be short."""
    begin = block * ARRIVALS_BLOCK
    size = min(ARRIVALS_BLOCK, total - begin)
    return begin + np.sort(uniform(seed, _ARRIVALS_STREAM, begin, begin + size)) * size
