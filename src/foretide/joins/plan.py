"""What a skewed stream-stream join is planned from and into: rows of keys, grids of partitions, plans.

A hot key's rows meet in a grid of partitions. A left row takes one row of the grid and is stored in all of its cells, a
right row takes one column, so every pair of rows meets in exactly one cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from foretide.errors import ModelError, Problem
from foretide.joins.task_costs import JoinCost

How = Literal["inner", "left"]
"""Which join it is. A left row of a `left` join must not be copied, or it would find no partner in some copy."""

Home = Callable[[int], int]
"""The partition to which the hash alone sends a key."""


@dataclass(frozen=True, slots=True)
class KeyLoad:
    """Rows of a key on both sides in a window, measured or forecast.

    `key` is the 32-bit hash of the key's columns, as Spark's `hash` gives it.
    """

    key: int
    left: float
    right: float

    def __post_init__(self) -> None:
        _check_rows(f"key {self.key}", self.left, self.right)

    @property
    def rows(self) -> float:
        """Rows of both sides."""
        return self.left + self.right


@dataclass(frozen=True, slots=True)
class TailLoad:
    """Rows that the hash alone puts on a partition: those of all keys that are not considered one by one."""

    left: float
    right: float

    def __post_init__(self) -> None:
        _check_rows("tail", self.left, self.right)


@dataclass(frozen=True, slots=True)
class KeyGrid:
    """Partition numbers: rows divide the left side's tuples, columns the right side's.

    >>> grid = KeyGrid(((0, 3), (5, 6)))
    >>> grid.shape, grid.of_left(1), grid.of_right(1)
    ((2, 2), (5, 6), (3, 6))
    """

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows}
        if len(widths) != 1 or not min(widths) or any(cell < 0 for row in self.rows for cell in row):
            raise ModelError([Problem("grid", f"is {self.rows}", "Give rows of one length, of partitions from 0 on.")])

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns."""
        return len(self.rows), len(self.rows[0])

    @property
    def cells(self) -> tuple[int, ...]:
        """The partition of each cell, row by row."""
        return tuple(cell for row in self.rows for cell in row)

    def of_left(self, row: int) -> tuple[int, ...]:
        """Where a left tuple of that row goes."""
        return self.rows[row]

    def of_right(self, column: int) -> tuple[int, ...]:
        """Where a right tuple of that column goes."""
        return tuple(row[column] for row in self.rows)


def grid_of(cells: Sequence[int], columns: int) -> KeyGrid:
    """The grid with these partitions, row by row.

    >>> grid_of([4, 2, 7, 1], 2)
    KeyGrid(rows=((4, 2), (7, 1)))
    """
    return KeyGrid(tuple(tuple(cells[at : at + columns]) for at in range(0, len(cells), columns)))


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Where the rows of which key meet. Two plans are equal when they place alike.

    Attributes:
        grids: The grid of each hot key, by the hash of its columns.
        tail: How all other keys are placed. Empty: by the hash, each key in one partition. Otherwise the hash of
            a key picks one of these grids; only rivals in benchmarks do that.
        imbalance: LI that was predicted when the plan was made.
        replication: Rows stored for each row that arrives, as predicted.
        work: Seconds of each partition's tasks, as predicted; empty where it is not known what they cost.
    """

    grids: Mapping[int, KeyGrid]
    tail: tuple[KeyGrid, ...] = ()
    imbalance: float = field(default=0.0, compare=False)
    replication: float = field(default=1.0, compare=False)
    work: tuple[float, ...] = field(default=(), compare=False)

    def grid_of_key(self, key: int, home: Home) -> KeyGrid:
        """The grid that the rows of a key go to, be it hot or not."""
        if key in self.grids:
            return self.grids[key]
        return self.tail[key % len(self.tail)] if self.tail else KeyGrid(((home(key),),))


NO_PLAN = JoinPlan({})
"""Every key by the hash alone."""


@dataclass(slots=True)
class Filling:
    """Rows of both sides on each partition, and pairs of one known key there, while they are being placed."""

    left: list[float]
    right: list[float]
    pairs: list[float]

    @classmethod
    def of(cls, tail: Sequence[TailLoad]) -> Filling:
        """What is there before any key is placed."""
        return cls([load.left for load in tail], [load.right for load in tail], [0.0] * len(tail))

    def copy(self) -> Filling:
        """One that can be filled further by itself."""
        return Filling(list(self.left), list(self.right), list(self.pairs))

    def add(self, load: KeyLoad, shape: tuple[int, int], cells: Iterable[int]) -> None:
        """Put an even part of a key's rows into each of its cells."""
        left, right = load.left / shape[0], load.right / shape[1]
        for cell in cells:
            self.left[cell] += left
            self.right[cell] += right
            self.pairs[cell] += left * right

    def loads(self) -> list[float]:
        """Aj-Stream eq 1 for each partition: rows stored of one side times rows that come on the other."""
        return [left * right for left, right in zip(self.left, self.right, strict=True)]

    def work(self, cost: JoinCost) -> list[float]:
        """Seconds that each partition's tasks take."""
        return cost.work([left + right for left, right in zip(self.left, self.right, strict=True)], self.pairs)

    def rows(self) -> float:
        """All rows stored, copies included."""
        return math.fsum(self.left) + math.fsum(self.right)


