"""What an operator emits for each tuple it has processed, and what waits for the operator it was sent to."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from foretide.simulation.variation import Floats, Integers, one_by_one

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Inbox:
    """Tuples on their way to an operator: when each joins its queue, and the tree it belongs to.

    >>> inbox = Inbox()
    >>> inbox.put(np.array([4.0, 1.0, 9.0]), np.array([0, 1, 2]))
    >>> inbox.take(5.0)
    (array([1., 4.]), array([1, 0]))
    """

    def __init__(self) -> None:
        self._times: list[Floats] = []
        self._trees: list[Integers] = []

    def put(self, times: Floats, trees: Integers) -> None:
        """Add tuples, in any order."""
        if len(times):
            self._times.append(times)
            self._trees.append(trees)

    def take(self, horizon: float) -> tuple[Floats, Integers]:
        """Remove the tuples that join before the horizon, in order of time."""
        if not self._times:
            return np.empty(0), np.empty(0, dtype=np.int64)
        times, trees = np.concatenate(self._times), np.concatenate(self._trees)
        due = times < horizon
        self._times, self._trees = [times[~due]], [trees[~due]]
        times, trees = times[due], trees[due]
        order = np.argsort(times, kind="stable")
        return times[order], trees[order]


class Emitter:
    """How many tuples go along each outgoing flow for each tuple processed.

    A fork gives every flow its own: of a gain of 2.3 two always, a third with probability 0.3. A split
    sends a tuple along one flow at most, with the gains as probabilities.

    >>> fork = Emitter([(1, 2.0)], splits=False, rng=np.random.default_rng(1))
    >>> fork.emit(np.array([5.0, 6.0]), np.array([0, 1]))
    [(1, array([5., 5., 6., 6.]), array([0, 0, 1, 1]))]
    >>> fork.emit_one()
    [1, 1]
    """

    def __init__(self, flows: Sequence[tuple[int, float]], *, splits: bool, rng: np.random.Generator) -> None:
        self._flows = [(target, gain) for target, gain in flows if gain > 0]
        self._splits = splits
        self._ladder = np.cumsum([gain for _, gain in self._flows])
        self._steps = self._ladder.tolist()
        self._rngs = rng.spawn(max(1, len(self._flows)))
        certain = len(self._flows) <= 1 or not splits
        certain = certain and all(gain == int(gain) for _, gain in self._flows)
        self._always = [to for to, gain in self._flows for _ in range(int(gain))] if certain else None
        self._singly = [one_by_one(each.random) for each in self._rngs]

    def emit(self, times: Floats, trees: Integers) -> list[tuple[int, Floats, Integers]]:
        """For tuples processed at these times: target, times and trees of what is sent, by flow."""
        picks = self._split(len(times)) if self._splits else self._fork(len(times))
        return [
            (target, times[pick], trees[pick])
            for (target, _), pick in zip(self._flows, picks, strict=True)
            if len(pick)
        ]

    def _split(self, count: int) -> Iterator[Integers]:
        if self._flows:
            choice = np.searchsorted(self._ladder, self._rngs[0].random(count), side="right")
            for flow in range(len(self._flows)):
                yield np.flatnonzero(choice == flow)

    def _fork(self, count: int) -> Iterator[Integers]:
        for (_, gain), rng in zip(self._flows, self._rngs, strict=False):
            whole, part = divmod(gain, 1.0)
            copies = np.full(count, int(whole), dtype=np.int64)
            if part:
                copies += rng.random(count) < part
            yield np.repeat(np.arange(count), copies)

    def emit_one(self) -> list[int]:
        """The targets of what one processed tuple emits."""
        if self._always is not None:
            return self._always
        if self._splits:
            choice = bisect_right(self._steps, next(self._singly[0]))
            return [self._flows[choice][0]] if choice < len(self._flows) else []
        targets: list[int] = []
        for (target, gain), draws in zip(self._flows, self._singly, strict=False):
            whole, part = divmod(gain, 1.0)
            copies = int(whole) + (bool(part) and next(draws) < part)
            targets += [target] * copies
        return targets
