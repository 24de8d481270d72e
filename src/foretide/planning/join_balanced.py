"""Our refinement of Aj-Stream's plan: keys of medium size are placed as well, and hot keys split until LI is low.

With N_k = floor(|I| F(k)) a key of half of all rows fills half of the partitions, and the load there, a product of
rows, is still several times that of the others. So grids are made finer step by step, each time that of a key which
weighs much on the fullest partition, until the predicted LI is low enough. Keys that need no splitting stay where the
hash puts them as long as that partition is not too full; otherwise the least loaded partition takes them.

A low LI is no end in itself: copies of all rows everywhere would balance, too. Of the placements that were tried, only
those count whose fullest partition has little more load than the best one's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from foretide.planning.join_grids import WHOLE, Shape, cell_rows, ladder
from foretide.planning.join_model import Filling, Grid, Home, How, KeyLoad, TailLoad, grid_of, imbalance
from foretide.planning.join_paper import most_frequent
from foretide.planning.join_settings import JoinSettings

_DEARER = 1.25
_WIDTH = 4
_WORTH_SPLITTING = 0.1
_MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One placement of all keys: the shape and the cells of each, and what that leads to."""

    shapes: Mapping[int, Shape]
    cells: Mapping[int, Sequence[int]]
    filling: Filling
    imbalance: float
    fullest: float


def balanced_grids(
    hot: Sequence[KeyLoad], tail: Sequence[TailLoad], settings: JoinSettings, how: How, home: Home
) -> dict[int, Grid]:
    """Grids that bring the predicted LI down to `settings.target`, or as near to it as was found.

    Keys whose only cell is where the hash puts them anyway are left out.
    """
    keys, start = most_frequent(hot, settings.candidates), Filling.of(tail)
    chosen = {load.key for load in keys}
    for load in hot:
        if load.key not in chosen:
            start.add(load, WHOLE, [home(load.key)])
    best = _best(list(_attempts(keys, start, settings.target, how, home)))
    return {
        key: grid_of(cells, best.shapes[key][1])
        for key, cells in best.cells.items()
        if len(cells) > 1 or cells[0] != home(key)
    }


def _best(attempts: Sequence[_Attempt]) -> _Attempt:
    """The lowest LI among those that do not pay for it with more work on the fullest partition."""
    least = min(each.fullest for each in attempts)
    return min((each for each in attempts if each.fullest <= _DEARER * least), key=lambda each: each.imbalance)


def _attempts(keys: Sequence[KeyLoad], start: Filling, target: float, how: How, home: Home) -> Iterator[_Attempt]:
    """No plan at all, then ever finer grids, until LI reaches the target or nothing can be split any further."""
    shapes: Mapping[int, Shape] = {load.key: WHOLE for load in keys}
    now = _place(keys, shapes, start, None, home)
    yield now
    if now.imbalance > target:
        now = _place(keys, shapes, start, target / 2, home)
        yield now
    rungs = {load.key: ladder(load, len(start.left), how) for load in keys}
    for _ in range(_MOST_STEPS):
        finer = [] if now.imbalance <= target else list(_finer(keys, now, rungs))
        if not finer:
            return
        now = min((_place(keys, each, start, target / 2, home) for each in finer), key=lambda each: each.fullest)
        yield now


def _finer(
    keys: Sequence[KeyLoad], now: _Attempt, rungs: Mapping[int, Sequence[Shape]]
) -> Iterator[Mapping[int, Shape]]:
    """The shapes with one key split a step further: one of those that weigh most on the fullest partition."""
    loads = now.filling.loads()
    fullest = loads.index(max(loads))
    stored, coming = now.filling.left[fullest], now.filling.right[fullest]

    def weight(load: KeyLoad) -> float:
        """The load that the partition would be rid of without the key."""
        rows, columns = now.shapes[load.key]
        left, right = load.left / rows, load.right / columns
        return left * coming + right * stored - left * right

    there = [load for load in keys if fullest in now.cells[load.key] and now.shapes[load.key] != rungs[load.key][-1]]
    there.sort(key=lambda load: (-weight(load), load.key))
    for load in there[:_WIDTH]:
        if weight(load) >= _WORTH_SPLITTING * weight(there[0]):
            steps = rungs[load.key]
            yield {**now.shapes, load.key: steps[steps.index(now.shapes[load.key]) + 1]}


def _place(
    keys: Sequence[KeyLoad], shapes: Mapping[int, Shape], start: Filling, slack: float | None, home: Home
) -> _Attempt:
    """Place the keys with the largest cells first, each on the partitions that are least loaded with it.

    A key in one piece stays at home unless that would become fuller than average by more than `slack`, and fullest;
    without a `slack` it always stays.
    """
    filling, cells = Filling(list(start.left), list(start.right)), {}
    level = math.inf if slack is None else _even_load(keys, shapes, start) * (1 + slack)
    for load in sorted(keys, key=lambda load: (-cell_rows(load, shapes[load.key]), load.key)):
        shape, at_home = shapes[load.key], home(load.key)
        after = _loads_with(load, shape, filling)
        if shape == WHOLE and after[at_home] <= max(level, *filling.loads()):
            chosen = [at_home]
        else:
            chosen = sorted(range(len(after)), key=after.__getitem__)[: shape[0] * shape[1]]
        filling.add(load, shape, chosen)
        cells[load.key] = chosen
    loads = filling.loads()
    return _Attempt(shapes, cells, filling, imbalance(loads), max(loads))


def _even_load(keys: Sequence[KeyLoad], shapes: Mapping[int, Shape], start: Filling) -> float:
    """The load of a partition if all rows, copies included, were spread evenly."""
    left = math.fsum(start.left) + math.fsum(load.left * shapes[load.key][1] for load in keys)
    right = math.fsum(start.right) + math.fsum(load.right * shapes[load.key][0] for load in keys)
    return left * right / len(start.left) ** 2


def _loads_with(load: KeyLoad, shape: Shape, filling: Filling) -> list[float]:
    """The load of each partition if it got a cell of the key."""
    left, right = load.left / shape[0], load.right / shape[1]
    return [(a + left) * (b + right) for a, b in zip(filling.left, filling.right, strict=True)]
