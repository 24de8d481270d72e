"""Random arrivals that belong to row numbers: any range of rows can be asked for, and is always the same.

In units of the cumulative count of a curve, a Poisson process has rate 1. Given how many rows fall into a stretch,
their places in it are independent and uniform. So the rows are cut into blocks, and each block draws its places from
its own number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from foretide.workloads.randomness import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 1024
_STREAM = "arrivals"


def random_counts(seed: int, first: int, last: int, total: int) -> NDArray[np.float64]:
    """The cumulative counts at which rows [first, last) of `total` arrive, in ascending order.

    >>> whole = random_counts(7, 0, 3000, 3000)
    >>> bool((random_counts(7, 1000, 2500, 3000) == whole[1000:2500]).all()), bool((np.diff(whole) >= 0).all())
    (True, True)
    """
    if first >= last:
        return np.empty(0)
    blocks = range(first // BLOCK, (last - 1) // BLOCK + 1)
    places = np.concatenate([_block(seed, block, total) for block in blocks])
    begin = blocks[0] * BLOCK
    return places[first - begin : last - begin]


def random_rows_before(
    due: Callable[[NDArray[np.float64]], NDArray[np.bool_]], seed: int, guess: int, total: int
) -> int:
    """How many rows are due, for a cumulative count of about `guess`; `due` tells it of counts in ascending order."""
    block = min(guess, max(0, total - 1)) // BLOCK
    while True:
        places = _block(seed, block, total)
        there = int(np.count_nonzero(due(places)))
        if there == 0 and block > 0 and not due(_block(seed, block - 1, total)[-1:])[0]:
            block -= 1
        elif there == len(places) and (block + 1) * BLOCK < total:
            block += 1
        else:
            return block * BLOCK + there


def _block(seed: int, block: int, total: int) -> NDArray[np.float64]:
    """The counts at which the rows of one block arrive; the last block may be short."""
    begin = block * BLOCK
    size = min(BLOCK, total - begin)
    return begin + np.sort(uniform(seed, _STREAM, begin, begin + size)) * size
