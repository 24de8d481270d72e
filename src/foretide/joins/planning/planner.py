"""Planning of skewed stream-stream joins (Aj-Stream): which keys are split over which partitions, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from foretide.errors import ModelError, Problem
from foretide.joins.plan import (
    NO_PLAN,
    DefaultPartition,
    How,
    JoinCost,
    JoinPlan,
    KeyGrid,
    KeyLoad,
    TailLoad,
    check_how,
    fill,
    imbalance,
)
from foretide.joins.planning.balanced import balanced_grids
from foretide.joins.planning.paper import paper_grids
from foretide.joins.settings import JoinSettings

Names = Mapping[int, str]
"""What people call the keys that are known by their hashes."""

_STANDARD = JoinSettings()
_MAX_SPAN_RATIO = 0.95
_MAX_SHOWN = 5
_NO_NAMES: Names = MappingProxyType({})


def plan_join(
    hot: Sequence[KeyLoad],
    tail: Sequence[TailLoad],
    partitions: int,
    settings: JoinSettings = _STANDARD,
    before: JoinPlan | None = None,
    how: How = "inner",
    default_partition: DefaultPartition | None = None,
    cost: JoinCost | None = None,
) -> JoinPlan:
    """The plan for the next window, or `before` itself where a new one would bring too little.

    Half of all rows have key 13, the rest is spread evenly over 4 partitions:

    >>> plan = plan_join([KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * 4, 4)
    >>> plan.grids[13].rows, plan.imbalance, plan.replication
    (((0, 1), (2, 3)), 0.0, 1.5)

    Args:
        hot: Rows of each key that is considered by itself, as forecast for that window. How many of them the plan
            considers follows from the settings; the rest is left to the hash.
        tail: Rows of all other keys, on each partition.
        partitions: Partitions of the join.
        settings: With `variant` "paper" the plan is Aj-Stream's, with "balanced" ours; see `balanced`.
        before: The plan in force. It stays unless the new one lowers the LI that is predicted for the next window by
            the gain that the settings ask for.
        how: A `left` join allows no copies of left rows, so its grids have one column.
        default_partition: Where the hash alone sends a key; the key modulo the partitions if not given.
        cost: What tasks were measured to cost. "balanced" then balances their time as well, where that is done
            sooner.

    Raises:
        ModelError: A key is given twice, or the tail has another number of partitions; lists every problem.
    """
    check_how(how)
    _check(hot, tail, partitions)
    default = default_partition or (lambda key: key % partitions)

    def judged(grids: Mapping[int, KeyGrid]) -> JoinPlan:
        return predict(JoinPlan(grids), hot, tail, default, cost)

    if not hot:
        return judged({})
    old = before if before is not None and _fits(before, partitions, how) else NO_PLAN
    if settings.variant == "paper":
        new = judged(paper_grids(hot, tail, settings, old, how, default))
    else:
        new = judged(balanced_grids(hot, tail, settings, how, default))
        if cost is not None:
            new = _sooner(new, judged(balanced_grids(hot, tail, settings, how, default, cost)), cost)
    if old is not before:
        return new
    current = judged(old.grids)
    is_sooner = cost is not None and _sooner(current, new, cost) is new
    return new if is_sooner or current.imbalance - new.imbalance >= settings.min_gain else old


def _sooner(by_load: JoinPlan, by_time: JoinPlan, cost: JoinCost) -> JoinPlan:
    """The plan by eq 1, unless the one by the time of tasks is done clearly sooner on the available cores."""
    return by_time if cost.span(by_time.work) < _MAX_SPAN_RATIO * cost.span(by_load.work) else by_load


def predict(
    plan: JoinPlan,
    keys: Sequence[KeyLoad],
    tail: Sequence[TailLoad],
    default_partition: DefaultPartition | None = None,
    cost: JoinCost | None = None,
) -> JoinPlan:
    """The same plan with the LI, replication and work that it would have for the rows of a window.

    >>> predict(NO_PLAN, [KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * 4).imbalance > 2
    True
    """
    filling = fill(plan, keys, tail, default_partition or (lambda key: key % len(tail)))
    rows = math.fsum(load.rows for load in keys) + math.fsum(load.left + load.right for load in tail)
    work = () if cost is None else tuple(filling.work(cost))
    replication = filling.rows() / rows if rows > 0 else 1.0
    return JoinPlan(plan.grids, imbalance(filling.loads()), replication, work)


def _fits(plan: JoinPlan, partitions: int, how: How) -> bool:
    """Whether a plan was made for this number of partitions and this kind of join."""
    grids = plan.grids.values()
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


# ---- explaining a plan


def explain_plan(plan: JoinPlan, before: JoinPlan | None = None, names: Names = _NO_NAMES) -> list[str]:
    """Sentences that say which keys are split how, what that brings and costs, and what changed.

    >>> for line in explain_plan(plan_join([KeyLoad(13, 100.0, 100.0)], [TailLoad(25.0, 25.0)] * 4, 4)):
    ...     print(line)
    1 key is split: 13 into 2 x 2.
    The fullest partition should have 0 % more load than the average, at 1.50 stored rows for each that arrives.
    """
    return list(_lines(plan, before, names))


def _lines(plan: JoinPlan, before: JoinPlan | None, names: Names) -> Iterator[str]:
    if plan is before:
        yield "The plan stays: another one would balance little better."
    split = {key: grid for key, grid in plan.grids.items() if len(grid.cells) > 1}
    moved = len(plan.grids) - len(split)
    if split:
        yield f"{_keys(len(split))} split: {', '.join(_most_split(split, names))}."
    if moved:
        yield f"{_keys(moved)} in one piece, placed where the hash would not put {'it' if moved == 1 else 'them'}."
    if not plan.grids:
        yield "All keys go where the hash puts them."
    yield (
        f"The fullest partition should have {plan.imbalance:.0%} more load than the average, "
        f"at {plan.replication:.2f} stored rows for each that arrives."
    ).replace("%", " %")
    if before is not None and plan is not before:
        yield _changes(plan, before)


def _keys(count: int) -> str:
    return "1 key is" if count == 1 else f"{count} keys are"


def _most_split(grids: dict[int, KeyGrid], names: Names) -> Iterator[str]:
    ordered = sorted(grids, key=lambda key: (-len(grids[key].cells), key))
    for key in ordered[:_MAX_SHOWN]:
        rows, columns = grids[key].shape
        yield f"{names.get(key, key)} into {rows} x {columns}"
    if len(ordered) > _MAX_SHOWN:
        yield f"and {len(ordered) - _MAX_SHOWN} more"


def _changes(plan: JoinPlan, before: JoinPlan) -> str:
    new, gone = plan.grids.keys() - before.grids.keys(), before.grids.keys() - plan.grids.keys()
    other = [key for key in plan.grids.keys() & before.grids.keys() if plan.grids[key] != before.grids[key]]
    return f"Since the last plan {len(new)} keys came in, {len(gone)} went back to the hash, {len(other)} changed."
