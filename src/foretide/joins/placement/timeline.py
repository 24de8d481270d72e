"""The plan timeline of a join: the grids of each hot key, one after the other in event time, and its file.

A key's plan is a grid of cells. A left row takes one row of the grid and goes to all cells in it, a right row takes one
column, so each pair meets in exactly one cell. A version of the plan holds for a stretch of event time, the versions of
a key follow each other without a gap, and what has been published for a time never changes. Keys are known by the hash
of their columns (see `salts`); a key that is absent belongs to the tail for all time. Times are whole microseconds.

Spark reads the file anew in every batch:

    {"format": 1, "version": 3, "query": "...",
     "plan": [{"key": 7, "versions": [{"start": ..., "end": ..., "rows": [[1, 2]]}]}]}

`query` is the token of the one query whose batches may use the plan. The plan is a list, because Spark reads JSON maps
by strings only; a query turns it into a map once a batch. A plan that cannot be read has to fail the batch: a default
placement would lose pairs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from foretide.codec import parse_json
from foretide.errors import CodecError, JoinPlanError, PlanFormatError
from foretide.joins.placement.salts import TAIL, TAIL_SALT, SaltGrid, key_grid, salt_grid
from foretide.joins.plan import JoinPlan

FORMAT = 1
"""Format of the file; a reader refuses any other."""

BEGINNING = -(2**63)
FOREVER = 2**63 - 1

_MAX_VERSION = 2**62  # a 64-bit number in Spark, and there has to be a next one
_MIN_INT, _MAX_INT = -(2**31), 2**31 - 1
_UNCHANGED: Mapping[int, SaltGrid] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Version:
    """One grid of a key, in force from `start` up to, but not at, `end`."""

    start: int
    end: int
    rows: SaltGrid

    @property
    def salts(self) -> frozenset[int]:
        """The salts of all its cells."""
        return frozenset(salt for row in self.rows for salt in row)


Versions = tuple[Version, ...]
_ALWAYS_TAIL: Versions = (Version(BEGINNING, FOREVER, TAIL),)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The versions of every key that has a plan, as one table with a version of its own for what Spark reads.

    The versions of a key cover all time from BEGINNING on. If the last one ends before FOREVER, that is a hard end:
    what comes then is announced and not yet known, and a row that reaches it must fail its batch.

    >>> timeline = Timeline().with_hard_end({7}, 100).continued({7: ((1, 2),)}, 100)
    >>> [(version.end, version.rows) for version in timeline.versions(7)] == [(100, TAIL), (FOREVER, ((1, 2),))]
    True
    """

    version: int = 0
    plans: Mapping[int, Versions] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for key_hash, versions in self.plans.items():
            _check_versions(key_hash, versions)

    def versions(self, key_hash: int) -> Versions:
        """All versions of a key; the tail for a key without a plan."""
        return self.plans.get(key_hash, _ALWAYS_TAIL)

    def newest(self, key_hash: int) -> Version:
        """The last version of a key."""
        return self.versions(key_hash)[-1]

    def taken(self, key_hash: int) -> frozenset[int]:
        """The salts of a key that are still remembered, which no new grid of it may use."""
        return frozenset(salt for version in self.versions(key_hash) for salt in version.salts)

    @property
    def hard_ends(self) -> Mapping[int, int]:
        """The keys whose last version has an announced end, with that end."""
        ends = {key_hash: versions[-1].end for key_hash, versions in self.plans.items()}
        return MappingProxyType({key_hash: end for key_hash, end in ends.items() if end != FOREVER})

    @property
    def is_empty(self) -> bool:
        """Whether the hash alone places all rows, whatever has been announced."""
        return not self.without_hard_ends().plans

    @property
    def fingerprint(self) -> str:
        """A hash of where rows are placed. Announced ends, which a restart takes back, and the version do not count.

        >>> timeline = Timeline().continued({7: ((1, 2),)}, 100)
        >>> timeline.fingerprint == timeline.with_hard_end({7}, 200).fingerprint != Timeline().fingerprint
        True
        """
        placed = to_json(replace(self.without_hard_ends(), version=0))
        return hashlib.sha256(placed.encode()).hexdigest()

    # ---- plans of partitions

    def plan(self, partitions: int, changes: Mapping[int, SaltGrid] = _UNCHANGED) -> JoinPlan:
        """The newest plan as partitions, with some changes to come."""
        newest = {**{key_hash: versions[-1].rows for key_hash, versions in self.plans.items()}, **changes}
        return JoinPlan(
            {key_hash: key_grid(key_hash, salts, partitions) for key_hash, salts in newest.items() if salts != TAIL}
        )

    def salts_of(self, plan: JoinPlan, partitions: int) -> dict[int, SaltGrid]:
        """The salts that change the newest plan to this one.

        A key that stays where it is keeps its salts; one that the plan does not name goes back to the tail.
        """
        current = self.plan(partitions).grids
        salts = dict.fromkeys(current, TAIL)
        for key_hash, grid in plan.grids.items():
            if current.get(key_hash) == grid:
                salts[key_hash] = self.newest(key_hash).rows
            else:
                salts[key_hash] = salt_grid(key_hash, grid, partitions, self.taken(key_hash))
        return salts

    # ---- changes

    def with_hard_end(self, key_hashes: Collection[int], end: int) -> Timeline:
        """The same plan with a hard end for these keys."""
        return self._with({key_hash: _ended(self.versions(key_hash), end) for key_hash in key_hashes})

    def without_hard_ends(self) -> Timeline:
        """The same plan, its last versions in force for ever."""
        if not self.hard_ends:
            return self
        return self._with({key_hash: _ended(self.versions(key_hash), FOREVER) for key_hash in self.hard_ends})

    def continued(self, grids: Mapping[int, SaltGrid], start: int) -> Timeline:
        """The plan with a further version of these keys, in force from `start` on without end."""
        return self._with(
            {
                key_hash: (*_ended(self.versions(key_hash), start), Version(start, FOREVER, grid))
                for key_hash, grid in grids.items()
            }
        )

    def without_before(self, time: int) -> Timeline:
        """The plan without versions that ended by `time`; a key that only the tail is left of is dropped."""
        kept = {key_hash: _since(versions, time) for key_hash, versions in self.plans.items()}
        return self if kept == self.plans else self._with(kept)

    def _with(self, changed: Mapping[int, Versions]) -> Timeline:
        plans = {**self.plans, **changed}
        kept = {key_hash: versions for key_hash, versions in plans.items() if versions != _ALWAYS_TAIL}
        return Timeline(self.version + 1, MappingProxyType(kept))


