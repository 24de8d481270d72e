"""Salts: an int column behind the key columns that sends a key's rows to chosen partitions.

Stateful operators place a row on the partition `pmod(hash(keys...), partitions)`. Spark's `hash` is Murmur3 (x86_32,
seed 42), folded over the columns, each taking the hash so far as its seed. So with a salt behind the keys

    hash(k1, ..., kn, salt) == hash_int(salt, seed=hash(k1, ..., kn))

and choosing salts takes only the 32-bit hash of the key columns. Plans are kept under that hash, not under the key's
values. Two keys with one hash share a grid, which stays exact, because the join still compares the keys themselves.

Salt 0 is the tail's: every key without a plan carries it, so no other cell may.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import JoinPlanError
from foretide.joins.plan import KeyGrid

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import ArrayLike, NDArray

SaltGrid = tuple[tuple[int, ...], ...]
"""The salt of each cell of a key's grid, in rows of columns."""

TAIL_SALT = 0
TAIL: SaltGrid = ((TAIL_SALT,),)
"""The grid of every key without a plan."""

HASH_SEED = 42
"""The seed of Spark's `hash`, and of its hash partitioning."""

_MAX_SALT = 2**31 - 1


def salt_grid(key_hash: int, grid: KeyGrid, partitions: int, taken: Collection[int]) -> SaltGrid:
    """Salts whose cells land on the partitions of a grid.

    >>> salt_grid(7, KeyGrid(((0, 1), (2, 3))), 4, taken=())
    ((9, 3), (2, 1))
    """
    salts = iter(salts_for(key_hash, partitions, grid.cells, taken))
    return tuple(tuple(next(salts) for _ in row) for row in grid.rows)


@lru_cache(maxsize=1 << 12)
def key_grid(key_hash: int, salts: SaltGrid, partitions: int) -> KeyGrid:
    """The partitions that salts land on, which follow from the number of partitions at present.

    >>> key_grid(7, ((9, 3), (2, 1)), 4)
    KeyGrid(rows=((0, 1), (2, 3)))
    """
    return KeyGrid(tuple(tuple(partitions_of(key_hash, row, partitions).tolist()) for row in salts))


def salts_for(key_hash: int, partitions: int, wanted: Sequence[int], taken: Collection[int] = ()) -> tuple[int, ...]:
    """A distinct salt for each wanted partition: the smallest that are neither 0 nor taken.

    >>> salts = salts_for(-617328117, 8, [3, 3, 0])
    >>> partitions_of(-617328117, salts, 8).tolist()
    [3, 3, 0]
    """
    if outside := sorted(partition for partition in set(wanted) if not 0 <= partition < partitions):
        raise JoinPlanError(f"partition {outside[0]} does not exist; the join has partitions 0 to {partitions - 1}")
    if not wanted:
        return ()
    needed = Counter(wanted)
    size = 4 * partitions * (max(needed.values()) + 2) + len(taken)
    while True:
        found = _salts_below(key_hash, partitions, needed, taken, min(size, _MAX_SALT))
        if found is not None:
            return tuple(found[partition].pop(0) for partition in wanted)
        if size >= _MAX_SALT:
            raise JoinPlanError(f"no salts are left for key hash {key_hash}; forget some of its old plans first")
        size *= 4


def _salts_below(
    key_hash: int, partitions: int, needed: Counter[int], taken: Collection[int], size: int
) -> dict[int, list[int]] | None:
    """The first salts up to `size` on each partition, or None when one of them has too few."""
    salts = np.arange(1, size + 1, dtype=np.int64)
    if taken:
        salts = salts[~np.isin(salts, np.fromiter(taken, dtype=np.int64))]
    landed = partitions_of(key_hash, salts, partitions)
    found = {partition: salts[landed == partition][:count].tolist() for partition, count in needed.items()}
    return found if all(len(found[partition]) == count for partition, count in needed.items()) else None


@lru_cache(maxsize=1 << 16)
def tail_partition(key_hash: int, partitions: int) -> int:
    """The partition of a key without a plan."""
    return int(partitions_of(key_hash, [TAIL_SALT], partitions)[0])


def partitions_of(key_hash: int, salts: ArrayLike, partitions: int) -> NDArray[np.int32]:
    """The partition of each of a key's salts: Spark's `pmod(hash(keys..., salt), partitions)`."""
    return np.mod(hash_int(salts, key_hash), np.int32(partitions))


def hash_int(values: ArrayLike, seeds: ArrayLike = HASH_SEED) -> NDArray[np.int32]:
    """Spark's `hash` of int columns, each with its own seed or all with one.

    >>> hash_int([1, 2], seeds=-1_827_887_769).tolist()
    [1238942752, -183506045]
    """
    word, start = np.broadcast_arrays(_words(values), _words(seeds))
    mixed = (_rotated(word * np.uint32(0xCC9E2D51), 15)) * np.uint32(0x1B873593)
    hashed = _rotated(start ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed = hashed ^ np.uint32(4)
    hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (hashed ^ (hashed >> np.uint32(16))).view(np.int32)


def _words(values: ArrayLike) -> NDArray[np.uint32]:
    return np.atleast_1d(np.asarray(values, dtype=np.int64)).astype(np.uint32)


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
