"""Why a join is planned the way it is, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from foretide.joins.plan import JoinPlan, KeyGrid

Names = Mapping[int, str]
"""What people call the keys that are known by their hashes."""

_SHOWN = 5
_NAMELESS: Names = MappingProxyType({})


def explain_plan(plan: JoinPlan, before: JoinPlan | None = None, names: Names = _NAMELESS) -> list[str]:
    """Sentences that say which keys are split how, what that brings and costs, and what changed.

    >>> from foretide.joins.planning.planner import plan_join
    >>> from foretide.joins.plan import KeyLoad, TailLoad
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
    if not plan.grids and not plan.tail:
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
    for key in ordered[:_SHOWN]:
        rows, columns = grids[key].shape
        yield f"{names.get(key, key)} into {rows} x {columns}"
    if len(ordered) > _SHOWN:
        yield f"and {len(ordered) - _SHOWN} more"


def _changes(plan: JoinPlan, before: JoinPlan) -> str:
    new, gone = plan.grids.keys() - before.grids.keys(), before.grids.keys() - plan.grids.keys()
    other = [key for key in plan.grids.keys() & before.grids.keys() if plan.grids[key] != before.grids[key]]
    return f"Since the last plan {len(new)} keys came in, {len(gone)} went back to the hash, {len(other)} changed."
