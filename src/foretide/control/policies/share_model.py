"""Whether a stream waits less with a small share for slow workers or with next to none, by a model of its tasks.

Shares are in proportion to what tasks can do, so all tasks of an edge are equally busy. Each has a queue of its own and
gets tuples at random (M/M/1): a tuple stays exponentially long, on a slow worker as many times longer as its work
takes. A share for slow workers relieves all others, at the price of long stays for the tuples in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretide.control.world.setup import Quantile

_MIN_GAIN = 1.25
"""By this factor a share must shorten stays before it is given; it is taken away again as soon as it prolongs them."""

_STEPS = 60


def is_better_without(
    work: float, capacity: float, slow: Mapping[float, float], quantile: Quantile, *, has_share: bool
) -> bool:
    """Whether next to nothing for slow workers is better than what they can do.

    Args:
        work: Busy tasks that the stream needs, if none is slow.
        capacity: What all other tasks can do, in tasks that are not slow.
        slow: Tasks on the workers in question, by how many times as long their tuples take.
        quantile: Of the time that tuples stay.
        has_share: Whether these workers have a share now.
    """
    without = stay(work, {1.0: capacity}, quantile)
    with_share = stay(work, {1.0: capacity, **slow}, quantile)
    if math.isinf(without):
        return False  # with more tasks the queues grow more slowly
    return without <= with_share * (1.0 if has_share else _MIN_GAIN)


def stay(work: float, tasks: Mapping[float, float], quantile: Quantile) -> float:
    """How long tuples stay, in times that a tuple takes on a task that is not slow; infinite if queues grow.

    Args:
        work: Busy tasks that the stream needs, if none is slow.
        tasks: How many there are, by how many times as long their tuples take.
        quantile: The quantile, or the mean.

    >>> round(stay(0.5, {1.0: 1.0}, "mean"), 6), round(stay(0.5, {1.0: 1.0}, "p50"), 6), stay(2.0, {1.0: 2.0}, "p99")
    (2.0, 1.386294, inf)
    """
    capacity = sum(count / slowness for slowness, count in tasks.items())
    if work >= capacity:
        return math.inf
    stays = {slowness / (1 - work / capacity): count / slowness / capacity for slowness, count in tasks.items()}
    if quantile == "mean":
        return sum(mean * share for mean, share in stays.items())
    return _quantile(stays, 1 - float(quantile[1:]) / 100)


def _quantile(stays: Mapping[float, float], beyond: float) -> float:
    """The time that a share `beyond` of all tuples exceeds, of exponential stays by their mean, with their shares."""
    low, high = 0.0, -max(stays) * math.log(beyond)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        longer = sum(share * math.exp(-middle / mean) for mean, share in stays.items())
        low, high = (middle, high) if longer > beyond else (low, middle)
    return high
