"""The greedy order: which operator gets the next processor, and the next, and the next.

drs proves that the gain of one more processor shrinks with each one an operator has. So the greedy choice of
its Algorithm 1 is a merge of sorted lists, and the first n steps of it are the n largest gains of all
operators. That is how it is done here, whole curves of gains at a time; a million processors take a fraction
of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretide.queueing.erlang import mmk_wait_curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Chosen = slice | NDArray[np.bool_]

_SHORTEST, _LONGEST = 64, 4096


@dataclass(frozen=True, slots=True)
class Queues:
    """Operators as queues, by position.

    Attributes:
        first: Processors each starts with: enough to keep up.
        loads: Offered work in processors, lambda / mu.
        weights: Tuples waiting for each unit of M/M/k wait: lambda / mu * (a + s) / 2.
        room: Processors each may still get; where there is no limit, a very large number.
    """

    first: Floats
    loads: Floats
    weights: Floats
    room: Ints


@dataclass(frozen=True, slots=True)
class GreedyOrder:
    """The processors handed out, in order.

    Attributes:
        owners: Position of the operator that gets the n-th processor. Shorter than asked for if more
            processors would bring nothing: no room, or gains below the smallest double.
        gains: Tuples that the n-th processor takes out of the queues; falling.
        waiting: For each operator the mean number of tuples waiting, by processors got so far.
    """

    owners: Ints
    gains: Floats
    waiting: Sequence[Floats]

    def counts(self, steps: int) -> Ints:
        """Processors each operator has got after so many steps."""
        return np.bincount(self.owners[:steps], minlength=len(self.waiting))

    def tuples_waiting(self, counts: Ints) -> float:
        """Tuples waiting in the whole network when the operators have got so many."""
        return float(sum(row[n] for row, n in zip(self.waiting, counts.tolist(), strict=True)))


def greedy_order(queues: Queues, steps: int) -> GreedyOrder:
    """Hand out `steps` processors one by one, each to the operator that gains most; ties go to the first.

    >>> two = np.array([1.0, 1.0])
    >>> queues = Queues(two, np.array([0.9, 0.5]), np.array([0.9, 0.5]), np.array([9, 9]))
    >>> greedy_order(queues, 4).owners.tolist()
    [0, 1, 0, 1]
    """
    room = np.minimum(queues.room, steps)
    length = min(steps, max(_SHORTEST, min(_LONGEST, 2 * steps // len(room))))
    lengths = np.minimum(room, length)
    waiting, gains = _curves(queues, slice(None), lengths)
    while True:
        owners, largest = _largest(gains, steps)
        short = (np.bincount(owners, minlength=len(room)) == lengths) & (lengths < room)
        if not short.any():
            return GreedyOrder(owners, largest, waiting)
        lengths[short] = np.minimum(room[short], 4 * lengths[short])
        for i, *rows in zip(np.flatnonzero(short), *_curves(queues, short, lengths[short]), strict=True):
            waiting[i], gains[i] = rows


def _curves(queues: Queues, chosen: Chosen, lengths: Ints) -> tuple[list[Floats], list[Floats]]:
    """Tuples waiting at each chosen operator with 0, 1, ... more processors, and what each of these gains.

    Rounding may let a gain exceed the one before by its last digit; they are made to fall, as they do in
    truth.
    """
    curves = mmk_wait_curves(queues.first[chosen], queues.loads[chosen], int(lengths.max()) + 1)
    curves *= queues.weights[chosen, None]
    gains = np.minimum.accumulate(curves[:, :-1] - curves[:, 1:], axis=1)
    ends = lengths.tolist()
    waiting = [row[: end + 1] for row, end in zip(curves, ends, strict=True)]
    return waiting, [row[:end] for row, end in zip(gains, ends, strict=True)]


def _largest(gains: Sequence[Floats], steps: int) -> tuple[Ints, Floats]:
    """The largest gains above 0 and who has them, largest first."""
    flat = np.concatenate(gains)
    owners = np.repeat(np.arange(len(gains)), [len(row) for row in gains])
    order = np.argsort(-flat, kind="stable")[:steps]
    largest = flat[order]
    if len(order) and largest[-1] <= 0:
        worth = np.count_nonzero(largest > 0)
        order, largest = order[:worth], largest[:worth]
    return owners[order], largest
