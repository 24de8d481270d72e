"""Load-aware grouping (PA-SPS, Algorithm 1): each event goes to the replica with the lowest utilization.

Spark routes a whole batch by one table, so the algorithm is run ahead, slot by slot, over the events expected in
the next interval, and its result is a number of slots per replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def assign(utilization: Sequence[float], cost: Sequence[float], slots: int) -> tuple[int, ...]:
    """Slots for each replica after running Algorithm 1 over `slots` equal parts of the coming load.

    `utilization` is U of each replica at the start (eq 1: processed * execution time / interval) and `cost` what
    one slot adds to it (events in a slot * execution time / interval). With equal costs this is the paper's algorithm
    to the letter: the lowest U takes the event, ties go to the first, and once the lowest U has reached 1 the
    events go round robin. A cost for each replica lets a slow one fill up sooner.

    >>> assign([0.5, 0.0], [0.1, 0.1], 5)
    (0, 5)
    >>> assign([0.0, 0.0], [0.1, 0.2], 6)
    (4, 2)
    """
    if len(utilization) != len(cost) or not cost:
        raise ValueError(f"{len(utilization)} utilizations but {len(cost)} costs; give one of each for every replica")
    load = list(utilization)
    counts = [0] * len(load)
    turn = 0
    for _ in range(slots):
        lowest = min(range(len(load)), key=load.__getitem__)
        if load[lowest] >= 1:
            lowest, turn = turn, (turn + 1) % len(load)
        else:
            load[lowest] += cost[lowest]
        counts[lowest] += 1
    return tuple(counts)
