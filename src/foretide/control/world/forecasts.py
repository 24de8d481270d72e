"""Forecasts as values: distributions at some horizons, the model that made them, and whether they may vote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from foretide.metrics.snapshot import Key


@dataclass(frozen=True, slots=True)
class ForecastPoint:
    """What is expected `seconds` from now: the mean, and quantiles if the model has them."""

    seconds: float
    mean: float
    quantiles: Mapping[float, float] = field(default_factory=dict)

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
        may_vote: False if it is known to do worse than the last value; None leaves that to the loop's own scores.
    """

    by: str
    points: tuple[ForecastPoint, ...]
    may_vote: bool | None = None

    def at(self, seconds: float) -> ForecastPoint:
        """The point nearest to a horizon."""
        return min(self.points, key=lambda point: abs(point.seconds - seconds))


@dataclass(frozen=True, slots=True)
class Forecasts:
    """All forecasts by series: metric and subject."""

    by_series: Mapping[Key, Forecast] = field(default_factory=dict)

    def trusted(self, metric: str, subject: str) -> Forecast | None:
        """The forecast of a series, if there is one that may vote."""
        found = self.by_series.get((metric, subject))
        return found if found is not None and found.may_vote is not False else None

    def expected(self, metric: str, subject: str, seconds: float, quantile: float | None = None) -> float | None:
        """The value expected at a horizon; None without a forecast that may vote."""
        forecast = self.trusted(metric, subject)
        return None if forecast is None else forecast.at(seconds).value(quantile)

    def with_plain(self, values: Mapping[Key, float], seconds: float) -> Forecasts:
        """With plain values (the forecasts of a snapshot) for series that have no forecast."""
        plain = {key: Forecast("snapshot", (ForecastPoint(seconds, value),)) for key, value in values.items()}
        return Forecasts({**plain, **self.by_series}) if plain else self

    def without_votes(self, keys: frozenset[Key]) -> Forecasts:
        """With the vote taken from some."""
        if not keys:
            return self
        return Forecasts(
            {key: replace(each, may_vote=False) if key in keys else each for key, each in self.by_series.items()}
        )
