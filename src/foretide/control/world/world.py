"""All that a control cycle reads, as one value. What is planned, requested and observed is kept apart by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.control.actions.registry import Action
from foretide.control.world.forecasts import Forecasts
from foretide.control.world.observed import Observed
from foretide.control.world.setup import Setup, Target
from foretide.joins.plan import JoinView
from foretide.metrics.snapshot import Key, Snapshot


@dataclass(frozen=True, slots=True)
class Request:
    """An action that was requested and has not been observed yet."""

    action: Action
    decision: int
    at: float


@dataclass(frozen=True, slots=True)
class World:
    """What is known at one instant.

    Attributes:
        setup: What the query is made of.
        snapshot: What was measured.
        observed: What is in force.
        forecasts: What is expected.
        target: The latency to hold, and the budget.
        orders: What a person ordered; has precedence over every policy.
        requested: What was requested and is not observed yet. The loop fills it in.
        forecast_for_now: What earlier forecasts said about the present. The loop fills it in.
        joins: What is known of each join, by its name.
    """

    setup: Setup
    snapshot: Snapshot
    observed: Observed
    forecasts: Forecasts = field(default_factory=Forecasts)
    target: Target = field(default_factory=Target)
    orders: tuple[Action, ...] = ()
    requested: tuple[Request, ...] = ()
    forecast_for_now: Mapping[Key, float] = field(default_factory=dict)
    joins: Mapping[str, JoinView] = field(default_factory=dict)

    @property
    def at(self) -> float:
        """The instant, in seconds since 1970."""
        return self.snapshot.at

    @property
    def batch(self) -> int | None:
        """The batch that was committed last."""
        value = self.snapshot.value("batch")
        return None if value is None else int(value)

    def replicas(self, operator: str) -> int:
        """Active replicas of an operator: as its route says, or its whole pool."""
        part = self.setup.by_name[operator]
        routed = None if part.edge is None else self.observed.replicas(part.edge)
        return routed or part.pool

    def is_requested(self, action: Action) -> bool:
        """Whether this very action was requested and is not observed yet."""
        return any(request.action == action for request in self.requested)
