"""Keeps book on forecasts: what was foreseen for now, how far off it was, and who has lost their vote.

A forecast is held against the simplest there is: that nothing changes. One that has done worse than the last value
loses its vote, and earns it back by doing better. Errors fade, so an old blunder is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded
from foretide.control.world.forecasts import Forecasts
from foretide.metrics.snapshot import Key, Snapshot

_MOST_WAITING = 64


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
    """A value foreseen for a moment, and the value that was known when it was."""

    due: float
    value: float
    last: float


@dataclass(frozen=True, slots=True)
class Score:
    """Faded absolute errors of a forecast and of the last value, and the faded value itself."""

    error: float
    naive: float
    level: float
    trials: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """Predictions that are not due yet, scores, and what had been foreseen for the present moment."""

    waiting: Mapping[Key, tuple[Prediction, ...]] = field(default_factory=dict)
    scores: Mapping[Key, Score] = field(default_factory=dict)
    due: Mapping[Key, float] = field(default_factory=dict)

    @property
    def losers(self) -> frozenset[Key]:
        """Those that have lost their vote."""
        return frozenset(key for key, score in self.scores.items() if score.lost)


def enter(book: ForecastScores, settings: VoteSettings, snapshot: Snapshot, foresight: Forecasts) -> ForecastScores:
    """Settle what is due, judge it, and enter what is foreseen now."""
    waiting: dict[Key, tuple[Prediction, ...]] = {}
    scores: dict[Key, Score] = {}
    due: dict[Key, float] = {}
    for key, outlook in foresight.outlooks.items():
        figure = snapshot.figures.get(key)
        kept = book.waiting.get(key, ())
        score = book.scores.get(key)
        if figure is not None:
            value, measured = figure
            ripe = [each for each in kept if each.due <= measured]
            kept = tuple(each for each in kept if each.due > measured)
            if ripe:
                due[key] = ripe[-1].value
                score = _scored(settings, score, ripe[-1], value)
            point = outlook.points[0]
            kept = (*kept, Prediction(snapshot.at + point.seconds, point.mean, value))[-_MOST_WAITING:]
        waiting[key] = kept
        if score is not None:
            scores[key] = score
    return ForecastScores(waiting, scores, due)


def _scored(settings: VoteSettings, before: Score | None, prediction: Prediction, value: float) -> Score:
    error, naive = abs(value - prediction.value), abs(value - prediction.last)
    if before is None:
        return Score(error, naive, abs(value), 1)
    past, new = settings.smoothing, 1 - settings.smoothing
    error, naive = past * before.error + new * error, past * before.naive + new * naive
    level, trials = past * before.level + new * abs(value), before.trials + 1
    allowed = max(naive * (1 if before.lost else 1 + settings.tolerance), settings.negligible * level)
    return Score(error, naive, level, trials, lost=trials >= settings.min_forecasts and error > allowed + 1e-12)
