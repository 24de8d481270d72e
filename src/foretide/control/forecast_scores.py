"""The one judge of forecasts: which of them policies and alarms may use. The same live, in simulations and in replays.

A forecast is compared with the simplest there is: that nothing changes. Each horizon of each series is judged by
itself. It is trusted once enough of its forecasts have come due and were no worse than the last value, and no longer
trusted when they were. Errors fade, so an old one is forgotten. A model that comes with a record, from history or from
before a restart, begins with it. What a person has announced is always used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.control.world.world import Forecast, ForecastPoint, Forecasts
from foretide.metrics.snapshot import Key, Snapshot

_PENDING_PER_HORIZON = 8
"""Predictions of one horizon that wait for their time, at most and about: they are made a part of it apart."""

_KEPT_SECONDS = 600.0
"""For so long the scores of a series that is not forecast at present are kept."""


@dataclass(frozen=True, slots=True)
class VoteSettings(Bounded):
    """When a forecast is trusted."""

    section: ClassVar[str] = "votes"

    smoothing: Annotated[
        float, Interval(ge=0, lt=1), Doc("Weight of the past in the smoothed errors."), Scope.PYTHON_ONLY
    ] = 0.8
    min_forecasts: Annotated[
        int, Ge(1), Doc("Forecasts of a horizon that must have come due before it can be trusted."), Scope.PYTHON_ONLY
    ] = 5
    tolerance: Annotated[
        float,
        Ge(0),
        Doc("Share by which its error may exceed that of the last value; trust is regained without it."),
        Scope.PYTHON_ONLY,
    ] = 0.1
    negligible: Annotated[
        float,
        Ge(0),
        Doc(
            "Errors below this share of the value itself never cost trust: where hardly anything changes the last "
            "value is nearly perfect, and what matters is who sees a change coming."
        ),
        Scope.PYTHON_ONLY,
    ] = 0.05


@dataclass(frozen=True, slots=True)
class Prediction:
    """A value forecast for a time, and the last value that was known when it was."""

    due: float
    value: float
    last: float


@dataclass(frozen=True, slots=True)
class Score:
    """Faded absolute errors of a forecast and of the last value, the faded value itself, and how many came due.

    `since` is when it became trusted.
    """

    error: float = 0.0
    naive: float = 0.0
    level: float = 0.0
    count: int = 0
    trusted: bool = False
    lost: bool = False
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Horizon:
    """One horizon of a series: predictions that are not due yet, the oldest first, and the score of those that were."""

    pending: tuple[Prediction, ...] = ()
    score: Score = field(default_factory=Score)


@dataclass(frozen=True, slots=True)
class Series:
    """The horizons of a series by their seconds, and when it was forecast last."""

    horizons: Mapping[float, Horizon]
    seen: float


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """Scores by series, and what the predictions of the nearest horizon say about the present."""

    series: Mapping[Key, Series] = field(default_factory=dict)
    due: Mapping[Key, float] = field(default_factory=dict)

    @property
    def lost(self) -> frozenset[tuple[str, str, float]]:
        """Horizons (metric, subject, seconds) that were trusted once, or long enough to be, and are not now."""
        return frozenset(
            (*key, seconds)
            for key, series in self.series.items()
            for seconds, horizon in series.horizons.items()
            if horizon.score.lost
        )

    def is_trusted(self, key: Key, seconds: float) -> bool:
        """Whether one horizon of a series is trusted."""
        series = self.series.get(key)
        horizon = None if series is None else series.horizons.get(seconds)
        return horizon is not None and horizon.score.trusted

    def trusted(self, forecasts: Forecasts) -> Forecasts:
        """The forecasts that are trusted: without horizons that are not, and without series that have no other."""
        kept = {key: self._points(key, forecast) for key, forecast in forecasts.by_series.items()}
        return Forecasts(
            {key: replace(forecasts.by_series[key], points=points) for key, points in kept.items() if points}
        )

    def _points(self, key: Key, forecast: Forecast) -> tuple[ForecastPoint, ...]:
        known = self.series.get(key)
        kept = []
        for point in forecast.points:
            horizon = None if known is None else known.horizons.get(point.seconds)
            is_trusted = horizon is not None and horizon.score.trusted
            if is_trusted or point.announced is not None:
                since = horizon.score.since if is_trusted and horizon is not None else None
                kept.append(replace(point, trusted_since=since))
        return tuple(kept)

    def update(self, settings: VoteSettings, snapshot: Snapshot, forecasts: Forecasts) -> ForecastScores:
        """With what came due scored, and what is forecast now added."""
        series: dict[Key, Series] = {}
        due: dict[Key, float] = {}
        for key in dict.fromkeys((*forecasts.by_series, *self.series)):
            before, forecast = self.series.get(key), forecasts.by_series.get(key)
            seen = snapshot.at if forecast is not None or before is None else before.seen
            if not 0 <= snapshot.at - seen <= _KEPT_SECONDS:
                continue
            horizons = dict(before.horizons) if before is not None else {}
            figure = snapshot.figures.get(key)
            if figure is not None:
                for seconds in sorted(horizons):
                    horizons[seconds], value = _scored(settings, horizons[seconds], *figure, snapshot.at)
                    if value is not None:
                        due.setdefault(key, value)
                for point in () if forecast is None else forecast.points:
                    if point.announced is None:  # the models are judged, not who has announced something
                        known = _with_record(settings, horizons.get(point.seconds, Horizon()), point, snapshot.at)
                        horizons[point.seconds] = _extended(known, point, figure[0], snapshot.at)
            series[key] = Series(horizons, seen)
        return ForecastScores(series, due)


def _with_record(settings: VoteSettings, horizon: Horizon, point: ForecastPoint, at: float) -> Horizon:
    """Until enough forecasts have come due, what the model's record says counts, if it has one."""
    record = point.record
    if record is None or record.error > record.naive or horizon.score.count >= settings.min_forecasts:
        return horizon
    score = Score(record.error, record.naive, abs(point.mean), settings.min_forecasts, trusted=True, since=at)
    return replace(horizon, score=score)