def without_unfinished(plan: Timeline | None) -> Timeline:
    """A plan as a start needs it: an unfinished first step rolled back, or an empty plan where there is none."""
    return Timeline() if plan is None else plan.without_hard_ends()


def _ended(versions: Versions, end: int) -> Versions:
    return (*versions[:-1], replace(versions[-1], end=end))


def _since(versions: Versions, time: int) -> Versions:
    """The versions that go on past `time`; the first of them then stands for all time before it, too."""
    kept = tuple(version for version in versions if version.end > time) or versions[-1:]
    return (replace(kept[0], start=BEGINNING), *kept[1:])


# ---- what exactness rests on


def _check_versions(key_hash: int, versions: Versions) -> None:
    """Refuse versions that leave a gap, overlap, or share a cell where a pair could meet twice."""
    if not _MIN_INT <= key_hash <= _MAX_INT:
        raise JoinPlanError(f"{key_hash} is not a key hash: Spark's `hash` is a 32-bit whole number")
    if not versions or versions[0].start != BEGINNING:
        raise JoinPlanError(f"the plan of key hash {key_hash} does not begin at the beginning of time")
    if any(version.start >= version.end for version in versions) or versions[-1].end > FOREVER:
        raise JoinPlanError(f"a version of key hash {key_hash} ends before it starts, or never starts")
    if any(earlier.end != later.start for earlier, later in pairwise(versions)):
        raise JoinPlanError(f"the versions of key hash {key_hash} do not follow each other without a gap")
    for version in versions:
        _check_grid(key_hash, version.rows)
    _check_shared(key_hash, versions)


def _check_grid(key_hash: int, rows: SaltGrid) -> None:
    """Refuse a grid in which a pair could miss each other, or meet twice."""
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise JoinPlanError(f"the grid of key hash {key_hash} is empty or its rows differ in length; make it a x b")
    salts = [salt for row in rows for salt in row]
    if len(set(salts)) != len(salts):
        raise JoinPlanError(f"the grid of key hash {key_hash} uses a salt twice; every cell needs a salt of its own")
    if TAIL_SALT in salts and rows != TAIL:
        raise JoinPlanError(f"the grid of key hash {key_hash} uses salt {TAIL_SALT}, which only the tail may have")
    if not all(_MIN_INT <= salt <= _MAX_INT for salt in salts):
        raise JoinPlanError(f"the grid of key hash {key_hash} has a salt that is not a 32-bit whole number")


def _check_shared(key_hash: int, versions: Iterable[Version]) -> None:
    """Remembered versions may share the tail's cell, which always stands alone, and no other."""
    seen: set[int] = set()
    for version in versions:
        if version.salts & (seen - {TAIL_SALT}):
            raise JoinPlanError(
                f"two versions of key hash {key_hash} use salt {min(version.salts & seen)}, so a pair could meet "
                "twice; choose salts that are not taken"
            )
        seen |= version.salts


# ---- the file


def to_json(timeline: Timeline, query: str | None = None) -> str:
    """The text that Spark reads; `query` is the token of the query whose batches may use it, None for no query."""
    plan = [
        {
            "key": key_hash,
            "versions": [
                {"start": version.start, "end": version.end, "rows": [list(row) for row in version.rows]}
                for version in versions
            ],
        }
        for key_hash, versions in sorted(timeline.plans.items())
    ]
    data = {"format": FORMAT, "version": timeline.version, "query": query, "plan": plan}
    return json.dumps(data, separators=(",", ":"))


def from_json(text: str) -> Timeline:
    """Read a timeline back, checking all that exactness rests on."""
    try:
        return _decode(parse_json(text))
    except (CodecError, JoinPlanError, ValueError, KeyError, TypeError) as error:
        raise PlanFormatError(
            f"the join's plan cannot be read: {error or type(error).__name__}. Batches fail until a sound plan is "
            "published; put the last good file back. Never start over with an empty one: what the join holds was "
            "placed by the plan that is lost."
        ) from error


def _decode(data: Any) -> Timeline:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"it is not a plan of format {FORMAT}")
    plans = [(_whole(entry["key"]), _decode_versions(entry["versions"])) for entry in data["plan"]]
    if len(dict(plans)) != len(plans):
        raise ValueError("it contains a key twice")
    version = _whole(data["version"])
    if not 0 <= version <= _MAX_VERSION:
        raise ValueError(f"its version must be from 0 to {_MAX_VERSION}")
    return Timeline(version, MappingProxyType(dict(plans)))


def _decode_versions(entries: Any) -> Versions:
    return tuple(
        Version(
            _whole(entry["start"]),
            _whole(entry["end"]),
            tuple(tuple(_whole(salt) for salt in row) for row in entry["rows"]),
        )
        for entry in entries
    )


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value
