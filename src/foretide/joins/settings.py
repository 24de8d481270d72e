"""Settings of Aj-Stream: windows of key statistics, planning of joins, and scaling of what runs them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.durations import Seconds

Variant = Literal["balanced", "paper"]

_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ScalingSettings(Bounded):
    """How fast resources follow what is measured (eqs 15 to 17)."""

    section: ClassVar[str] = "hot_keys.scaling"

    theta: Annotated[float, Gt(1), Doc("A joiner lags when its latency is this many times the average (eq 15).")] = 1.5
    cores_unit: Annotated[float, Gt(0), Doc("Cores of one unit of resources (c0).")] = 1.0
    memory_unit: Annotated[float, Gt(0), Doc("Megabytes of one unit (m0).")] = 1024.0
    max_units_per_step: Annotated[float, Gt(0), Doc("Maximum units that a joiner gets in one step (lambda*).")] = 1.0
    max_units: Annotated[float, Ge(1), Doc("Maximum units of a joiner: the size of its machine.")] = 4.0
    busy: Annotated[
        float,
        Interval(gt=0, le=1),
        Doc("Share of CPU or memory from which a joiner needs more, whether or not it lags behind others."),
    ] = 0.8
    idle: Annotated[
        float, Ge(0), Doc("Where CPU and memory of all joiners are below this share, something can be given back.")
    ] = 0.3
    min_joiners: Annotated[int, Ge(1), Doc("Joiners that are always kept.")] = 1

    def conflicts(self) -> Iterator[str]:
        """Idle is less than busy."""
        if self.idle >= self.busy:
            yield f"hot_keys.scaling.idle must be less than busy ({self.busy:g}), got {self.idle:g}"


@dataclass(frozen=True, slots=True)
class WindowSettings(Bounded):
    """Windows of time in which keys are counted.

    >>> WindowSettings(window=60.0, advance=20.0, offset=5.0).number(104.9)
    4
    """

    section: ClassVar[str] = "hot_keys.windows"

    window: Annotated[
        Seconds, Gt(0), Doc("Seconds over which the keys of a join are counted, and for which a plan is made.")
    ] = 30.0
    advance: Annotated[
        Seconds | None,
        Gt(0),
        Doc("Seconds from one window to the next, fewer if windows overlap; none for the length of a window."),
        Scope.PYTHON_ONLY,
    ] = None
    offset: Annotated[Seconds, Ge(0), Doc("Seconds by which windows are shifted."), Scope.PYTHON_ONLY] = 0.0

    def conflicts(self) -> Iterator[str]:
        """No gap between two windows."""
        if self.advance is not None and self.advance > self.window:
            yield f"hot_keys.windows.advance must be at most window ({self.window:g} s), got {self.advance:g} s"

    def number(self, at: float) -> int:
        """How many windows have ended by then."""
        return math.floor((at - self.offset) / (self.advance or self.window))


@dataclass(frozen=True, slots=True)
class JoinSettings(Bounded):
    """How joins are planned.

    Eq 12 of the paper counts the tuples that fit into an instance, yet sizes the key set by it. Here that number is
    what it counts, the rows that an instance should hold (`room`), and the key set is limited by `max_keys` as well.
    """

    section: ClassVar[str] = "hot_keys.planning"

    variant: Annotated[Variant, Doc("`balanced`, or `paper` for Aj-Stream's Algorithms 1 and 2 as published.")] = (
        "balanced"
    )
    theta_l: Annotated[
        float,
        Interval(gt=0, lt=1),
        Doc("Share of an instance's memory that stored rows may take (theta_L)."),
        Scope.PYTHON_ONLY,
    ] = 0.8
    memory: Annotated[float, Gt(0), Doc("Megabytes of an instance (M_instance)."), Scope.PYTHON_ONLY] = 2048.0
    tuple_bytes: Annotated[
        float, Gt(0), Doc("Bytes of a stored tuple (m_tuple), until it is measured."), Scope.PYTHON_ONLY
    ] = 100.0
    max_keys: Annotated[int, Ge(1), Doc("Maximum keys that a plan places one by one.")] = 512
    target: Annotated[
        float,
        Gt(0),
        Doc("LI that `balanced` tries to reach. Measured LI is higher by the error of the forecast."),
        Scope.ADVANCED,
    ] = 0.08
    min_gain: Annotated[
        float, Ge(0), Doc("LI that a new plan must gain; otherwise the plan in force stays."), Scope.ADVANCED
    ] = 0.05
    reactive_above: Annotated[
        float, Ge(0), Doc("LI above which the choice `reactive` makes a new plan."), Scope.ADVANCED
    ] = 0.15

    @property
    def room(self) -> float:
        """Rows that an instance should hold at most: eq 12.

        >>> JoinSettings(theta_l=0.5, memory=1.0, tuple_bytes=1024.0).room
        512.0
        """
        return self.theta_l * self.memory * _MEGABYTE / self.tuple_bytes

    @property
    def candidates(self) -> int:
        """The size of the candidate key set, |H|; at least 1."""
        return max(1, min(self.max_keys, int(self.room)))