def _scored(
    settings: VoteSettings, horizon: Horizon, value: float, at: float, now: float
) -> tuple[Horizon, float | None]:
    """With the newest of the predictions that are due scored; and what it was."""
    if not horizon.pending or horizon.pending[0].due > at:
        return horizon, None
    ripe = [each for each in horizon.pending if each.due <= at]
    score = _next(settings, horizon.score, ripe[-1], value)
    since = (horizon.score.since if horizon.score.trusted else now) if score.trusted else None
    score = replace(score, since=since)
    return Horizon(horizon.pending[len(ripe) :], score), ripe[-1].value


def _extended(horizon: Horizon, point: ForecastPoint, last: float, at: float) -> Horizon:
    """With a prediction more, unless one was made just before. Those of a clock that was ahead are dropped."""
    pending, due = horizon.pending, at + point.seconds
    if pending and pending[-1].due > due:
        pending = tuple(each for each in pending if each.due <= due)
        horizon = Horizon(pending, horizon.score)
    if pending and pending[-1].due + point.seconds / _PENDING_PER_HORIZON > due:
        return horizon
    return Horizon((*pending, Prediction(due, point.mean, last)), horizon.score)


def _next(settings: VoteSettings, before: Score, prediction: Prediction, value: float) -> Score:
    error, naive, level = abs(value - prediction.value), abs(value - prediction.last), abs(value)
    if before.count:
        old, new = settings.smoothing, 1 - settings.smoothing
        error, naive = old * before.error + new * error, old * before.naive + new * naive
        level = old * before.level + new * level
    count = before.count + 1
    allowed = max(naive * (1 if before.lost else 1 + settings.tolerance), settings.negligible * level)
    is_good, is_known = error <= allowed + 1e-12, count >= settings.min_forecasts
    return Score(error, naive, level, count, trusted=is_known and is_good, lost=is_known and not is_good)


@dataclass(frozen=True, slots=True)
class HorizonTrust:
    """How the forecasts of one horizon have done, as people read it.

    `error` and `naive` are the faded absolute errors of the forecast and of the last value.
    """

    metric: str
    subject: str
    seconds: float
    trusted: bool
    forecasts: int
    error: float
    naive: float

    @property
    def sentence(self) -> str:
        """Whether it is trusted, and why.

        >>> HorizonTrust("arrival_rate", "requests", 10.0, True, 12, 40.0, 80.0).sentence
        'trusted: over 12 forecasts its error was 0.5 times that of the last value'
        >>> HorizonTrust("arrival_rate", "requests", 10.0, False, 2, 40.0, 80.0).sentence
        'not trusted yet: 2 forecasts have come due'
        """
        compared = f"over {self.forecasts} forecasts its error was {_times(self.error, self.naive)}"
        if self.trusted:
            return f"trusted: {compared}"
        due = "1 forecast has" if self.forecasts == 1 else f"{self.forecasts} forecasts have"
        return f"not trusted: {compared}" if self.error > self.naive else f"not trusted yet: {due} come due"


def _times(error: float, naive: float) -> str:
    if naive <= 0:
        return "0, as that of the last value" if error <= 0 else "above that of the last value, which was 0"
    return f"{error / naive:.2g} times that of the last value"


def trust_in(scores: ForecastScores) -> list[HorizonTrust]:
    """How each horizon has done, loads of spouts only: those of workers and keys are many."""
    return [
        HorizonTrust(metric, subject, seconds, score.trusted, score.count, score.error, score.naive)
        for (metric, subject), series in scores.series.items()
        if metric == "arrival_rate"
        for seconds, score in ((each, series.horizons[each].score) for each in sorted(series.horizons))
    ]
