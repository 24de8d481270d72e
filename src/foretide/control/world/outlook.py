"""The load to plan for: as it is measured, or as the trusted forecasts have it, higher or lower.

Being wrong has two prices: too few executors delay tuples, too many cost executors. The quantile of the forecast that
keeps the sum of both lowest is the share of the first price in the sum (the newsvendor's rule).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from foretide.control.world.measured import FRESH, NotYet
from foretide.control.world.world import NEAR_SECONDS, Forecast, World
from foretide.formatting import format_duration, format_number

_ORDINARY = 1.5
"""Rows that may wait after a batch, over the rows that it has taken, before they count as a backlog."""

_SURPRISE = 1.25
"""The measured load over the one forecast for the next moment, above which forecasts do not lower the plan."""


def planned_quantile(miss_cost: float) -> float:
    """The quantile to plan for, if too little capacity costs so many times what too much of it costs.

    >>> planned_quantile(9.0)
    0.9
    """
    return miss_cost / (miss_cost + 1.0)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A load that the trusted forecasts expect.

    Attributes:
        at: When it was said, in seconds since 1970.
        ahead: Seconds from then until it is due.
        rate: Tuples a second of all spouts together, at the quantile that is planned for.
        mean: The same as a mean.
        by: The models that made it.
        since: Since when all of them are trusted; None if it rests on what was announced.
        announced: The events in it, in words; None without any.
        until: Seconds of the outlook in which no higher load is expected.
    """

    at: float
    ahead: float
    rate: float
    mean: float
    by: str
    since: float | None = None
    announced: str | None = None
    until: float = 0.0

    @property
    def due(self) -> float:
        """When it is due, in seconds since 1970."""
        return self.at + self.ahead

    def describe(self) -> str:
        """The load in words."""
        trust = "" if self.since is None else f", trusted for {format_duration(max(self.at - self.since, 0.0))}"
        event = "" if self.announced is None else f", with {self.announced}"
        words = f"in {format_duration(self.ahead)} {format_number(self.mean)} tuples/s are expected"
        return f"{words} ({self.by}{trust}{event})"


@dataclass(frozen=True, slots=True)
class Planned:
    """The load to plan for by spout, and the forecast behind it; None where it is the measured load."""

    rates: Mapping[str, float]
    foreseen: Foreseen | None = None

    @property
    def total(self) -> float:
        """Tuples a second of all spouts together."""
        return math.fsum(self.rates.values())


def planned_load(world: World, ahead: tuple[float, float] | None, quantile: float | None = None) -> Planned | NotYet:
    """The highest load within some time: forecast where that is trusted and reaches so far, else measured.

    While rows wait, where the measured load is far above what is forecast for the next moment, and where forecasts do
    not reach the end of the time, it is not below the measured load.

    Args:
        world: What is measured and forecast.
        ahead: From and to so many seconds from now; None for the measured load.
        quantile: Of the forecasts; None for the mean.
    """
    now = {spout: world.snapshot.value("arrival_rate", spout, within=FRESH) for spout in world.setup.spouts}
    forecasts = {} if ahead is None else _forecasts(world)
    missing = tuple(f"arrival_rate of '{spout}'" for spout in now if now[spout] is None and spout not in forecasts)
    if missing or not now:
        return NotYet(missing)
    measured = {spout: rate or 0.0 for spout, rate in now.items()}
    if ahead is None or not forecasts:
        return Planned(measured)
    reached = all(forecast.points[-1].seconds >= ahead[1] for forecast in forecasts.values())
    moments = {min(max(point.seconds, ahead[0]), ahead[1]) for each in forecasts.values() for point in each.points}
    found = [_at(forecasts, measured, moment, quantile) for moment in sorted(moments | set(ahead))]
    total, moment, rates = max(found, key=lambda each: (each[0], -each[1]))
    if reached and not _is_surprise(forecasts, measured) and not rows_wait(world):
        foreseen = _foreseen(world, forecasts, measured, moment, total)
        return Planned(rates, replace(foreseen, until=ahead[1]))
    if total <= math.fsum(measured.values()):
        return Planned(measured)
    higher = {spout: max(rates[spout], measured[spout]) for spout in rates}
    return Planned(higher, _foreseen(world, forecasts, measured, moment, math.fsum(higher.values())))


def foreseen_within(world: World, horizon: float | None, miss_cost: float) -> Planned | NotYet:
    """The highest load within a horizon, at the quantile that the costs ask for; without one the measured load."""
    return planned_load(world, None if horizon is None else (0.0, horizon), planned_quantile(miss_cost))


def rows_wait(world: World) -> bool:
    """Whether more rows wait than an ordinary batch takes, as far as that is known."""
    snapshot = world.snapshot
    lags = [snapshot.value("lag", spout, within=FRESH) for spout in world.setup.spouts]
    lag = snapshot.value("total_lag", within=FRESH) or math.fsum(each or 0.0 for each in lags)
    ordinary = snapshot.value("input_rows", within=FRESH)
    latency, target = snapshot.value(world.target.metric, within=FRESH), world.target.latency
    above = latency is not None and target is not None and latency / 1000.0 > target
    return above or (ordinary is not None and lag > _ORDINARY * ordinary)


def _forecasts(world: World) -> dict[str, Forecast]:
    series = {spout: world.forecasts.by_series.get(("arrival_rate", spout)) for spout in world.setup.spouts}
    return {spout: forecast for spout, forecast in series.items() if forecast is not None and forecast.points}


def _is_surprise(forecasts: Mapping[str, Forecast], measured: Mapping[str, float]) -> bool:
    """Whether the load is not what the forecasts have for the moment to come: they do not know yet what happens."""
    return any(
        each.points[0].seconds > NEAR_SECONDS or measured[spout] > _SURPRISE * each.points[0].mean
        for spout, each in forecasts.items()
    )


def _at(
    forecasts: Mapping[str, Forecast], measured: Mapping[str, float], moment: float, quantile: float | None
) -> tuple[float, float, dict[str, float]]:
    """The load at one moment: in all, when, and by spout. A spout without a forecast stays as it is."""
    rates = dict(measured)
    for spout, forecast in forecasts.items():
        rates[spout] = _expected(forecast, measured[spout], moment, quantile)
    return math.fsum(rates.values()), moment, rates


def _expected(forecast: Forecast, measured: float, moment: float, quantile: float | None) -> float:
    """The load of a spout at a moment: on a line from now where the first forecast is far ahead."""
    first = forecast.points[0]
    if moment < first.seconds and first.seconds > NEAR_SECONDS:
        return measured + moment / first.seconds * (first.value(quantile) - measured)
    expected = forecast.expected(moment, quantile)
    return forecast.points[-1].value(quantile) if expected is None else expected


def _foreseen(
    world: World, forecasts: Mapping[str, Forecast], measured: Mapping[str, float], moment: float, rate: float
) -> Foreseen:
    points = [forecast.at(moment) for forecast in forecasts.values()]
    mean = _at(forecasts, measured, moment, None)[0]
    since = [point.trusted_since for point in points if point.trusted_since is not None]
    announced = "; ".join(dict.fromkeys(point.announced for point in points if point.announced is not None))
    made = zip(points, forecasts.values(), strict=True)
    by = " and ".join(sorted({point.by or forecast.by for point, forecast in made}))
    trusted = max(since) if len(since) == len(points) else None
    return Foreseen(world.at, moment, rate, mean, by, trusted, announced or None)
