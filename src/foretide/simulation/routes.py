"""Where simulated tuples go: the task of a pool, by a route that may change with time, and the operators after it."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from foretide.errors import Problem
from foretide.simulation.variation import Floats, Integers, one_by_one

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Spread = Literal["random", "even"]
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class RouteChange:
    """A split over the tasks of a pool, in force from `since` on.

    >>> RouteChange((4.0, 3.0, 1.0)).shares
    (0.5, 0.375, 0.125)
    >>> RouteChange.first(2, pool=4, since=30.0).shares
    (0.5, 0.5, 0.0, 0.0)

    Attributes:
        weights: One for each task of the pool, in any scale; 0 bypasses the task.
        since: Seconds. A tuple follows the route in force when it joins the queue, or when its batch starts.
        spread: "random" sends each tuple independently; "even" takes turns in proportion to the weights.
    """

    weights: tuple[float, ...]
    since: float = 0.0
    spread: Spread = "random"

    @classmethod
    def first(cls, active: int, pool: int, since: float = 0.0, spread: Spread = "random") -> RouteChange:
        """An equal split over the first `active` tasks of the pool."""
        return cls((1.0,) * active + (0.0,) * (pool - active), since, spread)

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights, scaled to a sum of 1."""
        total = math.fsum(self.weights)
        return tuple(weight / total for weight in self.weights)


def route_problems(operator: str, routes: Sequence[RouteChange], pool: int) -> Iterator[Problem]:
    """All that is wrong with an operator's routes."""
    where = f"routes of '{operator}'"
    if routes and routes[0].since > 0:
        yield Problem(where, f"the first begins at {routes[0].since:g}", "Begin at 0.")
    if any(later.since <= earlier.since for earlier, later in pairwise(routes)):
        yield Problem(where, "are not in order of time", "Let each begin after the one before.")
    for route in routes:
        if len(route.weights) != pool:
            what = f"one has {len(route.weights)} weights for a pool of {pool}"
            yield Problem(where, what, "Give each task of the pool a weight; 0 bypasses it.")
        if not all(math.isfinite(weight) and weight >= 0 for weight in route.weights):
            yield Problem(where, f"weights are {route.weights}", "Give finite weights, 0 or more.")
        elif math.fsum(route.weights) <= 0:
            yield Problem(where, "one leaves no task active", "Give at least one task a weight above 0.")


class Router:
    """Sends tuples to tasks by the route in force.

    >>> router = Router([RouteChange((1.0, 0.0)), RouteChange((0.0, 1.0), since=10.0)], np.random.default_rng(1))
    >>> router.assign(np.array([3.0, 9.9, 10.0])).tolist()
    [0, 0, 1]
    >>> router.assign_one(11.0)
    1
    """

    def __init__(self, routes: Sequence[RouteChange], rng: np.random.Generator) -> None:
        self._since = [route.since for route in routes]
        self._ladders = [_ladder(route) for route in routes]
        self._even = [route.spread == "even" for route in routes]
        self._rng = rng
        self._singly = one_by_one(rng.random)
        self._turn = 0

    def assign(self, times: Floats) -> Integers:
        """The task of each tuple, given the (rising) times at which they join."""
        tasks = np.empty(len(times), dtype=np.int64)
        edges = [0, *np.searchsorted(times, self._since[1:], side="left").tolist(), len(times)]
        for piece, (low, high) in enumerate(pairwise(edges)):
            draws = self._draws(piece, high - low)
            tasks[low:high] = np.searchsorted(self._ladders[piece], draws, side="right")
        return tasks

    def assign_one(self, time: float) -> int:
        """The task of one tuple."""
        piece = max(bisect_right(self._since, time) - 1, 0)
        draw = float(self._draws(piece, 1)[0]) if self._even[piece] else next(self._singly)
        return bisect_right(self._ladders[piece], draw)

    def _draws(self, piece: int, count: int) -> Floats:
        if not self._even[piece]:
            return self._rng.random(count)
        turns = np.arange(self._turn, self._turn + count)
        self._turn += count
        return np.asarray((turns * _GOLDEN) % 1.0, dtype=np.float64)


def _ladder(route: RouteChange) -> list[float]:
    """Inner boundaries of the tasks on [0, 1): a draw falls to the task between two of them.

    The turns of an even spread are multiples of the golden ratio, which cover any stretch of [0, 1) in
    proportion to its length, more evenly than chance does.
    """
    ladder = np.cumsum(route.shares)[:-1]
    last = max(task for task, weight in enumerate(route.weights) if weight > 0)
    ladder[last:] = 1.0
    return [float(step) for step in ladder]


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
