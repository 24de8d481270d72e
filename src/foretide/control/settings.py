"""Limits on what the control loop may change, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.durations import Seconds

_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class DailyWindow(Bounded):
    """A part of every day (UTC), in seconds after midnight; it may extend past midnight."""

    section: ClassVar[str] = "guards.excluded"

    start: Annotated[Seconds, Interval(ge=0, lt=_DAY_SECONDS)]
    end: Annotated[Seconds, Interval(ge=0, le=_DAY_SECONDS)]

    def holds(self, at: float) -> bool:
        """Whether a time lies within."""
        second = at % _DAY_SECONDS
        if self.start <= self.end:
            return self.start <= second < self.end
        return second >= self.start or second < self.end


@dataclass(frozen=True, slots=True)
class GuardSettings(Bounded):
    """Limits on what the control loop may change, and how often."""

    section: ClassVar[str] = "guards"

    min_replicas: Annotated[int, Ge(1), Doc("Minimum replicas of any edge.")] = 1
    max_replicas: Annotated[int | None, Ge(1), Doc("Maximum replicas of any edge; none for the size of the pool.")] = (
        None
    )
    min_rows: Annotated[int, Ge(1), Doc("Lowest limit of rows per batch that a spout may be given.")] = 1
    min_workers: Annotated[int, Ge(1), Doc("Workers that stay in service whatever policies and people ask for.")] = 1
    cooldown: Annotated[Seconds, Ge(0), Doc("Minimum seconds between two changes of the same target.")] = 10.0
    cooldown_down: Annotated[
        Seconds, Ge(0), Doc("Minimum seconds between a change and the next one that gives back replicas or executors.")
    ] = 60.0
    down_window: Annotated[
        Seconds,
        Ge(0),
        Doc("Before anything is given back, the maximum that was wanted within this many seconds counts."),
    ] = 300.0
    max_increase: Annotated[
        float, Gt(1), Doc("Factor by which a number may grow at most in one decision."), Scope.ADVANCED
    ] = 8.0
    max_decrease: Annotated[
        float,
        Interval(gt=0, le=1),
        Doc("Share of a number that may be given back at most in one decision."),
        Scope.ADVANCED,
    ] = 0.5
    deadband: Annotated[
        float,
        Interval(ge=0, lt=1),
        Doc("Changes below this share, of a number that is given back or of a split, are not made."),
        Scope.ADVANCED,
    ] = 0.05
    settle_batches: Annotated[
        int,
        Ge(0),
        Doc("Batches for which a change must have been in force before the next one of the same target."),
        Scope.ADVANCED,
    ] = 1
    quota: Annotated[int, Ge(1), Doc("Maximum actions per hour.")] = 240
    excluded: Annotated[tuple[DailyWindow, ...], Doc("Parts of the day in which nothing is changed.")] = ()

    def conflicts(self) -> Iterator[str]:
        """A maximum below the minimum."""
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            yield f"guards.max_replicas must be at least min_replicas ({self.min_replicas}), got {self.max_replicas}"
