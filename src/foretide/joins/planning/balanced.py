"""Our refinement of Aj-Stream's plan: keys of medium size are placed as well, and hot keys split until LI is low.

With N_k = floor(|I| F(k)) a key of half of all rows fills half of the partitions, and the load there, a product of
rows, is still several times that of the others. So grids are made finer step by step, each time that of a key which
weighs much on the fullest partition, until the predicted LI is low enough. Keys that need no splitting stay where the
hash puts them as long as that partition is not too full; otherwise the least loaded partition takes them.

A low LI is no end in itself: copies of all rows everywhere would balance, too. Of the placements that were tried, only
those count whose fullest partition has little more load than the best one's.

Where it is known what rows and pairs cost, partitions are filled by the time of their tasks and by eq 1 alike: pairs of
different keys count in eq 1, but Spark never compares them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from foretide.joins.plan import DefaultPartition, Filling, How, JoinCost, KeyGrid, KeyLoad, TailLoad, grid_of, imbalance
from foretide.joins.planning.grid_shapes import WHOLE, GridShape, cell_rows, ladder
from foretide.joins.planning.paper import most_frequent
from foretide.joins.settings import JoinSettings

_MAX_EXTRA_WORK = 1.25
_MAX_CANDIDATES = 4
_MIN_WEIGHT_SHARE = 0.1
_MAX_STEPS = 64


@dataclass(frozen=True, slots=True)
class _Scale:
    """How full a partition is: its load by eq 1 and its work, each as a share of what would be even without copies."""

    load: float
    row: float
    pair: float

    @classmethod
    def of(cls, start: Filling, keys: Sequence[KeyLoad], cost: JoinCost | None) -> _Scale:
        left = math.fsum(start.left) + math.fsum(load.left for load in keys)
        right = math.fsum(start.right) + math.fsum(load.right for load in keys)
        pairs = math.fsum(start.pairs) + math.fsum(load.left * load.right for load in keys)
        count = len(start.left)
        even = cost.work([(left + right) / count], [pairs / count])[0] if cost else 0.0
        row, pair = (cost.row / even, cost.pair / even) if cost and even > 0 else (0.0, 0.0)
        return cls(count**2 / (left * right) if left * right > 0 else 0.0, row, pair)

    def fullness(self, left: float, right: float, pairs: float) -> float:
        return self.load * left * right + self.row * (left + right) + self.pair * pairs

    def of_all(self, filling: Filling) -> list[float]:
        return [self.fullness(*each) for each in zip(filling.left, filling.right, filling.pairs, strict=True)]

    def with_cell(self, left: float, right: float, filling: Filling) -> list[float]:
        """How full each partition would be with these rows of one more key."""
        held = zip(filling.left, filling.right, filling.pairs, strict=True)
        return [self.fullness(a + left, b + right, pairs + left * right) for a, b, pairs in held]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One placement of all keys: the shape and the cells of each, and the resulting balance."""

    shapes: Mapping[int, GridShape]
    cells: Mapping[int, Sequence[int]]
    filling: Filling
    imbalance: float
    fullest: float


@dataclass(frozen=True, slots=True)
class _Placement:
    """The inputs that all attempts to place some keys share."""

    keys: Sequence[KeyLoad]
    start: Filling
    default_partition: DefaultPartition
    scale: _Scale
    cost: JoinCost | None

    def place(self, shapes: Mapping[int, GridShape], slack: float | None) -> _Attempt:
        """Place the keys with the largest cells first, each on the partitions that are least full with it.

        A key in one piece stays on its default partition unless that would become fuller than average by more than
        `slack`, and fullest; without a `slack` it always stays.
        """
        filling, cells = self.start.copy(), {}
        level = math.inf if slack is None else self._even(shapes) * (1 + slack)
        for load in sorted(self.keys, key=lambda load: (-cell_rows(load, shapes[load.key]), load.key)):
            shape, default = shapes[load.key], self.default_partition(load.key)
            after = self.scale.with_cell(load.left / shape[0], load.right / shape[1], filling)
            if shape == WHOLE and after[default] <= max(level, *self.scale.of_all(filling)):
                chosen = [default]
            else:
                chosen = sorted(range(len(after)), key=after.__getitem__)[: shape[0] * shape[1]]
            filling.add(load, shape, chosen)
            cells[load.key] = chosen
        return _Attempt(shapes, cells, filling, self._imbalance(filling), max(self.scale.of_all(filling)))

    def _imbalance(self, filling: Filling) -> float:
        """The larger of LI by eq 1 and that of the time of tasks."""
        work = 0.0 if self.cost is None else imbalance(filling.work(self.cost))
        return max(imbalance(filling.loads()), work)

    def _even(self, shapes: Mapping[int, GridShape]) -> float:
        """How full a partition is if all rows, copies included, are spread evenly."""
        count = len(self.start.left)
        left = math.fsum(self.start.left) + math.fsum(load.left * shapes[load.key][1] for load in self.keys)
        right = math.fsum(self.start.right) + math.fsum(load.right * shapes[load.key][0] for load in self.keys)
        pairs = math.fsum(self.start.pairs) + math.fsum(load.left * load.right for load in self.keys)
        return self.scale.fullness(left / count, right / count, pairs / count)


