"""Groupings as data: how the tuples of a stream are split over the tasks of the bolt that reads it.

A *controllable* grouping sends a tuple to a slot of the edge's ring, and the live route table says which task that
is: its split ratio and its number of active replicas change between two batches. The others are fixed by what they
mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

Column = Any
"""A Spark Column. The pure packages only hand it on."""


@dataclass(frozen=True)
class Grouping:
    """What all groupings share."""

    name: ClassVar[str]
    controllable: ClassVar[bool] = False
    exchanges: ClassVar[bool] = True

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that the grouping reads; they must be in the stream's schema."""
        return ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.keys)})" if self.keys else self.name


@dataclass(frozen=True)
class _ByContent(Grouping):
    """Splits by a hash of `by`, or of the whole tuple when `by` is empty.

    A retried task must choose the same task again, so the choice is never random. A stream with few distinct tuples
    splits coarsely: name an id column in `by`.
    """

    by: str | tuple[str, ...] = field(default=(), kw_only=True)
    controllable: ClassVar[bool] = True

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.by,) if isinstance(self.by, str) else tuple(self.by)


@dataclass(frozen=True)
class Shuffle(_ByContent):
    """Evenly over all active replicas."""

    name: ClassVar[str] = "shuffle"


@dataclass(frozen=True)
class Dynamic(_ByContent):
    """In any ratio over the replicas, changed while the query runs; starts at `ratio`, or evenly."""

    ratio: tuple[float, ...] | None = None
    name: ClassVar[str] = "dynamic"


_BALANCE_SECONDS = {"micro-batch": 30.0, "real-time": 1.0}


@dataclass(frozen=True)
class LoadAware(_ByContent):
    """More to replicas that are less loaded (PA-SPS, Algorithm 1); worked out anew every `interval` seconds.

    By default that is every 30 seconds in micro-batch mode, and every second in real-time mode.
    """

    interval: float | None = None
    name: ClassVar[str] = "load-aware"

    def every(self, mode: str) -> float:
        """Seconds between two splits in a mode.

        >>> LoadAware().every("real-time"), LoadAware(interval=5.0).every("real-time")
        (1.0, 5.0)
        """
        return _BALANCE_SECONDS[mode] if self.interval is None else self.interval


_TWO = 2


@dataclass(frozen=True, init=False)
class _Keyed(Grouping):
    fields: tuple[str, ...]
    controllable: ClassVar[bool] = True

    def __init__(self, *fields: str) -> None:
        object.__setattr__(self, "fields", fields)

    @property
    def keys(self) -> tuple[str, ...]:
        return self.fields


@dataclass(frozen=True, init=False)
class Fields(_Keyed):
    """Tuples with equal fields meet in one task within a batch. Nulls count as equal and meet too."""

    name: ClassVar[str] = "fields"


@dataclass(frozen=True, init=False)
class PartialKey(_Keyed):
    """Each key is split over `choices` tasks, so a hot key never fills one. Needs a consumer that merges the parts."""

    choices: int = _TWO
    name: ClassVar[str] = "partial-key"

    def __init__(self, *fields: str, choices: int = _TWO) -> None:
        super().__init__(*fields)
        object.__setattr__(self, "choices", choices)


@dataclass(frozen=True)
class All(Grouping):
    """Every tuple to every task of the pool. Its size is part of the result, so it cannot change live."""

    name: ClassVar[str] = "all"


@dataclass(frozen=True)
class Global(Grouping):
    """Every tuple to one task."""

    name: ClassVar[str] = "global"


@dataclass(frozen=True)
class LocalOrShuffle(Grouping):
    """No exchange at all: the bolt runs in the tasks of its producer. Cheapest, and nothing to control."""

    name: ClassVar[str] = "local-or-shuffle"
    exchanges: ClassVar[bool] = False


@dataclass(frozen=True)
class Direct(Grouping):
    """The producer chooses: column `task` holds the task's number (taken modulo the pool; null means task 0)."""

    task: str
    name: ClassVar[str] = "direct"

    @property
    def keys(self) -> tuple[str, ...]:
        """The column that the producer fills in."""
        return (self.task,)


@dataclass(frozen=True)
class Custom(Grouping):
    """Your own expression for the task's number: SQL text, or a function that makes a Column.

    Taken modulo the pool; null means task 0. It must be deterministic: a retried task has to choose the same again.
    """

    task: str | Callable[[], Column] = field(hash=False)
    name: ClassVar[str] = "custom"
