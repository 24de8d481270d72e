"""A join as the control loop sees it: its keys, its partitions, the plan in force and the one to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foretide.joins.plan import (
    NO_PLAN,
    DefaultPartition,
    How,
    JoinPlan,
    KeyLoad,
    TailLoad,
    fill,
    imbalance,
    measured_loads,
)
from foretide.joins.task_costs import JoinCost


@dataclass(frozen=True, slots=True)
class JoinView:
    """What is known of a join at one instant.

    Attributes:
        name: As in the query.
        partitions: Partitions of its state.
        how: `inner` or `left`.
        windows: Windows in which keys were counted so far; `keys` and `tail` are those of the last one.
        keys: Rows of each frequent key in the last window.
        tail: Rows of all others in it, on each partition.
        forecast: Rows of each frequent key in the next window; empty where there is no forecast.
        forecast_tail: Rows of all others in it.
        forecast_by: The models that forecast its keys.
        imbalance: LI of the last window by the keys that were counted, under the plan in force.
        rows: Rows that each partition took in last, where tasks could be told apart.
        measured_imbalance: LI of these rows.
        plan: In force at the end of what is known.
        pending: The plan to come, if a change is under way.
        problem: Why the plan cannot be changed at present, if it cannot.
        names: What people call its keys.
        cost: What its tasks were measured to cost, by rows of a window; None before that is known.
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

    def of_its_window(self) -> JoinView:
        """Without what changes from one batch to the next."""
        known = {*self.plan.grids, *(load.key for load in (*self.keys, *self.forecast))}
        names = {key: name for key, name in self.names.items() if key in known}
        return replace(self, rows=None, measured_imbalance=None, names=names)


def with_imbalance(view: JoinView, default_partition: DefaultPartition) -> JoinView:
    """The view with the LI of its last window: by the keys that were counted, and by the rows that tasks took in."""
    expected = fill(view.plan, view.keys, view.tail, default_partition)
    by_rows = None
    if view.rows and len(view.rows) == view.partitions:  # not those of before a repartition
        by_rows = imbalance(measured_loads(view.rows, expected))
    return replace(view, imbalance=imbalance(expected.loads()), measured_imbalance=by_rows)
