"""The ring of M identifiers (slots) behind every controllable edge: slot -> task.

A tuple's hash picks a slot, the ring names the task. A split ratio is a number of slots per task, so every ratio is
exact to within one slot, and a change of ratio moves only the slots that have to move.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


Ring = tuple[int, ...]

DEFAULT_SLOTS = 1024


def apportion(weights: Sequence[float], slots: int) -> tuple[int, ...]:
    """The number of slots of each task in the given ratio.

    A divisor method (Webster's, with a first slot for every positive weight). Divisor methods are monotone: when
    one weight becomes zero no other task loses a slot, which is why disabling a task moves no other task's tuples.

    >>> apportion([7, 3, 2], 1024)
    (597, 256, 171)
    >>> apportion([2, 1, 0], 1024)
    (683, 341, 0)
    """
    check_weights(weights, slots)
    counts = [1 if weight > 0 else 0 for weight in weights]
    claims = [(-weight / 1.5, task) for task, weight in enumerate(weights) if weight > 0]
    heapq.heapify(claims)
    for _ in range(slots - sum(counts)):
        task = claims[0][1]
        counts[task] += 1
        heapq.heapreplace(claims, (-weights[task] / (counts[task] + 0.5), task))
    return tuple(counts)


def check_weights(weights: Sequence[float], slots: int) -> None:
    """Refuse weights that define no split; the message says which one and why."""
    for task, weight in enumerate(weights):
        if not math.isfinite(weight) or weight < 0:
            raise ValueError(f"the weight of task {task} is {weight}; weights are finite and not negative")
    positive = sum(1 for weight in weights if weight > 0)
    if not positive:
        raise ValueError("all weights are zero, so no task would get any tuple; give at least one task a weight")
    if positive > slots:
        raise ValueError(f"{positive} tasks cannot share a ring of {slots} identifiers; use a larger ring")


def make_ring(weights: Sequence[float], slots: int = DEFAULT_SLOTS) -> Ring:
    """A fresh ring in the given ratio.

    >>> make_ring([2, 1, 1], 8)
    (0, 0, 0, 0, 1, 1, 2, 2)
    """
    counts = apportion(weights, slots)
    return tuple(task for task, count in enumerate(counts) for _ in range(count))


def resplit(ring: Ring, weights: Sequence[float]) -> Ring:
    """The ring in a new ratio, with as few slots moved as the ratio allows.

    >>> resplit((0, 0, 0, 0, 1, 1, 2, 2), [2, 1, 0])
    (0, 0, 0, 0, 1, 1, 0, 1)
    """
    wanted = list(apportion(weights, len(ring)))
    kept = [_claim(wanted, task) for task in ring]
    takers = (task for task, count in enumerate(wanted) for _ in range(count))
    return tuple(next(takers) if task is None else task for task in kept)


def _claim(wanted: list[int], task: int) -> int | None:
    """Let a task keep a slot while it still needs one; None frees the slot."""
    if task < len(wanted) and wanted[task] > 0:
        wanted[task] -= 1
        return task
    return None


def slot_counts(ring: Ring, pool: int) -> tuple[int, ...]:
    """Slots per task: the split ratio as it is in force.

    >>> slot_counts((0, 0, 1, 3), 4)
    (2, 1, 0, 1)
    """
    counts = [0] * pool
    for task in ring:
        counts[task] += 1
    return tuple(counts)


# ---- load-aware grouping


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
