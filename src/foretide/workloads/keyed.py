"""Bare keys with any skew, and with hot keys that move: what groupings and joins are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from foretide.workloads.generator import (
    MAX_ROW_NUMBER,
    check_range,
    check_seed,
    check_share,
    check_vocabulary,
    check_whole,
    check_zipf,
)
from foretide.workloads.randomness import headed_cumulative, pick, uniform, words, zipf_cumulative

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUNDS = 4


@dataclass(frozen=True)
class Keyed:
    """Keys 0 to keys - 1, each row with its own number as value, so that lost and doubled rows show.

    >>> Keyed(seed=1).rows(0, 2).to_pylist()
    [{'key': 0, 'value': 0}, {'key': 13, 'value': 1}]

    Attributes:
        seed: What the keys follow from.
        keys: Number of keys.
        zipf: How uneven they are: rank r occurs in proportion to r ** -zipf; 0 is uniform.
        change_every: Rows after which ranks are given to keys anew, at random; with 0, rank r is key r - 1.
        hot_share: If above 0, the share of all rows that the key of rank 1 gets; the others divide the rest.
    """

    seed: int
    keys: int = 10_000
    zipf: float = 1.0
    change_every: int = 0
    hot_share: float = 0.0

    schema: ClassVar[pa.Schema] = pa.schema([("key", pa.int64()), ("value", pa.int64())])

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_vocabulary("keys", self.keys)
        check_zipf(self.zipf)
        check_whole("change_every", self.change_every, 0, MAX_ROW_NUMBER)
        check_share("hot_share", self.hot_share)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        """Rows [first, last)."""
        check_range(first, last)
        number = np.arange(first, last)
        key = pick(self._cumulative(), uniform(self.seed, "keyed.key", first, last))
        if self.change_every:
            key = keys_of_ranks(key, self.keys, self.seed, "keyed", number // self.change_every)
        return pa.record_batch([pa.array(key), pa.array(number)], schema=self.schema)

    def _cumulative(self) -> NDArray[np.float64]:
        if self.hot_share:
            return headed_cumulative(self.hot_share, self.keys - 1, self.zipf)
        return zipf_cumulative(self.keys, self.zipf)


def keys_of_ranks(
    rank: NDArray[np.int64], size: int, seed: int, stream: str, epoch: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The key of each rank in its epoch: each epoch of a named stream has a random permutation of [0, size)."""
    if not rank.size:
        return rank
    first, last = int(epoch.min()), int(epoch.max()) + 1
    salts = np.stack([words(seed, f"{stream}.salt{n}", first, last) for n in range(_ROUNDS)])
    return permuted(rank.astype(np.uint64), size, salts[:, epoch - first]).astype(np.int64)


def permuted(values: NDArray[np.uint64], size: int, salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sends each value below `size` through the permutation of [0, size) that its salts stand for.

    Each value has salts of its own, so it does not matter how often they change. The scrambling permutes the
    numbers below the next power of two; a value that lands at or above `size` is scrambled on until it lands
    below, which leaves a permutation of what is below.

    >>> salts = np.full((4, 5), 12345, dtype=np.uint64)
    >>> sorted(permuted(np.arange(5, dtype=np.uint64), 5, salts).tolist())
    [0, 1, 2, 3, 4]
    """
    result = _scrambled(values, size, salts)
    while (outside := np.flatnonzero(result >= size)).size:
        result[outside] = _scrambled(result[outside], size, salts[:, outside])
    return result


def _scrambled(values: NDArray[np.uint64], size: int, salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Odd multiples, sums and shifts: each of them permutes the numbers below a power of two."""
    bits = (size - 1).bit_length()
    mask, shift, upper = np.uint64(2**bits - 1), np.uint64(bits // 2 + 1), np.uint64(32)
    for salt in salts:
        values = (values * (salt | np.uint64(1)) + (salt >> upper)) & mask
        values ^= values >> shift
    return values
