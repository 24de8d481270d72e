"""Feedback scaling of the joiners: Aj-Stream Algorithm 3, eqs 15 to 17; scale up before out, and back down.

Where we go beyond what is printed:

- Resources are checked before they are given: no plan asks for more than is free.
- Joiners that are all equally overloaded do not lag by eq 15; above `busy` they get a unit each.
- Eq 17 takes from every joiner with fewer rows than the average. One that lags or is busy keeps what it has, and none
  gives back so much that it would become busy.
- Once a joiner has all that a machine offers, another one is started; what is idle is given back the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from foretide.errors import ModelError, Problem
from foretide.joins.settings import ScalingSettings

_STANDARD = ScalingSettings()
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True)
class Joiner:
    """What was measured of one join instance.

    `latency` is the seconds that a tuple takes from its arrival until it is processed, `rate` the rows that arrive in a
    second (dir), `units` what it has of cores and memory (ra); `cpu` and `memory` are the shares in use.
    """

    name: str
    latency: float
    rate: float
    units: float = 1.0
    cpu: float = 0.5
    memory: float = 0.5

    def __post_init__(self) -> None:
        problems = [
            Problem(f"joiner '{self.name}'", f"{name} is {value}", "Give a finite number, 0 or more; units above 0.")
            for name in ("latency", "rate", "units", "cpu", "memory")
            if not (math.isfinite(value := getattr(self, name)) and value >= 0) or (name == "units" and value == 0)
        ]
        if problems:
            raise ModelError(problems)


@dataclass(frozen=True, slots=True)
class Resources:
    """All resources for joiners: cores, megabytes, and the greatest number of joiners."""

    cores: float
    memory: float
    joiners: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """What to change, and why.

    `units` of cores and memory go to a joiner (above 0) or come back (below 0), by its name; `joiners` are started
    (above 0) or stopped (below 0).
    """

    units: Mapping[str, float] = field(default_factory=dict)
    joiners: int = 0
    reason: str = "nothing to change"


def free_units(joiners: Sequence[Joiner], total: Resources, settings: ScalingSettings = _STANDARD) -> float:
    """Eq 16 in units: what is not handed out yet, of whichever resource is shorter.

    >>> free_units([Joiner("a", 0.1, 10.0, units=2.0)], Resources(8.0, 5 * 1024.0, 4))
    3.0
    """
    units = min(total.cores / settings.cores_unit, total.memory / settings.memory_unit)
    return max(0.0, units - math.fsum(joiner.units for joiner in joiners))


def lagging(joiners: Sequence[Joiner], settings: ScalingSettings = _STANDARD) -> list[Joiner]:
    """Eq 15: the joiners whose latency is at least theta times the average."""
    average = math.fsum(joiner.latency for joiner in joiners) / len(joiners) if joiners else 0.0
    return [joiner for joiner in joiners if average > 0 and joiner.latency >= settings.theta * average]


def scale(joiners: Sequence[Joiner], total: Resources, settings: ScalingSettings = _STANDARD) -> Scaling:
    """Algorithm 3: more for the joiners that need it, less for those that do not, within the given resources.

    >>> seen = [Joiner("a", 0.9, 300.0), Joiner("b", 0.1, 100.0), Joiner("c", 0.1, 200.0)]
    >>> answer = scale(seen, Resources(cores=4.0, memory=8192.0, joiners=3))
    >>> answer.units, answer.reason
    ({'a': 0.5}, 'a lags: 0.5 units of cores and memory more')
    """
    slow = lagging(joiners, settings)
    names = {joiner.name for joiner in slow}
    busy = [each for each in joiners if _use(each) >= settings.busy and each.name not in names]
    if slow or busy:
        return _grow(joiners, slow, busy, total, settings)
    return _shrink(joiners, settings)


def _grow(
    joiners: Sequence[Joiner], slow: list[Joiner], busy: list[Joiner], total: Resources, settings: ScalingSettings
) -> Scaling:
    needy = [*slow, *busy]
    why = _reason(slow, busy)
    free = free_units(joiners, total, settings)
    wanted = {joiner.name: _wanted(joiner, joiners, joiner in busy, settings) for joiner in needy}
    asked = math.fsum(wanted.values())
    given = {name: units * min(1.0, free / asked) for name, units in wanted.items() if units > 0} if asked else {}
    back = _given_back(joiners, needy, settings) if slow else {}
    if asked and free > _NEGLIGIBLE:
        more = math.fsum(given.values())
        return Scaling({**given, **back}, 0, f"{why}: {more:.3g} units of cores and memory more")
    at_most = [joiner for joiner in needy if joiner.units >= settings.max_units]
    if at_most and free >= 1 and len(joiners) < total.joiners:
        return Scaling(back, 1, f"{why} with all that a machine offers: one more joiner")
    hint = "nothing is left to hand out" if asked or at_most else "it gets fewer rows than others, so more is no help"
    return Scaling(back, 0, f"{why}, but {hint}")


def _wanted(joiner: Joiner, joiners: Sequence[Joiner], is_busy: bool, settings: ScalingSettings) -> float:  # noqa: FBT001
    """Eq 17, for a joiner that needs more: as much as its share of the rows exceeds the average, up to the cap."""
    share = _excess(joiner, joiners)
    units = min(max(share, 1.0) if is_busy else share, settings.max_units_per_step)
    return max(0.0, min(units, settings.max_units - joiner.units))


def _excess(joiner: Joiner, joiners: Sequence[Joiner]) -> float:
    """Lambda of eq 17: by how much its rate exceeds the average, as a share of it."""
    rates = math.fsum(each.rate for each in joiners)
    return len(joiners) * joiner.rate / rates - 1 if rates > 0 else 0.0


def _given_back(joiners: Sequence[Joiner], needy: Sequence[Joiner], settings: ScalingSettings) -> dict[str, float]:
    """Eq 17, for the others: what those with fewer rows than the average can spare."""
    spare = {}
    for joiner in joiners:
        units = min(-_excess(joiner, joiners), _spare(joiner, settings))
        if joiner not in needy and units > _NEGLIGIBLE:
            spare[joiner.name] = -units
    return spare


def _spare(joiner: Joiner, settings: ScalingSettings) -> float:
    """Units that a joiner could do without: it keeps one, and does not become busy."""
    return joiner.units - max(1.0, joiner.units * _use(joiner) / settings.busy)


def _shrink(joiners: Sequence[Joiner], settings: ScalingSettings) -> Scaling:
    """Give back, where all are idle: first a joiner, then units of those that have more than one."""
    if not joiners or any(_use(joiner) >= settings.idle for joiner in joiners):
        return Scaling(reason="no joiner lags or is busy, and none can be spared")
    if len(joiners) > settings.min_joiners:
        after = max(_use(joiner) for joiner in joiners) * len(joiners) / (len(joiners) - 1)
        if after < settings.busy:
            return Scaling({}, -1, "all joiners are idle: one fewer")
    spare = {joiner.name: min(1.0, _spare(joiner, settings)) for joiner in joiners}
    back = {name: -units for name, units in spare.items() if units > _NEGLIGIBLE}
    return Scaling(back, 0, "all joiners are idle: up to a unit of cores and memory less" if back else "all are idle")


def _use(joiner: Joiner) -> float:
    return max(joiner.cpu, joiner.memory)


def _reason(slow: Sequence[Joiner], busy: Sequence[Joiner]) -> str:
    parts = [(slow, "lags", "lag"), (busy, "is busy", "are busy")]
    return " and ".join(
        f"{', '.join(each.name for each in group)} {one if len(group) == 1 else many}"
        for group, one, many in parts
        if group
    )
