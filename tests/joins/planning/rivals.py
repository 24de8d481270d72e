"""Plans and choices of keys that ours is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from foretide.joins.plan import Filling, KeyGrid, KeyLoad, TailLoad, grid_of
from foretide.joins.planning.paper import most_frequent
from foretide.joins.settings import JoinSettings


def bistream_groups(partitions: int) -> tuple[KeyGrid, ...]:
    """BiStream with random routing: a left row goes to any partition, a right row to all of them.

    >>> bistream_groups(3)
    (KeyGrid(rows=((0,), (1,), (2,))),)
    """
    return (grid_of(range(partitions), 1),)


def contrand_groups(partitions: int, groups: int | None = None) -> tuple[KeyGrid, ...]:
    """BiStream with ContRand: the hash of a key picks a subgroup of partitions, and routing is random within it.

    Without a number of subgroups there are about as many as each of them has partitions.

    >>> [grid.cells for grid in contrand_groups(8)]
    [(0, 1, 2, 3), (4, 5, 6, 7)]
    """
    count = math.isqrt(partitions) if groups is None else groups
    edges = [partitions * at // count for at in range(count + 1)]
    return tuple(grid_of(range(edges[at], edges[at + 1]), 1) for at in range(count))


def fill_groups(groups: Sequence[KeyGrid], keys: Iterable[KeyLoad], tail: Sequence[TailLoad]) -> Filling:
    """Rows on each partition when the hash of a key picks its grid; the tail is spread evenly over all grids."""
    filling, share = Filling.of([TailLoad(0.0, 0.0)] * len(tail)), 1 / len(groups)
    rest = KeyLoad(0, share * math.fsum(t.left for t in tail), share * math.fsum(t.right for t in tail))
    for grid in groups:
        filling.add(rest, grid.shape, grid.cells)
    for load in keys:
        grid = groups[load.key % len(groups)]
        filling.add(load, grid.shape, grid.cells)
    return filling


def choose_by_forecast(
    left: Mapping[int, float], right: Mapping[int, float], left_rows: float, right_rows: float, settings: JoinSettings
) -> list[KeyLoad]:
    """The hot keys of the next window: shares of both sides as forecast, and the rows that are expected.

    >>> choose_by_forecast({7: 0.5, 8: 0.1}, {7: 0.25}, 100.0, 40.0, JoinSettings(max_keys=1))
    [KeyLoad(key=7, left=50.0, right=10.0)]
    """
    keys = {**left, **right}
    loads = [KeyLoad(key, left.get(key, 0.0) * left_rows, right.get(key, 0.0) * right_rows) for key in keys]
    return most_frequent(loads, settings.candidates)


def choose_by_last_window(last: Sequence[KeyLoad], settings: JoinSettings) -> list[KeyLoad]:
    """The hot keys if the next window is like the last one."""
    return most_frequent(last, settings.candidates)


def choose_reactive(last: Sequence[KeyLoad], measured: float, settings: JoinSettings) -> list[KeyLoad] | None:
    """The hot keys of the last window, but only once its measured LI was too high; None to leave the plan as it is."""
    return choose_by_last_window(last, settings) if measured > settings.reactive_above else None
