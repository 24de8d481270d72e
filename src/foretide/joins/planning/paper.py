"""Aj-Stream's own plan: Algorithm 1 chooses candidate keys, Algorithm 2 splits them and finds places by first fit.

Where we depart from what is printed:

- Algorithm 1 adds keys to a table that is not empty only until it holds |H| keys.
- Algorithm 2 goes on to the next key where N_k stays the same; the printed Break would freeze all later keys.
- A key with N_k = 0 is left to the hash; the printed table would hold it without a destination.
- Two streams are split, not one: F(k) is the share of both sides' rows, and N_k cells form a grid.
- First fit tries the least loaded instances first; where no instance has room, the least loaded takes the split.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from foretide.joins.plan import DefaultPartition, Filling, How, JoinPlan, KeyGrid, KeyLoad, TailLoad, grid_of
from foretide.joins.planning.grid_shapes import cell_rows, shape_for
from foretide.joins.settings import JoinSettings


def most_frequent(keys: Iterable[KeyLoad], count: int) -> list[KeyLoad]:
    """The keys with most rows, the most frequent first; the order does not depend on how they came in."""
    return sorted(keys, key=lambda load: (-load.rows, load.key))[:count]


def candidate_keys(forecast: Sequence[KeyLoad], table: Collection[int], settings: JoinSettings) -> list[KeyLoad]:
    """Algorithm 1: the keys that join those in the routing table, the most frequent first.

    >>> loads = [KeyLoad(1, 5.0, 5.0), KeyLoad(2, 9.0, 9.0), KeyLoad(3, 1.0, 1.0)]
    >>> [load.key for load in candidate_keys(loads, {2}, JoinSettings(max_keys=2))]
    [1]
    """
    room = max(0, settings.candidates - len(table))
    return most_frequent((load for load in forecast if load.key not in table), room)


def splits(load: KeyLoad, rows: float, partitions: int) -> int:
    """Eq 13: N_k, the number of instances that a key fills by itself.

    >>> splits(KeyLoad(1, 30.0, 30.0), 100.0, 8), splits(KeyLoad(1, 5.0, 5.0), 100.0, 8)
    (4, 0)
    """
    return math.floor(partitions * load.rows / rows) if rows > 0 else 0


def paper_grids(
    hot: Sequence[KeyLoad],
    tail: Sequence[TailLoad],
    settings: JoinSettings,
    before: JoinPlan,
    how: How,
    default_partition: DefaultPartition,
) -> dict[int, KeyGrid]:
    """Algorithm 2: the routing table for the next window, changed as little as eq 14 allows."""
    partitions, filling = len(tail), Filling.of(tail)
    rows = filling.rows() + math.fsum(load.rows for load in hot)
    wanted = {load.key: splits(load, rows, partitions) for load in hot}
    kept = [load for load in hot if load.key in before.grids and wanted[load.key]]
    new = candidate_keys([load for load in hot if wanted[load.key]], {load.key for load in kept}, settings)
    placed = {load.key for load in (*kept, *new)}
    for load in hot:
        if load.key not in placed:
            filling.add(load, (1, 1), [default_partition(load.key)])
    grids = {}
    for load in (*kept, *new):
        old = before.grids.get(load.key)
        grids[load.key] = _updated(load, wanted[load.key], old, filling, settings.room, how)
    return grids


def _updated(load: KeyLoad, wanted: int, old: KeyGrid | None, filling: Filling, room: float, how: How) -> KeyGrid:
    """The grid of one key; only the change in the number of its cells is moved (eq 14)."""
    shape = shape_for(load, wanted, how)
    count = shape[0] * shape[1]
    cells = list(old.cells[:count]) if old is not None else []
    if old is not None and len(old.cells) == count:
        filling.add(load, old.shape, old.cells)
        return old
    filling.add(load, shape, cells)
    while len(cells) < count:
        cell = _first_fit(load, shape, filling, room, cells)
        filling.add(load, shape, [cell])
        cells.append(cell)
    return grid_of(cells, shape[1])


def _first_fit(load: KeyLoad, shape: tuple[int, int], filling: Filling, room: float, taken: Sequence[int]) -> int:
    """The least loaded instance that has room for a split and has none of the key yet."""
    loads, rows = filling.loads(), filling.partition_rows()
    free = [instance for instance in range(len(loads)) if instance not in taken]
    free.sort(key=lambda instance: (loads[instance], rows[instance], instance))
    fitting = (each for each in free if rows[each] + cell_rows(load, shape) <= room)
    return next(fitting, free[0])
