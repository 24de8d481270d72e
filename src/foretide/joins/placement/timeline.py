"""The plan timeline of a skewed join: for each hot key its grids, one after the other in event time.

A key's plan is a grid of cells. A left tuple takes one row and goes to all cells in it, a right tuple one column, so
each pair meets in exactly one cell. A version of the plan holds for a stretch of event time, the versions of a key
follow each other without a gap, and what has been published for a time never changes. Keys are known by the hash of
their columns (`foretide.joins.placement.murmur3`); one that is absent belongs to the tail for all time.

Times are whole microseconds of event time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType

from foretide.errors import JoinPlanError
from foretide.joins.placement.salts import TAIL_SALT, salts_for

SaltGrid = tuple[tuple[int, ...], ...]
"""Salts, in rows of columns."""

TAIL: SaltGrid = ((TAIL_SALT,),)
"""The plan of every key that has none: one cell, with the salt that only the tail has."""

BEGINNING = -(2**63)
FOREVER = 2**63 - 1

_LOWEST_SALT, _HIGHEST_SALT = -(2**31), 2**31 - 1


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

    def meets(self, first: int, last: int) -> bool:
        """Whether it is in force at some time from `first` to `last`, both included."""
        return self.start <= last and first < self.end


Versions = tuple[Version, ...]
_ALWAYS_TAIL: Versions = (Version(BEGINNING, FOREVER, TAIL),)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The versions of every key that has a plan, as one table with a version of its own for what Spark reads.

    The versions of a key cover all time from BEGINNING on. If the last one ends before FOREVER, that is a hard end:
    what comes then is announced and not yet known, and a tuple that reaches it must fail its batch.

    >>> timeline = Timeline().ending({7}, 100).continued({7: ((1, 2),)}, 100)
    >>> [(version.end, version.rows) for version in timeline.versions(7)] == [(100, TAIL), (FOREVER, ((1, 2),))]
    True
    """

    version: int = 0
    plans: Mapping[int, Versions] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for key_hash, versions in self.plans.items():
            check_versions(key_hash, versions)

    def versions(self, key_hash: int) -> Versions:
        """All versions of a key, the tail's one for a key that has no plan."""
        return self.plans.get(key_hash, _ALWAYS_TAIL)

    def taken(self, key_hash: int) -> frozenset[int]:
        """The salts of a key that are still remembered, which no new grid of it may use."""
        return frozenset(salt for version in self.versions(key_hash) for salt in version.salts)

    @property
    def hard_ends(self) -> Mapping[int, int]:
        """The keys whose last version has an announced end, with that end."""
        ends = {key_hash: versions[-1].end for key_hash, versions in self.plans.items()}
        return MappingProxyType({key_hash: end for key_hash, end in ends.items() if end != FOREVER})

    def ending(self, key_hashes: Collection[int], end: int) -> Timeline:
        """The same plan with a hard end for these keys."""
        return self._with({key_hash: _ended(self.versions(key_hash), end) for key_hash in key_hashes})

    def continued(self, grids: Mapping[int, SaltGrid], start: int) -> Timeline:
        """The plan with a further version of these keys, in force from `start` on without end."""
        return self._with(
            {
                key_hash: (*_ended(self.versions(key_hash), start), Version(start, FOREVER, grid))
                for key_hash, grid in grids.items()
            }
        )

    def without_hard_ends(self) -> Timeline:
        """The same plan, its last versions in force for ever."""
        return self._with({key_hash: _ended(self.versions(key_hash), FOREVER) for key_hash in self.hard_ends})

    def without_before(self, time: int) -> Timeline:
        """The plan without versions that ended by `time`; a key that only the tail is left of is dropped."""
        kept = {key_hash: _since(versions, time) for key_hash, versions in self.plans.items()}
        return self if kept == self.plans else self._with(kept)

    def _with(self, changed: Mapping[int, Versions]) -> Timeline:
        plans = {**self.plans, **changed}
        kept = {key_hash: versions for key_hash, versions in plans.items() if versions != _ALWAYS_TAIL}
        return Timeline(self.version + 1, MappingProxyType(kept))


def without_unfinished(plan: Timeline | None) -> Timeline:
    """A plan as a start needs it: an unfinished first step rolled back, and an empty one where there is none."""
    if plan is None:
        return Timeline()
    return plan.without_hard_ends() if plan.hard_ends else plan


def steered_grid(key_hash: int, partitions: int, wanted: SaltGrid, taken: Collection[int]) -> SaltGrid:
    """The grid of salts whose cells land on the wanted partitions, given in rows of columns.

    >>> steered_grid(7, 4, ((0, 1), (2, 3)), ())
    ((9, 3), (2, 1))
    """
    salts = iter(salts_for(key_hash, partitions, [partition for row in wanted for partition in row], taken))
    return tuple(tuple(next(salts) for _ in row) for row in wanted)


def check_grid(key_hash: int, rows: SaltGrid) -> None:
    """Refuse a grid in which a pair could miss each other, or meet twice."""
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise JoinPlanError(f"the grid of key hash {key_hash} is empty or its rows differ in length; make it a x b")
    salts = [salt for row in rows for salt in row]
    if len(set(salts)) != len(salts):
        raise JoinPlanError(f"the grid of key hash {key_hash} uses a salt twice; every cell needs a salt of its own")
    if TAIL_SALT in salts and rows != TAIL:
        raise JoinPlanError(f"the grid of key hash {key_hash} uses salt {TAIL_SALT}, which only the tail may have")
    if not all(_LOWEST_SALT <= salt <= _HIGHEST_SALT for salt in salts):
        raise JoinPlanError(f"the grid of key hash {key_hash} has a salt that is no 32-bit whole number")


def check_versions(key_hash: int, versions: Versions) -> None:
    """Refuse versions that leave a gap, overlap, or share a cell where a pair could meet twice."""
    if not _LOWEST_SALT <= key_hash <= _HIGHEST_SALT:
        raise JoinPlanError(f"{key_hash} is no key hash: Spark's `hash` is a 32-bit whole number")
    if not versions or versions[0].start != BEGINNING:
        raise JoinPlanError(f"the plan of key hash {key_hash} does not begin at the beginning of time")
    if any(version.start >= version.end for version in versions) or versions[-1].end > FOREVER:
        raise JoinPlanError(f"a version of key hash {key_hash} ends before it starts, or never starts")
    if any(earlier.end != later.start for earlier, later in pairwise(versions)):
        raise JoinPlanError(f"the versions of key hash {key_hash} do not follow each other without a gap")
    for version in versions:
        check_grid(key_hash, version.rows)
    _check_shared(key_hash, versions)


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


def _ended(versions: Versions, end: int) -> Versions:
    return (*versions[:-1], replace(versions[-1], end=end))


def _since(versions: Versions, time: int) -> Versions:
    """The versions that go on past `time`; the first of them then stands for all time before it, too."""
    kept = tuple(version for version in versions if version.end > time) or versions[-1:]
    return (replace(kept[0], start=BEGINNING), *kept[1:])