def balanced_grids(
    hot: Sequence[KeyLoad],
    tail: Sequence[TailLoad],
    settings: JoinSettings,
    how: How,
    default_partition: DefaultPartition,
    cost: JoinCost | None = None,
) -> dict[int, KeyGrid]:
    """Grids that bring the predicted LI down to `settings.target`, or as near to it as was found.

    Keys whose only cell is where the hash puts them anyway are left out.
    """
    keys, start = most_frequent(hot, settings.candidates), Filling.of(tail)
    chosen = {load.key for load in keys}
    for load in hot:
        if load.key not in chosen:
            start.add(load, WHOLE, [default_partition(load.key)])
    placement = _Placement(keys, start, default_partition, _Scale.of(start, keys, cost), cost)
    best = _best(list(_attempts(placement, settings.target, how)))
    return {
        key: grid_of(cells, best.shapes[key][1])
        for key, cells in best.cells.items()
        if len(cells) > 1 or cells[0] != default_partition(key)
    }


def _best(attempts: Sequence[_Attempt]) -> _Attempt:
    """The lowest LI among those that do not pay for it with more work on the fullest partition."""
    least = min(each.fullest for each in attempts)
    return min((each for each in attempts if each.fullest <= _MAX_EXTRA_WORK * least), key=lambda each: each.imbalance)


def _attempts(placement: _Placement, target: float, how: How) -> Iterator[_Attempt]:
    """No plan at all, then ever finer grids, until LI reaches the target or nothing can be split any further."""
    shapes: Mapping[int, GridShape] = {load.key: WHOLE for load in placement.keys}
    now = placement.place(shapes, None)
    yield now
    if now.imbalance > target:
        now = placement.place(shapes, target / 2)
        yield now
    rungs = {load.key: ladder(load, len(placement.start.left), how) for load in placement.keys}
    for _ in range(_MAX_STEPS):
        finer = [] if now.imbalance <= target else list(_finer(placement, now, rungs))
        if not finer:
            return
        now = min((placement.place(each, target / 2) for each in finer), key=lambda each: each.fullest)
        yield now


def _finer(
    placement: _Placement, now: _Attempt, rungs: Mapping[int, Sequence[GridShape]]
) -> Iterator[Mapping[int, GridShape]]:
    """The shapes with one key split a step further: one of those that weigh most on the fullest partition."""
    scale, held = placement.scale, now.filling
    full = scale.of_all(held)
    fullest = full.index(max(full))
    all_left, all_right, all_pairs = held.left[fullest], held.right[fullest], held.pairs[fullest]

    def weight(load: KeyLoad) -> float:
        """By how much less full the partition would be without the key."""
        rows, columns = now.shapes[load.key]
        left, right = load.left / rows, load.right / columns
        return full[fullest] - scale.fullness(all_left - left, all_right - right, all_pairs - left * right)

    candidates = [
        load
        for load in placement.keys
        if fullest in now.cells[load.key] and now.shapes[load.key] != rungs[load.key][-1]
    ]
    candidates.sort(key=lambda load: (-weight(load), load.key))
    for load in candidates[:_MAX_CANDIDATES]:
        if weight(load) >= _MIN_WEIGHT_SHARE * weight(candidates[0]):
            steps = rungs[load.key]
            yield {**now.shapes, load.key: steps[steps.index(now.shapes[load.key]) + 1]}
