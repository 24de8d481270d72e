"""Joins: the load of each partition, their imbalance, and the hot keys with their plans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from foretide.joins.placement.salts import tail_partition
from foretide.joins.plan import JoinView, with_imbalance
from foretide.status.views.seen import Seen

_MAX_KEYS = 30


@dataclass(frozen=True, slots=True)
class HotKey:
    """A frequent key: its rows in the last window, those that are forecast, and where the plan puts them.

    `partitions` is empty where the hash alone places it.
    """

    name: str
    left: float
    right: float
    forecast: float | None
    partitions: tuple[int, ...]
    placement: str


@dataclass(frozen=True, slots=True)
class JoinDetail:
    """A join.

    Attributes:
        windows: Windows in which keys were counted so far.
        imbalance: LI: by how much the fullest partition exceeds the mean load, as a share of it.
        hash_imbalance: The same, had all keys gone where the hash sends them.
        loads: Load of each partition in the last window, under the plan in force; `hash_loads` without a plan.
    """

    name: str
    partitions: int
    window_seconds: float
    windows: int
    summary: str
    imbalance: float | None
    hash_imbalance: float | None
    loads: tuple[float, ...]
    hash_loads: tuple[float, ...]
    keys: tuple[HotKey, ...]
    forecast_by: str
    problem: str | None


def joins(seen: Seen) -> tuple[JoinDetail, ...]:
    """The joins of a pipeline."""
    views = {} if seen.world is None else seen.world.joins
    return tuple(_detail(seen, view) for view in views.values())


def _detail(seen: Seen, view: JoinView) -> JoinDetail:
    if view.keys or view.tail:
        view = with_imbalance(view, partial(tail_partition, partitions=view.partitions))
    control = None if seen.state is None else seen.state.control
    summary = None if control is None else control.joins.get(view.name)
    measured = None if summary is None else summary.imbalance
    return JoinDetail(
        view.name,
        view.partitions,
        view.window,
        view.windows,
        "no window of keys is complete yet" if summary is None else summary.describe(),
        view.imbalance if measured is None else measured,
        _imbalance(view.hash_loads),
        view.loads,
        view.hash_loads,
        _keys(view),
        view.forecast_by,
        view.problem,
    )


def _imbalance(loads: tuple[float, ...]) -> float | None:
    mean = sum(loads) / len(loads) if loads else 0.0
    return max(loads) / mean - 1 if mean else None


def _keys(view: JoinView) -> tuple[HotKey, ...]:
    ahead = {load.key: load.rows for load in view.forecast}
    busiest = sorted(view.keys, key=lambda load: -load.rows)[:_MAX_KEYS]
    found = []
    for load in busiest:
        grid = view.plan.grids.get(load.key)
        cells = () if grid is None else tuple(grid.cells)
        placement = "by hash" if grid is None else f"{grid.shape[0]} x {grid.shape[1]} grid"
        name = view.names.get(load.key, str(load.key))
        found.append(HotKey(name, load.left, load.right, ahead.get(load.key), cells, placement))
    return tuple(found)
