"""The rows that all sides count: their lines, and what the counts must add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1_000_000
_HASH = "(value * 2654435761 % 4294967296)"
LINE = (
    "concat(value, ' 1190146243.', value % 1000, ' http://en.wikipedia.org/wiki/Page_', "
    f"({_HASH} % 1000 * ({_HASH} div 1000 % 1000)) div 1000, ' -')"
)
"""The line of row `value`, in SQL."""


def page(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The page that each row asks for: low numbers are asked for more often; as `Workload.line` in Java.

    >>> page(np.array([0, 1, 2, 1000])).tolist()
    [0, 331, 204, 69]
    """
    hashed = rows * 2_654_435_761 % 4_294_967_296
    return hashed % 1000 * (hashed // 1000 % 1000) // 1000


def checksum(rows: int) -> int:
    """The sum over the first rows of the number of their page, from 1 on: right counts add up to it."""
    parts = (np.arange(first, min(first + _CHUNK, rows), dtype=np.int64) for first in range(0, rows, _CHUNK))
    return sum(int((page(part) + 1).sum()) for part in parts)