def measured_loads(rows: Sequence[float], expected: Filling) -> list[float]:
    """Loads (eq 1) from the rows that each partition really took in: of both sides as many as the plan puts there.

    >>> measured_loads([40.0, 10.0], Filling([3.0, 1.0], [1.0, 1.0], [0.0, 0.0]))
    [300.0, 25.0]
    """
    loads = []
    for taken, left, right in zip(rows, expected.left, expected.right, strict=True):
        share = left / (left + right) if left + right > 0 else 0.5
        loads.append(share * taken * (1 - share) * taken)
    return loads


def imbalance(loads: Sequence[float]) -> float:
    """LI of Aj-Stream eq 2: by how much the fullest partition exceeds the average, as a share of it; 0 for no load.

    >>> imbalance([3.0, 1.0, 2.0]), imbalance([0.0, 0.0])
    (0.5, 0.0)
    """
    average = math.fsum(loads) / len(loads) if loads else 0.0
    return max(loads) / average - 1 if average > 0 else 0.0


def fill(plan: JoinPlan, keys: Iterable[KeyLoad], tail: Sequence[TailLoad], home: Home) -> Filling:
    """Rows on each partition under a plan. What belongs to no known key is taken to be spread evenly over its grids."""
    filling = Filling.of([TailLoad(0.0, 0.0)] * len(tail) if plan.tail else tail)
    if plan.tail:
        share = 1 / len(plan.tail)
        rest = KeyLoad(0, share * math.fsum(t.left for t in tail), share * math.fsum(t.right for t in tail))
        for grid in plan.tail:
            filling.add(rest, grid.shape, grid.cells)
    for load in keys:
        grid = plan.grid_of_key(load.key, home)
        filling.add(load, grid.shape, grid.cells)
    return filling


def tail_of(keys: Iterable[KeyLoad], partitions: int, home: Home) -> tuple[TailLoad, ...]:
    """Rows of these keys on each partition when the hash alone places them.

    >>> tail_of([KeyLoad(5, 2.0, 1.0), KeyLoad(7, 3.0, 1.0)], 2, lambda key: key % 2)
    (TailLoad(left=0.0, right=0.0), TailLoad(left=5.0, right=2.0))
    """
    filling = fill(NO_PLAN, keys, [TailLoad(0.0, 0.0)] * partitions, home)
    return tuple(TailLoad(left, right) for left, right in zip(filling.left, filling.right, strict=True))


def check_how(how: str) -> None:
    """Refuse a join that grids cannot do."""
    if how not in get_args(How):
        raise ModelError([Problem("how", f"is {how!r}", f"Give one of {', '.join(get_args(How))}.")])


def _check_rows(where: str, left: float, right: float) -> None:
    problems = [
        Problem(where, f"has {rows:g} rows on the {side}", "Give a finite number, 0 or more.")
        for side, rows in (("left", left), ("right", right))
        if not (math.isfinite(rows) and rows >= 0)
    ]
    if problems:
        raise ModelError(problems)
