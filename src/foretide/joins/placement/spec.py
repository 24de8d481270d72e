"""What is fixed for a join as long as its state lives, and how what is known of its batches is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foretide.errors import PlanFormatError
from foretide.joins.placement.cells import JoinBound
from foretide.joins.placement.plan_change import BatchHistory, Maxima


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A join as its control folder knows it.

    Attributes:
        rule: What a pair has to fulfil.
        partitions: Those of its state, fixed by the query's checkpoint.
        statistics: Whether batches say which keys were frequent.
    """

    rule: JoinBound
    partitions: int
    statistics: bool = True

    def to_data(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "before": self.rule.before,
            "after": self.rule.after,
            "how": self.rule.how,
            "partitions": self.partitions,
            "statistics": self.statistics,
        }

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> JoinSpec:
        """Read it back."""
        try:
            rule = JoinBound(int(data["before"]), int(data["after"]), str(data["how"]))
            return JoinSpec(rule, int(data["partitions"]), bool(data["statistics"]))
        except (KeyError, TypeError, ValueError) as error:
            raise PlanFormatError(f"what is kept of a join cannot be read: {error!r}; remove joins.json") from error


def past_to_data(past: BatchHistory) -> dict[str, Any]:
    """What is known of a join's batches, as plain JSON values.

    >>> past_from_data(past_to_data(BatchHistory(3, Maxima(5, None), 2))) == BatchHistory(3, Maxima(5, None), 2)
    True
    """
    return {
        "next_batch": past.next_batch,
        "left": past.maxima.left,
        "right": past.maxima.right,
        "watermark": past.watermark,
    }


def past_from_data(data: Mapping[str, Any]) -> BatchHistory | None:
    """Read it back; None where nothing readable is there, which is not the same as a join that has not begun."""
    times = [data.get(name) for name in ("left", "right", "watermark")]
    batch = data.get("next_batch")
    if type(batch) is not int or any(time is not None and type(time) is not int for time in times):
        return None
    return BatchHistory(batch, Maxima(times[0], times[1]), times[2])
