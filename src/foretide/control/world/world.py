"""All that a control cycle reads, as one value, and the forecasts in it.

What is planned, requested and observed is kept apart by name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from foretide.control.actions.registry import Action
from foretide.control.world.setup import Observed, Setup, Target, full_tasks
from foretide.joins.plan import JoinView
from foretide.metrics.snapshot import Key, Snapshot

NEAR_SECONDS = 60.0
"""A forecast for a time so far from another, or as far as that is ahead, says something of that other one."""


@dataclass(frozen=True, slots=True)
class Record:
    """How a model has done on earlier values: its error at a horizon, and that of the last value."""

    error: float
    naive: float


@dataclass(frozen=True, slots=True)
class ForecastPoint:
    """What is expected `seconds` from now: the mean, and quantiles if the model has them.

    Attributes:
        record: How the model has done at this horizon before anything was forecast here; None if that is not known.
        announced: The events that a person has announced for that time, in words; None without any.
        trusted_since: When the horizon became trusted, in seconds since 1970. The loop fills it in.
        by: The model that made it, if that is not the one of the whole forecast.
    """

    seconds: float
    mean: float
    quantiles: Mapping[float, float] = field(default_factory=dict)
    record: Record | None = None
    announced: str | None = None
    trusted_since: float | None = None
    by: str | None = None

    def value(self, quantile: float | None = None) -> float:
        """The mean, or the nearest quantile at or above the one asked for; the mean if there is none."""
        if quantile is None:
            return self.mean
        high = [level for level in self.quantiles if level >= quantile]
        return self.quantiles[min(high)] if high else self.mean


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast of one metric of one subject.

    Attributes:
        by: The model that made it.
        points: At least one, in order of time.
    """

    by: str
    points: tuple[ForecastPoint, ...]

    def at(self, seconds: float) -> ForecastPoint:
        """The point nearest to a horizon."""
        return min(self.points, key=lambda point: abs(point.seconds - seconds))

    def expected(self, seconds: float, quantile: float | None = None) -> float | None:
        """The value at any time: on a line between two points, as at the first one before it; None after the last.

        >>> points = (ForecastPoint(10.0, 100.0), ForecastPoint(30.0, 300.0))
        >>> [Forecast("m", points).expected(seconds) for seconds in (1, 15, 31)]
        [100.0, 150.0, None]
        """
        right = bisect_left([point.seconds for point in self.points], seconds)
        if right == len(self.points):
            return None
        high = self.points[right]
        if right == 0:
            return high.value(quantile)
        low = self.points[right - 1]
        share = (seconds - low.seconds) / (high.seconds - low.seconds)
        return low.value(quantile) + share * (high.value(quantile) - low.value(quantile))


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Forecasts by series: metric and subject. Policies see those that the loop trusts."""

    by_series: Mapping[Key, Forecast] = field(default_factory=dict)

    def expected(self, metric: str, subject: str, seconds: float, quantile: float | None = None) -> float | None:
        """The value expected at a horizon; None without a forecast for about that time."""
        forecast = self.by_series.get((metric, subject))
        point = None if forecast is None else forecast.at(seconds)
        if point is None or abs(point.seconds - seconds) > max(seconds, NEAR_SECONDS):
            return None
        return point.value(quantile)


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
        observed: What is in force.
        forecasts: All of them; when policies are asked, the loop has left those that are trusted.
        orders: What a person ordered; has precedence over every policy.
        requested: What was requested and is not observed yet. The loop fills it in.
        held: What a person set by hand, by the target of an action, and who did: no policy changes it.
        forecast_for_now: What earlier forecasts said about the present. The loop fills it in.
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
    held: Mapping[str, str] = field(default_factory=dict)

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
        """Active replicas of an operator: as its route says, or its whole pool.

        In a pipeline, tasks that get next to nothing because their worker is slow do not count.
        """
        part = self.setup.by_name[operator]
        if part.edge is not None and self.setup.mode == "pipeline":
            return len(full_tasks(self.observed.routes.get(part.edge, ()))) or part.pool
        routed = None if part.edge is None else self.observed.replicas(part.edge)
        return routed or part.pool

    def is_requested(self, action: Action) -> bool:
        """Whether this very action was requested and is not observed yet."""
        return any(request.action == action for request in self.requested)
