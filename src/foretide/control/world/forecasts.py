"""What is foreseen, as values: distributions at some horizons, who made them, and whether they may vote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foretide.metrics.snapshot import Key


@dataclass(frozen=True, slots=True)
class ForecastPoint:
    """What is expected so many seconds from now: the mean, and quantiles where the model has them."""

    seconds: float
    mean: float
    quantiles: Mapping[float, float] = field(default_factory=dict)

    def value(self, quantile: float | None = None) -> float:
        """The mean, or the nearest quantile at or above the one asked for; the mean where there is none."""
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
        may_vote: False if it is known to do worse than the last value; None leaves that to the loop's own book.
    """

    by: str
    points: tuple[ForecastPoint, ...]
    may_vote: bool | None = None

    def at(self, seconds: float) -> ForecastPoint:
        """The point nearest to a horizon."""
        return min(self.points, key=lambda point: abs(point.seconds - seconds))

    def most(self, seconds: float, quantile: float | None = None) -> float:
        """The highest value on the way to a horizon."""
        near = [point for point in self.points if point.seconds <= seconds] or [self.at(seconds)]
        return max(point.value(quantile) for point in near)


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Everything that is foreseen, by metric and subject."""

    outlooks: Mapping[Key, Forecast] = field(default_factory=dict)

    def vote(self, metric: str, subject: str) -> Forecast | None:
        """The outlook, if there is one that may vote."""
        found = self.outlooks.get((metric, subject))
        return found if found is not None and found.may_vote is not False else None

    def expected(self, metric: str, subject: str, seconds: float, quantile: float | None = None) -> float | None:
        """The value that is expected at a horizon; None where nothing that may vote says so."""
        outlook = self.vote(metric, subject)
        return None if outlook is None else outlook.at(seconds).value(quantile)

    def with_plain(self, forecasts: Mapping[Key, float], seconds: float) -> Forecasts:
        """With plain values added (a snapshot's forecasts), where nothing better is known."""
        plain = {key: Forecast("snapshot", (ForecastPoint(seconds, value),)) for key, value in forecasts.items()}
        return Forecasts({**plain, **self.outlooks}) if plain else self

    def without(self, keys: frozenset[Key]) -> Forecasts:
        """With the vote taken from some."""
        if not keys:
            return self
        return Forecasts(
            {key: replace(look, may_vote=False) if key in keys else look for key, look in self.outlooks.items()}
        )
