"""The settings of Aj-Stream: for planning joins, and for scaling what runs them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from foretide.errors import ModelError, Problem

Variant = Literal["balanced", "paper"]

_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """How fast resources follow what is measured (eqs 15 to 17).

    Attributes:
        theta: A joiner lags when its latency is at least so many times the average (eq 15).
        cores_unit: Cores of one unit of resources (c0).
        memory_unit: Megabytes of one unit (m0).
        cap: Most units that a joiner gets in one turn (lambda*).
        largest: Most units a joiner may have: the size of its machine.
        busy: A share of CPU or memory from which on a joiner needs more, whether or not it lags behind others.
        idle: Where both CPU and memory of all joiners are below this share, something can be given back.
        least_joiners: Joiners that are always kept.
    """

    theta: float = 1.5
    cores_unit: float = 1.0
    memory_unit: float = 1024.0
    cap: float = 1.0
    largest: float = 4.0
    busy: float = 0.8
    idle: float = 0.3
    least_joiners: int = 1

    def __post_init__(self) -> None:
        _refuse(
            self,
            theta=not (math.isfinite(self.theta) and self.theta > 1),
            cores_unit=not _above_0(self.cores_unit),
            memory_unit=not _above_0(self.memory_unit),
            cap=not _above_0(self.cap),
            largest=not (math.isfinite(self.largest) and self.largest >= 1),
            busy=not 0 < self.busy <= 1,
            idle=not 0 <= self.idle < self.busy,
            least_joiners=self.least_joiners < 1,
        )


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """Windows of time in which keys are counted.

    >>> WindowSettings(window=60.0, advance=20.0, offset=5.0).number(104.9)
    4

    Attributes:
        window: Seconds over which keys are counted.
        advance: Seconds from one window to the next; shorter than the window, windows overlap.
        offset: Seconds by which windows are shifted.
    """

    window: float = 30.0
    advance: float = 30.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        _refuse(
            self,
            window=not _above_0(self.window),
            advance=not 0 < self.advance <= self.window,
            offset=not (math.isfinite(self.offset) and self.offset >= 0),
        )

    def number(self, at: float) -> int:
        """How many windows have ended by then."""
        return math.floor((at - self.offset) / self.advance)


@dataclass(frozen=True, slots=True)
class JoinSettings:
    """How joins are planned.

    Eq 12 of the paper counts the tuples that fit into an instance, yet sizes the key set by it. Here that number is
    what it counts, the rows that an instance should hold (`room`), and the key set is capped by `most_keys` besides.

    Attributes:
        variant: `paper` for Algorithms 1 and 2 as they are, `balanced` for our refinement.
        theta_l: The share of an instance's memory that stored rows may take (theta_L).
        memory: Megabytes of an instance (M_instance).
        tuple_bytes: The size of a tuple (m_tuple).
        most_keys: Most keys that a plan considers one by one.
        target: LI that `balanced` tries to reach. Measured LI is higher by what the forecast gets wrong.
        least_gain: A new plan has to lower the predicted LI by this much, or the old one stays.
        reactive_above: LI above which a reactive choice of keys plans anew.
    """

    variant: Variant = "balanced"
    theta_l: float = 0.8
    memory: float = 2048.0
    tuple_bytes: float = 100.0
    most_keys: int = 512
    target: float = 0.08
    least_gain: float = 0.05
    reactive_above: float = 0.15

    def __post_init__(self) -> None:
        _refuse(
            self,
            variant=self.variant not in get_args(Variant),
            theta_l=not 0 < self.theta_l < 1,
            memory=not _above_0(self.memory),
            tuple_bytes=not _above_0(self.tuple_bytes),
            most_keys=self.most_keys < 1,
            target=not _above_0(self.target),
            least_gain=not (math.isfinite(self.least_gain) and self.least_gain >= 0),
            reactive_above=not (math.isfinite(self.reactive_above) and self.reactive_above >= 0),
        )

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
        return max(1, min(self.most_keys, int(self.room)))


def _above_0(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _refuse(settings: JoinSettings | ScalingSettings | WindowSettings, **wrong: bool) -> None:
    """Raise for all settings that are out of their bounds."""
    kind = type(settings).__name__
    problems = [
        Problem(kind, f"{name} is {getattr(settings, name)!r}", f"See {kind} for what it means and what would do.")
        for name, is_wrong in wrong.items()
        if is_wrong
    ]
    if problems:
        raise ModelError(problems)
