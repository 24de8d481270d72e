"""What a skewed stream-stream join is planned from and into: rows of keys, grids of partitions, plans.

A hot key's rows meet in a grid of partitions. A left row takes one row of the grid and is stored in all of its cells, a
right row takes one column, so every pair of rows meets in exactly one cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from foretide.errors import ModelError, Problem

if TYPE_CHECKING:
    from foretide.joins.task_costs import JoinCost

How = Literal["inner", "left"]
"""The kind of join. A left row of a `left` join must not be copied, or it would find no partner in some copy."""

DefaultPartition = Callable[[int], int]
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


Loads = tuple[tuple[KeyLoad, ...], tuple[TailLoad, ...]]
"""The load of each frequent key, and of all other keys on each partition."""


def loads_of(left: Mapping[int, float], right: Mapping[int, float], rows: tuple[int, int], partitions: int) -> Loads:
    """The keys that were counted on each side, and the rest of all rows, taken as spread evenly.

    >>> loads_of({7: 3.0}, {7: 1.0}, rows=(5, 3), partitions=2)
    ((KeyLoad(key=7, left=3.0, right=1.0),), (TailLoad(left=1.0, right=1.0), TailLoad(left=1.0, right=1.0)))
    """
    keys = tuple(KeyLoad(key, left.get(key, 0.0), right.get(key, 0.0)) for key in sorted({*left, *right}))
    rest = [max(0.0, total - sum(counts.values())) for total, counts in zip(rows, (left, right), strict=True)]
    return keys, (TailLoad(rest[0] / partitions, rest[1] / partitions),) * partitions


@dataclass(frozen=True, slots=True)
class KeyGrid:
    """The partitions of a key: rows of the grid divide the left side's rows, columns the right side's.

    >>> grid = KeyGrid(((0, 3), (5, 6)))
    >>> grid.shape, grid.cells
    ((2, 2), (0, 3, 5, 6))
    """

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows}
        if len(widths) != 1 or not min(widths) or any(cell < 0 for row in self.rows for cell in row):
            raise ModelError([Problem("grid", f"is {self.rows}", "Give rows of one length, of partitions from 0 on.")])

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns."""
        return len(self.rows), len(self.rows[0])

    @property
    def cells(self) -> tuple[int, ...]:
        """The partition of each cell, row by row."""
        return tuple(cell for row in self.rows for cell in row)


def grid_of(cells: Sequence[int], columns: int) -> KeyGrid:
    """The grid with these partitions, row by row.

    >>> grid_of([4, 2, 7, 1], 2)
    KeyGrid(rows=((4, 2), (7, 1)))
    """
    return KeyGrid(tuple(tuple(cells[at : at + columns]) for at in range(0, len(cells), columns)))


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """The grid of each hot key; all other keys go where the hash sends them. Plans with the same grids are equal.

    Attributes:
        grids: The grid of each hot key, by the hash of its columns.
        imbalance: LI that was predicted when the plan was made.
        replication: Rows stored for each row that arrives, as predicted.
        work: Seconds of each partition's tasks, as predicted; empty where their cost is not known.
    """

    grids: Mapping[int, KeyGrid]
    imbalance: float = field(default=0.0, compare=False)
    replication: float = field(default=1.0, compare=False)
    work: tuple[float, ...] = field(default=(), compare=False)

    def grid_of_key(self, key: int, default_partition: DefaultPartition) -> KeyGrid:
        """The grid of a key, be it hot or not."""
        return self.grids[key] if key in self.grids else KeyGrid(((default_partition(key),),))


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
        """The partitions before any key is placed."""
        return cls([load.left for load in tail], [load.right for load in tail], [0.0] * len(tail))

    def copy(self) -> Filling:
        """A copy that can be filled further by itself."""
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
        return cost.work(self.partition_rows(), self.pairs)

    def partition_rows(self) -> list[float]:
        """Rows of both sides on each partition, copies included."""
        return [left + right for left, right in zip(self.left, self.right, strict=True)]

    def rows(self) -> float:
        """All rows stored, copies included."""
        return math.fsum(self.left) + math.fsum(self.right)


def fill(
    plan: JoinPlan, keys: Iterable[KeyLoad], tail: Sequence[TailLoad], default_partition: DefaultPartition
) -> Filling:
    """Rows on each partition under a plan."""
    filling = Filling.of(tail)
    for load in keys:
        grid = plan.grid_of_key(load.key, default_partition)
        filling.add(load, grid.shape, grid.cells)
    return filling


def measured_loads(rows: Sequence[float], expected: Filling) -> list[float]:
    """Loads (eq 1) from the rows that each partition really took in, split into sides as the plan expects.

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
