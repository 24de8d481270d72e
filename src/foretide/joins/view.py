"""A join as the control loop sees it: its keys, its partitions, the plan in force and the one to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foretide.joins.plan import How, JoinPlan, KeyLoad, TailLoad
from foretide.joins.task_costs import JoinCost

Grids = Mapping[int, tuple[tuple[int, ...], ...]]
"""Partitions in rows of columns, by the hash of a key."""


@dataclass(frozen=True, slots=True)
class JoinView:
    """What is known of a join at one instant.

    Attributes:
        name: As in the query.
        partitions: Of its state.
        how: `inner` or `left`.
        windows: Windows in which keys were counted so far; what was seen last belongs to the last of them.
        keys: Rows of each frequent key in the last window.
        tail: Rows of all others in it, on each partition.
        foreseen: Rows of each frequent key in the window to come; empty where nothing is foreseen.
        foreseen_tail: Rows of all others in it.
        imbalance: LI of the last window by the keys that were counted, under the plan in force.
        rows: Rows that each partition took in last, where tasks could be told apart.
        measured: LI of these rows.
        plan: In force at the end of what is known.
        pending: To come, if a change is under way.
        problem: Why the plan cannot be changed at present, if it cannot.
        by: The models that foresee its keys.
        names: What people call its keys.
        cost: What its tasks were measured to cost, by rows of a window; None before that is known.
    """

    name: str
    partitions: int
    how: How = "inner"
    windows: int = 0
    keys: tuple[KeyLoad, ...] = ()
    tail: tuple[TailLoad, ...] = ()
    foreseen: tuple[KeyLoad, ...] = ()
    foreseen_tail: tuple[TailLoad, ...] = ()
    imbalance: float | None = None
    rows: tuple[int, ...] | None = None
    plan: JoinPlan = field(default_factory=lambda: JoinPlan({}))
    pending: JoinPlan | None = None
    problem: str | None = None
    by: str = ""
    names: Mapping[int, str] = field(default_factory=dict)
    measured: float | None = None
    cost: JoinCost | None = None

    def of_its_window(self) -> JoinView:
        """Without what changes from one batch to the next."""
        known = {*self.plan.grids, *(load.key for load in (*self.keys, *self.foreseen))}
        names = {key: name for key, name in self.names.items() if key in known}
        return replace(self, rows=None, measured=None, names=names)
