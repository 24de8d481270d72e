"""Routes in a simulation: which task of a pool each tuple goes to, and how that changes with time."""

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
    spread: Literal["random", "even"] = "random"

    @classmethod
    def first(
        cls, active: int, pool: int, since: float = 0.0, spread: Literal["random", "even"] = "random"
    ) -> RouteChange:
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
