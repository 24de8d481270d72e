"""How long an executor takes here, from the request until it runs tasks, and the load that matters until then."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foretide.control.actions.registry import SetExecutors
from foretide.control.world.measured import NotYet
from foretide.control.world.outlook import Planned, planned_load, planned_quantile
from foretide.control.world.world import World

_NEW = 0.5
"""Weight of the newest observation."""

_GIVEN_UP_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Lead:
    """What is known of it.

    Attributes:
        seconds: Smoothed; None before the first executor has come.
        asked: When executors were asked for that have not come yet.
        known: The executors that were there then.
    """

    seconds: float | None = None
    asked: float | None = None
    known: frozenset[str] = frozenset()

    def observe(self, world: World) -> Lead:
        """With what is there by now."""
        executors = frozenset(world.observed.executors)
        if self.asked is None:
            asked = [each.at for each in world.requested if _more(each.action, len(executors))]
            return replace(self, asked=min(asked), known=executors) if asked else self
        if executors - self.known - world.observed.idle:
            took = world.at - self.asked
            seconds = took if self.seconds is None else self.seconds + _NEW * (took - self.seconds)
            return Lead(seconds)
        return self if world.at - self.asked < _GIVEN_UP_SECONDS else Lead(self.seconds)


@dataclass(frozen=True, slots=True)
class Needs:
    """The load that is planned for.

    Attributes:
        now: As it is measured.
        at_lead: When an executor that is asked for now can be there.
        while_kept: The highest until an executor that leaves now could be back and of use.
        lead: Seconds until an executor that is asked for runs tasks.
    """

    now: Planned
    at_lead: Planned
    while_kept: Planned
    lead: float


def needs_of(world: World, lead: float, horizon: float | None, miss_cost: float) -> Needs | None:
    """The load now and ahead; without a horizon only as it is measured. None where nothing is known to arrive."""
    quantile = planned_quantile(miss_cost)
    now = planned_load(world, None)
    at_lead = now if horizon is None else planned_load(world, (lead, lead), quantile)
    kept = now if horizon is None else planned_load(world, (0.0, max(horizon, 2 * lead)), quantile)
    if isinstance(now, NotYet) or isinstance(at_lead, NotYet) or isinstance(kept, NotYet):
        return None
    return Needs(now, at_lead, kept, lead) if now.total and at_lead.total else None


def _more(action: object, executors: int) -> bool:
    return isinstance(action, SetExecutors) and action.count > executors
