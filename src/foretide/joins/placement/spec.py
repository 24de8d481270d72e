"""What is fixed for a join as long as its state lives: the bound on event time, the kind of join, its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from foretide.errors import JoinPlanError, PlanFormatError
from foretide.joins.plan import How


@dataclass(frozen=True, slots=True)
class JoinBound:
    """Which rows may match: left.t - before <= right.t <= left.t + after, in microseconds; inner or left."""

    before: int
    after: int
    how: How = "inner"

    def __post_init__(self) -> None:
        if -self.before > self.after:
            raise JoinPlanError(
                f"a join bound of -{self.before} to +{self.after} matches nothing; before + after must be at least 0"
            )
        if self.how not in get_args(How):
            raise JoinPlanError(
                f"a '{self.how}' join cannot be split exactly; use {' or '.join(map(repr, get_args(How)))}"
            )

    def left_times(self, right_time: int) -> tuple[int, int]:
        """The first and the last event time of left rows that a right row can match."""
        return right_time - self.after, right_time + self.before

    @property
    def retention(self) -> int:
        """How long after its end a version still matters: for late right rows, and before its cells may be reused.

        A right row that is `after` past the end may still match a left row before it. A right row in a cell that is
        reused reaches `before` ahead of the new version's start, so the two must be before + after apart.
        """
        return max(0, self.after, self.before + self.after)

    def check(self, key_hash: int, grid: Sequence[Sequence[int]]) -> None:
        """Refuse a grid on which this kind of join would not be exact."""
        if self.how == "left" and any(len(row) > 1 for row in grid):
            raise JoinPlanError(
                f"the grid of key hash {key_hash} has {len(grid[0])} columns, but in a left join a left row must "
                "be in one cell only, or it would seem unmatched in the others; use rows of one column"
            )


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A join as its control folder describes it.

    The query's checkpoint fixes the `partitions` of its state. With `statistics` batches report the frequent keys.
    """

    bound: JoinBound
    partitions: int
    statistics: bool = True

    def to_data(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "before": self.bound.before,
            "after": self.bound.after,
            "how": self.bound.how,
            "partitions": self.partitions,
            "statistics": self.statistics,
        }

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> JoinSpec:
        """Read it back."""
        try:
            bound = JoinBound(int(data["before"]), int(data["after"]), data["how"])
            return JoinSpec(bound, int(data["partitions"]), bool(data["statistics"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise PlanFormatError(f"the description of a join cannot be read: {error!r}; remove joins.json") from error
