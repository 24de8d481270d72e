"""Planning of skewed stream-stream joins (Aj-Stream): which keys are split over which partitions in the next window."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretide.errors import ModelError, Problem
from foretide.joins.plan import (
    NO_PLAN,
    Home,
    How,
    JoinPlan,
    KeyLoad,
    TailLoad,
    check_how,
    fill,
    imbalance,
)
from foretide.joins.planning.balanced import balanced_grids
from foretide.joins.planning.paper import paper_grids
from foretide.joins.settings import JoinSettings
from foretide.joins.task_costs import JoinCost

_STANDARD = JoinSettings()
_CLEARLY = 0.95


def plan_join(
    hot: Sequence[KeyLoad],
    tail: Sequence[TailLoad],
    partitions: int,
    settings: JoinSettings = _STANDARD,
    before: JoinPlan | None = None,
    how: How = "inner",
    home: Home | None = None,
    cost: JoinCost | None = None,
) -> JoinPlan:
    """The plan for the next window, or `before` itself where a new one would bring too little.

    Half of all rows have key 13, the rest is spread evenly over 4 partitions:

    >>> plan = plan_join([KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * 4, 4)
    >>> plan.grids[13].rows, plan.imbalance, plan.replication
    (((0, 1), (2, 3)), 0.0, 1.5)

    Args:
        hot: Rows of each key that is considered by itself, as forecast for that window. How many of them the plan
            considers, the settings say; the rest is left to the hash.
        tail: Rows of all other keys, on each partition.
        partitions: How many there are.
        settings: With `variant` "paper" the plan is Aj-Stream's, with "balanced" ours; see `join_balanced`.
        before: The plan in force. It stays if the new one lowers LI by less than `settings.min_gain`, both as
            predicted for the next window.
        how: A `left` join allows no copies of left rows, so its grids have one column.
        home: Where the hash alone sends a key; the key modulo the partitions if not given.
        cost: What tasks were measured to cost. "balanced" then balances their time as well, where that is done
            sooner.

    Raises:
        ModelError: A key came twice, or the tail is not that of so many partitions; lists every problem.
    """
    check_how(how)
    _check(hot, tail, partitions)
    at_home = home or (lambda key: key % partitions)
    old = before if before is not None and _fits(before, partitions, how) else NO_PLAN
    if not hot:
        return _judged(NO_PLAN, hot, tail, at_home, cost)
    if settings.variant == "paper":
        grids = paper_grids(hot, tail, settings, old, how, at_home)
    else:
        grids = balanced_grids(hot, tail, settings, how, at_home)
    new = _judged(JoinPlan(grids), hot, tail, at_home, cost)
    if settings.variant == "balanced" and cost is not None:
        by_time = JoinPlan(balanced_grids(hot, tail, settings, how, at_home, cost))
        new = _sooner(new, _judged(by_time, hot, tail, at_home, cost), cost)
    if before is not None and old is before:
        old = _judged(before, hot, tail, at_home, cost)
        sooner = cost is not None and _sooner(old, new, cost) is new
        return new if sooner or old.imbalance - new.imbalance >= settings.min_gain else before
    return new


def _sooner(by_load: JoinPlan, by_time: JoinPlan, cost: JoinCost) -> JoinPlan:
    """The plan by eq 1, unless one that goes by the time of tasks is done clearly sooner on the cores there are."""
    return by_time if cost.span(by_time.work) < _CLEARLY * cost.span(by_load.work) else by_load


def _judged(
    plan: JoinPlan, keys: Sequence[KeyLoad], tail: Sequence[TailLoad], home: Home, cost: JoinCost | None
) -> JoinPlan:
    """The plan with what it leads to for these rows."""
    filling = fill(plan, keys, tail, home)
    rows = math.fsum(load.rows for load in keys) + math.fsum(load.left + load.right for load in tail)
    work = () if cost is None else tuple(filling.work(cost))
    copies = filling.rows() / rows if rows > 0 else 1.0
    return JoinPlan(plan.grids, plan.tail, imbalance(filling.loads()), copies, work)


def predict(
    plan: JoinPlan,
    keys: Sequence[KeyLoad],
    tail: Sequence[TailLoad],
    home: Home | None = None,
    cost: JoinCost | None = None,
) -> JoinPlan:
    """The same plan with the LI, replication and work that it would have for other rows: those of another window.

    >>> predict(NO_PLAN, [KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * 4).imbalance > 2
    True
    """
    return _judged(plan, keys, tail, home or (lambda key: key % len(tail)), cost)


def _fits(plan: JoinPlan, partitions: int, how: How) -> bool:
    """Whether a plan is one for so many partitions and this kind of join."""
    grids = [*plan.grids.values(), *plan.tail]
    return all(max(grid.cells) < partitions and (how == "inner" or grid.shape[1] == 1) for grid in grids)


def _check(hot: Sequence[KeyLoad], tail: Sequence[TailLoad], partitions: int) -> None:
    problems = []
    if partitions < 1 or len(tail) != partitions:
        what = f"has {len(tail)} entries for {partitions} partitions"
        problems.append(Problem("tail", what, "Give one for each partition, and at least one partition."))
    if len({load.key for load in hot}) < len(hot):
        problems.append(Problem("hot", "holds a key twice", "Add up the rows of a key."))
    if problems:
        raise ModelError(problems)
