"""What a skewed stream-stream join is planned from and into: rows of keys, grids of partitions, plans.

A hot key's rows meet in a grid of partitions. A left row takes one row of the grid and is stored in all of its cells, a
right row takes one column, so every pair of rows meets in exactly one cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from foretide.errors import ModelError, Problem

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


@dataclass(frozen=True, slots=True)
class JoinCost:
    """Seconds of a core: for each task, each row that it takes in, and each pair of rows of one key; and the cores.

    >>> cost = JoinCost(task=0.5, row=0.001, pair=0.0001, cores=2)
    >>> cost.work(rows=[1000, 10], pairs=[20_000, 0])
    [3.5, 0.51]
    >>> cost.span([3.5, 0.51]), cost.span([2.0, 2.0, 2.0])
    (3.5, 3.0)
    """

    task: float
    row: float
    pair: float
    cores: int = 1

    def work(self, rows: Sequence[float], pairs: Sequence[float]) -> list[float]:
        """Seconds of each task."""
        return [self.task + self.row * taken + self.pair * met for taken, met in zip(rows, pairs, strict=True)]

    def span(self, work: Sequence[float]) -> float:
        """Seconds until all tasks are done: as long as the longest one takes, or all of them on all cores."""
        return max(max(work, default=0.0), math.fsum(work) / self.cores)


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


# ---- a running join


@dataclass(frozen=True, slots=True)
class JoinerFigures:
    """What the tasks of a join on one executor showed in the last batch: rows, seconds that a row took, and its length.

    The rows are those of both sides: a task reads them in one.
    """

    rows: int
    latency: float
    seconds: float


@dataclass(frozen=True, slots=True)
class JoinView:
    """A join as the control loop sees it at one instant.

    Attributes:
        windows: Windows in which keys were counted so far; `keys` and `tail` are those of the last one.
        keys: Rows of each frequent key in the last window.
        tail: Rows of all others in it, on each partition.
        forecast: Rows of each frequent key in the next window; empty where there is no forecast.
        forecast_tail: Rows of all others in it.
        forecast_by: The models that forecast its keys.
        imbalance: LI of the last window by the keys that were counted, under the plan in force.
        rows: Rows that each partition took in last, where tasks could be told apart.
        measured_imbalance: LI of these rows.
        loads: Load of each partition in the last window by the keys that were counted, under the plan in force.
        hash_loads: Load of each partition in the same window, had all keys gone where the hash sends them.
        plan: In force at the end of what is known; `pending` is the one to come, if a change is under way.
        problem: Why the plan cannot be changed at present, if it cannot.
        names: What people call its keys.
        cost: What its tasks were measured to cost, by rows of a window; None before that is known.
        state_rows: Rows that it holds, copies included.
        state_bytes: Memory that they take.
        window: Seconds of a window.
        joiners: What its tasks showed last, by executor; empty where they cannot be told apart.
    """

    name: str
    partitions: int
    how: How = "inner"
    windows: int = 0
    keys: tuple[KeyLoad, ...] = ()
    tail: tuple[TailLoad, ...] = ()
    forecast: tuple[KeyLoad, ...] = ()
    forecast_tail: tuple[TailLoad, ...] = ()
    forecast_by: str = ""
    imbalance: float | None = None
    rows: tuple[int, ...] | None = None
    measured_imbalance: float | None = None
    plan: JoinPlan = NO_PLAN
    pending: JoinPlan | None = None
    problem: str | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    cost: JoinCost | None = None
    loads: tuple[float, ...] = ()
    hash_loads: tuple[float, ...] = ()
    state_rows: int = 0
    state_bytes: int = 0
    window: float = 30.0
    joiners: Mapping[str, JoinerFigures] = field(default_factory=dict)

    @property
    def row_bytes(self) -> float | None:
        """Memory of a row that it holds (m_tuple of Aj-Stream); None while it holds none."""
        return self.state_bytes / self.state_rows if self.state_rows and self.state_bytes else None

    def of_its_window(self) -> JoinView:
        """Without what changes from one batch to the next."""
        known = {*self.plan.grids, *(load.key for load in (*self.keys, *self.forecast))}
        names = {key: name for key, name in self.names.items() if key in known}
        kept = replace(self, rows=None, measured_imbalance=None, names=names, state_rows=0, state_bytes=0)
        return replace(kept, loads=(), hash_loads=(), joiners={})


def grown(keys: Iterable[KeyLoad], tail: Iterable[TailLoad], factor: float) -> Loads:
    """The rows of a window in which so many times as many arrive.

    >>> grown([KeyLoad(7, 10.0, 2.0)], [TailLoad(4.0, 6.0)], 1.5)
    ((KeyLoad(key=7, left=15.0, right=3.0),), (TailLoad(left=6.0, right=9.0),))
    """
    return (
        tuple(replace(load, left=load.left * factor, right=load.right * factor) for load in keys),
        tuple(TailLoad(load.left * factor, load.right * factor) for load in tail),
    )


def with_imbalance(view: JoinView, default_partition: DefaultPartition) -> JoinView:
    """The view with the LI of its last window: by the keys that were counted, and by the rows that tasks took in."""
    expected = fill(view.plan, view.keys, view.tail, default_partition)
    by_rows = None
    if view.rows and len(view.rows) == view.partitions:  # not those of before a repartition
        by_rows = imbalance(measured_loads(view.rows, expected))
    by_hash = fill(NO_PLAN, view.keys, view.tail, default_partition)
    loads, hash_loads = tuple(expected.loads()), tuple(by_hash.loads())
    return replace(view, imbalance=imbalance(loads), measured_imbalance=by_rows, loads=loads, hash_loads=hash_loads)
