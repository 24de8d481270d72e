"""The schedule of a campaign: faults and changes as values, drawn from a seed.

Steps are taken in two lanes side by side: while a fault waits for the pipeline to come back, changes go on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from foretide import codec
from foretide.errors import CodecError, SettingsError

Kind = Literal[
    "kill-driver",
    "kill-jvm",
    "kill-session",
    "kill-executor",
    "stop-driver",
    "stop-executor",
    "delete-store",
    "lock-store",
    "lock-folder",
    "damage-routes",
    "split",
    "replicas",
    "drain",
    "pause-loop",
    "restart",
    "malformed-rows",
]
"""What a step does. `kill-session` kills the driver, its JVM and all executors at one instant."""

Lane = Literal["faults", "changes"]

Moment = Literal["now", "batch", "commit"]
"""When a step is due after its wait: at once, in the next batch that begins, or with the next one that is committed."""

KILLS: frozenset[Kind] = frozenset({"kill-driver", "kill-jvm", "kill-session", "kill-executor"})
FAULTS: frozenset[Kind] = KILLS | {
    "stop-driver", "stop-executor", "delete-store", "lock-store", "lock-folder", "damage-routes",
}  # fmt: skip

LASTING: Mapping[Kind, tuple[float, float]] = MappingProxyType(
    {
        "stop-driver": (0.2, 5.0),
        "stop-executor": (0.2, 8.0),
        "lock-store": (0.5, 8.0),
        "lock-folder": (0.2, 8.0),
        "drain": (2.0, 15.0),
        "pause-loop": (2.0, 15.0),
    }
)
"""Kinds that last, with the shortest and the longest time in seconds."""

MIX: Mapping[Kind, float] = MappingProxyType(
    {
        "kill-driver": 0.7,
        "kill-jvm": 0.7,
        "kill-session": 0.7,
        "kill-executor": 8.0,
        "stop-driver": 0.5,
        "stop-executor": 1.0,
        "delete-store": 0.2,
        "lock-store": 0.4,
        "lock-folder": 0.4,
        "damage-routes": 0.4,
        "split": 45.0,
        "replicas": 8.0,
        "drain": 1.0,
        "pause-loop": 0.5,
        "restart": 0.5,
        "malformed-rows": 3.0,
    }
)
"""How often each kind comes, in steps a minute of its lane."""

_MAX_DELAY_SECONDS = 2.0
_CHOICES = 2**31
_MOMENTS = get_args(Moment)
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One fault or change.

    Attributes:
        kind: What is done.
        after: Seconds since the step before it in its lane.
        moment: What is waited for then.
        delay: Seconds after that moment.
        seconds: How long it lasts, where it lasts.
        choice: A number that selects the victim, the edge or the ratio, among those that are there then.
    """

    kind: Kind
    after: float
    moment: Moment = "now"
    delay: float = 0.0
    seconds: float = 0.0
    choice: int = 0

    @property
    def lane(self) -> Lane:
        """The lane that it belongs to."""
        return "faults" if self.kind in FAULTS else "changes"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of a campaign in the order in which they were drawn, and the seed of its rows."""

    seed: int
    steps: tuple[Step, ...]

    def lane(self, name: Lane) -> tuple[Step, ...]:
        """The steps of one lane, in order."""
        return tuple(step for step in self.steps if step.lane == name)

    def to_json(self) -> str:
        """As JSON."""
        return codec.to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> Schedule:
        """Read it back; CodecError if that is no schedule."""
        found = codec.from_json(Schedule, text)
        for place, step in enumerate(found.steps):
            numbers = (step.after, step.delay, step.seconds)
            if not all(math.isfinite(each) and each >= 0 for each in numbers) or step.choice < 0 or found.seed < 0:
                raise CodecError(f"steps[{place}]", "times, choices and the seed must be finite, and 0 or more")
        return found


def draw(seed: int, seconds: float, mix: Mapping[Kind, float] = MIX) -> Schedule:
    """The schedule of a seed: in each lane steps at random instants until its time is over.

    >>> draw(7, 60.0) == draw(7, 60.0), draw(7, 60.0) == draw(8, 60.0)
    (True, False)
    """
    if seed < 0 or not (math.isfinite(seconds) and seconds >= 0):
        raise SettingsError(f"a schedule needs a seed and a length of 0 or more, got {seed} and {seconds}")
    rng = np.random.default_rng(seed)
    steps = [step for lane in get_args(Lane) for step in _draw_lane(rng, seconds, _of_lane(mix, lane))]
    return Schedule(seed, tuple(steps))


def _of_lane(mix: Mapping[Kind, float], lane: Lane) -> dict[Kind, float]:
    """The kinds of a lane, in an order that does not depend on how the mix was made."""
    return {kind: mix[kind] for kind in sorted(mix) if mix[kind] > 0 and (kind in FAULTS) == (lane == "faults")}


def _draw_lane(rng: np.random.Generator, seconds: float, rates: Mapping[Kind, float]) -> list[Step]:
    kinds, total = list(rates), sum(rates.values())
    steps, passed = list[Step](), 0.0
    while kinds and (passed := passed + (gap := float(rng.exponential(60.0 / total)))) < seconds:
        kind = kinds[int(rng.choice(len(kinds), p=[rates[each] / total for each in kinds]))]
        steps.append(_draw_step(rng, kind, gap))
    return steps


def _draw_step(rng: np.random.Generator, kind: Kind, gap: float) -> Step:
    """A step of a kind; only faults wait for moments, since changes are to come at all times."""
    moment: Moment = _MOMENTS[int(rng.integers(len(_MOMENTS)))] if kind in FAULTS else "now"
    delay = float(rng.uniform(0.0, _MAX_DELAY_SECONDS)) if moment != "now" else 0.0
    low, high = LASTING.get(kind, (0.0, 0.0))
    seconds = float(rng.uniform(low, high)) if high else 0.0
    after, delay, seconds = (round(each, _DIGITS) for each in (gap, delay, seconds))
    return Step(kind, after, moment, delay, seconds, int(rng.integers(_CHOICES)))
