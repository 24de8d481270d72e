"""Salts that steer a key: with a salt behind its columns, a key's rows land on the partition that is wanted.

Salt 0 is the tail's: every key that has no plan carries it, so no other cell may.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import JoinPlanError
from foretide.joins.placement.murmur3 import hash_int

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import ArrayLike, NDArray

TAIL_SALT = 0

_LAST_SALT = 2**31 - 1


def salts_for(key_hash: int, partitions: int, wanted: Sequence[int], taken: Collection[int] = ()) -> tuple[int, ...]:
    """One salt for each wanted partition, all of them distinct: the smallest that are neither 0 nor taken.

    >>> salts = salts_for(-617328117, 8, [3, 3, 0])
    >>> partitions_of(-617328117, salts, 8).tolist()
    [3, 3, 0]
    """
    if outside := sorted(partition for partition in set(wanted) if not 0 <= partition < partitions):
        raise JoinPlanError(f"there is no partition {outside[0]}; the join has partitions 0 to {partitions - 1}")
    if not wanted:
        return ()
    needed = Counter(wanted)
    size = 4 * partitions * (max(needed.values()) + 2) + len(taken)
    while True:
        found = _found(key_hash, partitions, needed, taken, min(size, _LAST_SALT))
        if found is not None:
            return tuple(found[partition].pop(0) for partition in wanted)
        if size >= _LAST_SALT:
            raise JoinPlanError(f"no salts are left for key hash {key_hash}; forget some of its old plans first")
        size *= 4


@lru_cache(maxsize=1 << 16)
def tail_partition(key_hash: int, partitions: int) -> int:
    """The partition of a key that has no plan."""
    return int(partitions_of(key_hash, [TAIL_SALT], partitions)[0])


def partitions_of(key_hash: int, salts: ArrayLike, partitions: int) -> NDArray[np.int32]:
    """The partition that each of a key's cells lands on: Spark's `pmod(hash(keys..., salt), partitions)`."""
    return np.mod(hash_int(salts, key_hash), np.int32(partitions))


def _found(
    key_hash: int, partitions: int, needed: Counter[int], taken: Collection[int], size: int
) -> dict[int, list[int]] | None:
    """The first salts below `size` on each partition, or None when there are too few on one of them."""
    salts = np.arange(1, size + 1, dtype=np.int64)
    if taken:
        salts = salts[~np.isin(salts, np.fromiter(taken, dtype=np.int64))]
    landed = partitions_of(key_hash, salts, partitions)
    found = {partition: salts[landed == partition][:count].tolist() for partition, count in needed.items()}
    return found if all(len(found[partition]) == count for partition, count in needed.items()) else None
