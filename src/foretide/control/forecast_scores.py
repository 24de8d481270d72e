"""Scores of past forecasts: how far off they were, and which are trusted.

A forecast is compared with the simplest there is: that nothing changes. One that has done worse than the last value
loses its vote, and wins it back by doing better. Errors fade, so an old one is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded
from foretide.control.world.world import Forecasts
from foretide.metrics.snapshot import Key, Snapshot

_MAX_PENDING = 64
"""Predictions of one series that may wait for their time."""


@dataclass(frozen=True, slots=True)
class VoteSettings(Bounded):
    """When a forecast may vote."""

    section: ClassVar[str] = "votes"

    smoothing: Annotated[float, Interval(ge=0, lt=1), Doc("Weight of the past in the smoothed errors.")] = 0.8
    min_forecasts: Annotated[int, Ge(1), Doc("Forecasts that must have come due before a vote can be lost.")] = 5
    tolerance: Annotated[
        float,
        Ge(0),
        Doc("Share by which its error may exceed that of the last value; a vote is regained without it."),
    ] = 0.1
    negligible: Annotated[
        float,
        Ge(0),
        Doc(
            "Errors below this share of the value itself never cost a vote: where hardly anything changes the last "
            "value is nearly perfect, and what matters is who sees a change coming."
        ),
    ] = 0.05


@dataclass(frozen=True, slots=True)
class Prediction:
    """A value forecast for a time, and the last value that was known when it was."""

    due: float
    value: float
    last: float


@dataclass(frozen=True, slots=True)
class Score:
    """Faded absolute errors of a forecast and of the last value, the faded value itself, and how many came due."""

    error: float
    naive: float
    level: float
    count: int
    distrusted: bool = False


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """Scores by series, predictions that are not due yet, and those that are due now."""

    pending: Mapping[Key, tuple[Prediction, ...]] = field(default_factory=dict)
    scores: Mapping[Key, Score] = field(default_factory=dict)
    due: Mapping[Key, float] = field(default_factory=dict)

    @property
    def distrusted(self) -> frozenset[Key]:
        """Series whose forecasts have lost their vote."""
        return frozenset(key for key, score in self.scores.items() if score.distrusted)

    def update(self, settings: VoteSettings, snapshot: Snapshot, forecasts: Forecasts) -> ForecastScores:
        """With what came due scored, and what is forecast now added."""
        pending: dict[Key, tuple[Prediction, ...]] = {}
        scores: dict[Key, Score] = {}
        due: dict[Key, float] = {}
        for key, forecast in forecasts.by_series.items():
            figure = snapshot.figures.get(key)
            kept = self.pending.get(key, ())
            score = self.scores.get(key)
            if figure is not None:
                value, measured_at = figure
                ripe = [each for each in kept if each.due <= measured_at]
                kept = tuple(each for each in kept if each.due > measured_at)
                if ripe:
                    due[key] = ripe[-1].value
                    score = _scored(settings, score, ripe[-1], value)
                point = forecast.points[0]
                kept = (*kept, Prediction(snapshot.at + point.seconds, point.mean, value))[-_MAX_PENDING:]
            pending[key] = kept
            if score is not None:
                scores[key] = score
        return ForecastScores(pending, scores, due)


def _scored(settings: VoteSettings, before: Score | None, prediction: Prediction, value: float) -> Score:
    error, naive = abs(value - prediction.value), abs(value - prediction.last)
    if before is None:
        return Score(error, naive, abs(value), 1)
    old, new = settings.smoothing, 1 - settings.smoothing
    error, naive = old * before.error + new * error, old * before.naive + new * naive
    level, count = old * before.level + new * abs(value), before.count + 1
    allowed = max(naive * (1 if before.distrusted else 1 + settings.tolerance), settings.negligible * level)
    return Score(error, naive, level, count, distrusted=count >= settings.min_forecasts and error > allowed + 1e-12)
