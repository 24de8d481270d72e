"""Latency of tuples, from offsets alone: nothing is measured in the data path.

A replay knows when each row was due, and rows fall due in order. So the tuple at quantile q of a batch's latency is
simply the row at 1 - q of its range, and its latency is exact: from its due time to the commit of its batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretide.metrics.batch import SourceRange
    from foretide.spark.replay import ReplayPlan

_ROUNDING = 1e-9
"""(1 - 0.9) * 10 is a little less than 1."""


def latency(plan: ReplayPlan, taken: SourceRange, finished: float, quantile: float) -> float | None:
    """Seconds from due time to commit that a share `quantile` of the batch's tuples stayed within."""
    rows = taken.rows
    if not rows or "origin_ms" not in taken.end:
        return None
    first, last = taken.start.get("row", 0), taken.end["row"]
    row = first + min(rows - 1, int((1 - quantile) * rows + _ROUNDING))
    due = plan.due_seconds(row, min(row + 1, last))
    origin: float = taken.end["origin_ms"] / 1000
    return finished - origin - float(due[0])
