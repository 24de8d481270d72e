"""Where the tuples of a skewed join go under a plan timeline: the reference that Spark's expressions have to match.

A left tuple uses the plan at its own time. A right tuple goes to its column in every version in force at some time
that a left tuple could have and still match it. So each pair that fulfils the bound meets, in the left tuple's
version, and nowhere else. A tuple whose reach is past a hard end has no place yet: its batch fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretide.errors import JoinPlanError, PastHardEndError
from foretide.joins.placement.timeline import SaltGrid, Timeline, Version

INNER, LEFT = "inner", "left"


@dataclass(frozen=True, slots=True)
class JoinBound:
    """What a pair has to fulfil: left.t - before <= right.t <= left.t + after, in microseconds; inner or left."""

    before: int
    after: int
    how: str = INNER

    def __post_init__(self) -> None:
        if -self.before > self.after:
            raise JoinPlanError(f"no pair can be within -{self.before} and +{self.after}; let before + after be >= 0")
        if self.how not in (INNER, LEFT):
            raise JoinPlanError(f"a '{self.how}' join cannot be split exactly; use '{INNER}' or '{LEFT}'")

    def matches(self, left_time: int, right_time: int) -> bool:
        """Whether a pair at these times is within the bound."""
        return -self.before <= right_time - left_time <= self.after

    def left_times(self, right_time: int) -> tuple[int, int]:
        """The first and the last time of left tuples that a right tuple could match."""
        return right_time - self.after, right_time + self.before

    @property
    def memory(self) -> int:
        """How long after its end a version still matters: for late right tuples, and before its cells may be reused.

        A right tuple that is `after` past the end may still match a left tuple before it. A right tuple in a cell that
        is used again reaches `before` ahead of the new version's start, so the two must be before + after apart.
        """
        return max(0, self.after, self.before + self.after)

    def check(self, key_hash: int, grid: SaltGrid) -> None:
        """Refuse a grid that this kind of join would not be exact on."""
        if self.how == LEFT and any(len(row) > 1 for row in grid):
            raise JoinPlanError(
                f"the grid of key hash {key_hash} has {len(grid[0])} columns, but in a left join a left tuple must "
                "be in one cell only, or it would seem unmatched in the others; use rows of one column"
            )


def left_cells(timeline: Timeline, key_hash: int, row_hash: int, time: int) -> tuple[int, ...]:
    """The salts of a left tuple: all cells of one row of the version at its time.

    >>> left_cells(Timeline().ending({7}, 100).continued({7: ((1, 2), (3, 4))}, 100), 7, 5, 100)
    (3, 4)
    """
    versions = timeline.versions(key_hash)
    _check_reach(key_hash, versions[-1], time)
    rows = next(version.rows for version in versions if version.meets(time, time))
    return rows[row_hash % len(rows)]


def right_cells(timeline: Timeline, key_hash: int, row_hash: int, time: int, rule: JoinBound) -> tuple[int, ...]:
    """The salts of a right tuple: its column in every version that a left tuple it matches may be in, each once.

    >>> timeline = Timeline().ending({7}, 100).continued({7: ((1, 2), (3, 4))}, 100)
    >>> right_cells(timeline, 7, 5, 98, JoinBound(before=3, after=3))
    (0, 2, 4)
    """
    first, last = rule.left_times(time)
    versions = timeline.versions(key_hash)
    _check_reach(key_hash, versions[-1], last)
    grids = [version.rows for version in versions if version.meets(first, last)]
    return tuple(dict.fromkeys(row[row_hash % len(row)] for rows in grids for row in rows))


def _check_reach(key_hash: int, newest: Version, reach: int) -> None:
    if reach >= newest.end:
        raise PastHardEndError(key_hash, reach, newest.end)
