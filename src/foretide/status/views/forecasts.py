"""Forecasts against what came, and which of them are trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foretide.control.forecast_scores import HorizonTrust
from foretide.control.history import RecordedForecasts, RecordedSeries
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Sample
from foretide.status.views.latency import Point, thinned

_LOW, _HIGH = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What was expected for a time, with an interval of 80 %; the bounds are None where the model has none."""

    at: float
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class SeriesName:
    """A series that is forecast: its metric and subject, and both in words."""

    metric: str
    subject: str
    words: str
    unit: str


@dataclass(frozen=True, slots=True)
class Trust:
    """Whether the forecasts of a horizon are trusted, and why."""

    seconds: float
    trusted: bool
    why: str


@dataclass(frozen=True, slots=True)
class ForecastView:
    """A series: what came, what had been forecast for these times, and what is forecast now.

    Attributes:
        horizon: How many seconds ahead the earlier forecasts were made; None without any.
        by: The model of the newest forecast.
        known: All series that are forecast.
        log: What became of the models that were fitted, the newest last.
    """

    at: float
    series: SeriesName | None
    horizon: float | None
    by: str | None
    came: tuple[Point, ...]
    earlier: tuple[Foreseen, ...]
    ahead: tuple[Foreseen, ...]
    trust: tuple[Trust, ...]
    known: tuple[SeriesName, ...]
    log: tuple[str, ...]


def series_of(records: Sequence[RecordedForecasts]) -> tuple[SeriesName, ...]:
    """The series of the newest forecasts, loads first."""
    newest = records[-1].series if records else ()
    names = (_name(each.metric, each.subject) for each in newest)
    return tuple(sorted(names, key=lambda name: (name.metric != "arrival_rate", name.metric, name.subject)))


def _name(metric: str, subject: str) -> SeriesName:
    known = CATALOGUE.get(metric)
    words, unit = (metric, "") if known is None else (known.words, known.symbol)
    return SeriesName(metric, subject, f"{words} of {subject}", unit)


def chosen_series(known: Sequence[SeriesName], metric: str | None, subject: str | None) -> SeriesName | None:
    """The series asked for; the first of those that fit if not all is given."""
    return next((each for each in known if metric in (None, each.metric) and subject in (None, each.subject)), None)


def forecast_view(
    at: float,
    series: SeriesName | None,
    records: Sequence[RecordedForecasts],
    came: Iterable[Sample],
    trust: Iterable[HorizonTrust],
    log: tuple[str, ...],
    seconds: float | None = None,
) -> ForecastView:
    """A series against its forecasts, those made `seconds` ahead, or at the nearest horizon to that there is."""
    own = [(record.at, each) for record in records for each in record.series if _is(each, series)]
    horizon = _horizon(own[-1][1], seconds) if own else None
    earlier = [] if horizon is None else [_point(made, each, _place(each, horizon)) for made, each in own]
    ahead = [_point(own[-1][0], own[-1][1], place) for place in range(len(own[-1][1].seconds))] if own else []
    trusted = [
        Trust(each.seconds, each.trusted, each.sentence)
        for each in trust
        if series is not None and (each.metric, each.subject) == (series.metric, series.subject)
    ]
    points = thinned([Point(sample.at, sample.value) for sample in came], 600)
    by = own[-1][1].by if own else None
    return ForecastView(
        at, series, horizon, by, points, tuple(earlier), tuple(ahead), tuple(trusted), series_of(records), log
    )


def _is(recorded: RecordedSeries, series: SeriesName | None) -> bool:
    return series is not None and (recorded.metric, recorded.subject) == (series.metric, series.subject)


def _horizon(series: RecordedSeries, seconds: float | None) -> float:
    wanted = series.seconds[len(series.seconds) // 2] if seconds is None else seconds
    return min(series.seconds, key=lambda each: abs(each - wanted))


def _place(series: RecordedSeries, horizon: float) -> int:
    return min(range(len(series.seconds)), key=lambda place: abs(series.seconds[place] - horizon))


def _point(made: float, series: RecordedSeries, place: int) -> Foreseen:
    low, high = series.quantiles.get(_LOW), series.quantiles.get(_HIGH)
    return Foreseen(
        made + series.seconds[place],
        series.means[place],
        None if low is None else low[place],
        None if high is None else high[place],
    )
