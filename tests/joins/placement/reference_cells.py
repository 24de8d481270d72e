"""Where the rows of a skewed join go under a plan timeline: the reference that Spark's expressions have to match.

A left row uses the plan at its own time. A right row goes to its column in every version in force at some time that a
left row could have and still match it. So each pair within the bound meets in the left row's version, and nowhere
else. A row that reaches past a hard end has no place yet: its batch fails.
"""

from __future__ import annotations

from foretide.errors import PastHardEndError


def matches(bound, left_time, right_time):
    """Whether a pair at these times is within the bound."""
    return -bound.before <= right_time - left_time <= bound.after


def meets(version, first, last):
    """Whether a version is in force at some time from `first` to `last`, both included."""
    return version.start <= last and first < version.end


def version_at(timeline, key_hash, time):
    """The version of a key's plan at a time."""
    return next(version for version in timeline.versions(key_hash) if meets(version, time, time))


def left_cells(timeline, key_hash, row_hash, time):
    """The salts of a left row: all cells of one row of the version at its time."""
    check_reach(timeline, key_hash, time)
    rows = version_at(timeline, key_hash, time).rows
    return rows[row_hash % len(rows)]


def right_cells(timeline, key_hash, row_hash, time, bound):
    """The salts of a right row: its column in every version that a left row it matches may be in, each once."""
    first, last = bound.left_times(time)
    check_reach(timeline, key_hash, last)
    grids = [version.rows for version in timeline.versions(key_hash) if meets(version, first, last)]
    return tuple(dict.fromkeys(row[row_hash % len(row)] for rows in grids for row in rows))


def check_reach(timeline, key_hash, reach):
    end = timeline.newest(key_hash).end
    if reach >= end:
        raise PastHardEndError(key_hash, reach, end)
