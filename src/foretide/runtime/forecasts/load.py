"""The load of one spout, foreseen: a mix that learns every step and is never fitted here.

Fits are slow, and happen in another process (`seer_training`). Between two of them the mix goes on learning: whom it
trusts, how wide its intervals are, what came last. What it said is kept, so that a new one can be held against it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from foretide.control.world.forecasts import Forecast, ForecastPoint
from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast
from foretide.forecasting.load.drift import DriftDetector
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import MODELS, make_mix
from foretide.forecasting.saved import ModelCard
from foretide.runtime.forecasts.load_steps import TimeSteps
from foretide.settings.forecasts import ForecastSettings

_FEWEST_PAIRS = 10
_LEVELS = tuple(float(level) for level in LEVELS)
_LAST_VALUE = next(iter(MODELS))


@dataclass(frozen=True, slots=True)
class LoadView:
    """What is foreseen behind a step: a distribution for each of the steps after it, who leads, and whether it votes.

    Attributes:
        last: The number of the step that was learnt last.
        forecast: Twice as far as is asked for, so that it serves until the next step is whole.
        by: The model that leads where the mix knows better than the last value.
        may_vote: Whether there is such a horizon.
    """

    last: int
    forecast: SeriesForecast
    by: str
    may_vote: bool

    def outlook(self, at: float, settings: ForecastSettings) -> Forecast | None:
        """What is foreseen at a time; None if the last step is too long ago."""
        points = []
        for seconds in settings.horizons:
            place = max(int((at + seconds) // settings.step) - self.last - 1, 0)
            if place >= self.forecast.horizon:
                return None
            quantiles = dict(zip(_LEVELS, self.forecast.quantiles[place].tolist(), strict=True))
            points.append(ForecastPoint(seconds, float(self.forecast.mean[place]), quantiles))
        return Forecast(self.by, tuple(points), self.may_vote)


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """How a new model did against the one in place: root mean squared errors, both over the same forecasts."""

    before: float
    after: float
    replaced: bool


class LiveLoadForecast:
    """One spout's mix and what it needs to go on. Not for several threads at a time."""

    def __init__(self, spout: str, settings: ForecastSettings) -> None:
        self.spout, self.settings = spout, settings
        self.grid = TimeSteps(spout, settings.step)
        self.mix = _unfitted(settings)
        self.values: deque[float | None] = deque(maxlen=settings.steps(settings.max_history))
        self.learnt = 0
        self.drifted = False
        self._said: deque[Floats] = deque(maxlen=settings.steps(settings.max_held_out))
        self._drift = DriftDetector()

    # ---- learning

    def take(self, measured: Iterable[tuple[float, float]]) -> bool:
        """Take in what was measured (when, how much), oldest first; whether a step became whole."""
        whole = [value for at, load in measured for value in self.grid.add(at, load)]
        self.learn(whole)
        return bool(whole)

    def pass_time(self, now: float) -> bool:
        """Whether a step became whole because its time is over."""
        whole = self.grid.pass_time(now)
        self.learn(whole)
        return bool(whole)

    def learn(self, whole: Sequence[float | None]) -> None:
        """Learn steps, and keep what the mix said after each. Gaps before the very first value are left out."""
        first = 0
        while not self.values and first < len(whole) and whole[first] is None:
            first += 1
        steps = whole[first:]
        if not steps:
            return
        said = self.mix.advance(steps).mean
        for value, each in zip(steps, said, strict=True):
            self._watch(value)
            self.values.append(value)
            self._said.append(each)
        self.learnt += len(steps)

    def _watch(self, value: float | None) -> None:
        """Notice errors one step ahead that stay larger than they used to be."""
        if value is not None and self._said:
            self.drifted |= self._drift.update(_error(value, self._said[-1]))

    # ---- foreseeing

    def view(self) -> LoadView | None:
        """What is foreseen now; None before anything was learnt."""
        if self.grid.last is None or not self.values:
            return None
        ahead = self.settings.steps_ahead
        known = [trust for trust in map(self.mix.explain, ahead) if not trust.mean_falls_back]
        leaders = [trust.experts[0].name for trust in known if trust.experts[0].name != _LAST_VALUE]
        by = leaders[0] if leaders else _LAST_VALUE
        return LoadView(self.grid.last, self.mix.forecast(2 * max(ahead)), by, bool(leaders))

    # ---- fitting anew

    @property
    def enough(self) -> bool:
        """Whether there is enough history for a fit, and enough was said to compare it with."""
        known = sum(value is not None for value in self.values)
        return known >= self.settings.steps(self.settings.min_history) and len(self._said) >= self._held()

    def _held(self) -> int:
        share = math.ceil(self.settings.held_out * len(self.values))
        return max(_FEWEST_PAIRS, min(share, self.settings.steps(self.settings.max_held_out)))

    def lesson(self) -> tuple[list[float | None], int]:
        """What to fit to, beginning with a known value, and how many of its last values to hold back."""
        values = list(self.values)
        first = next(place for place, value in enumerate(values) if value is not None)
        return values[first:], self._held()

    def settle(self, rival: Ensemble, said: Floats, learnt: int) -> FitOutcome:
        """Put a newly fitted mix in place if it did better on what was held back.

        Args:
            rival: It has learnt all that was known when it was started.
            said: What it forecast after each of the values held back, by horizon.
            learnt: How much had been learnt here when it was started.
        """
        since = self.learnt - learnt
        values = list(self.values)[len(self.values) - since - len(said) : len(self.values) - since]
        own = np.array(list(self._said)[max(0, len(self._said) - since - len(said)) : len(self._said) - since])
        shared = min(len(own), len(said))
        truth, own, theirs = values[len(values) - shared :], own[len(own) - shared :], said[len(said) - shared :]
        before, after = (rmse(truth, each, self.mix.horizons) for each in (own, theirs))
        if not after < before:
            return FitOutcome(before, after, replaced=False)
        self._replace(rival, theirs, since)
        return FitOutcome(before, after, replaced=True)

    def _replace(self, rival: Ensemble, said: Floats, since: int) -> None:
        self.mix = light(rival)
        later = list(self.values)[len(self.values) - since :]
        issued = self.mix.advance(later).mean if later else np.empty((0, said.shape[1]))
        self._said = deque([*said, *issued], maxlen=self._said.maxlen)
        self._drift, self.drifted = DriftDetector(), False
        for value, told in zip(list(self.values)[1 - len(self._said) :], self._said, strict=False):
            if value is not None:
                self._drift.update(_error(value, told))

    # ---- keeping

    def card(self) -> ModelCard:
        """What a saved model says of itself."""
        settings = self.settings
        return ModelCard(
            Ensemble.name, self.spout, settings.step, self.mix.horizons, settings.season_steps, settings.seed,
            self.mix.count, last_step=self.grid.last,
        )  # fmt: skip

    @classmethod
    def restored(cls, mix: object, card: ModelCard, settings: ForecastSettings) -> LiveLoadForecast:
        """Go on from a saved mix. Raises `ModelFolderError` where it was made with other settings."""
        seer = cls(card.series, settings)
        wanted = (seer.mix.horizons, settings.season_steps, settings.step, [each.name for each in seer.mix.experts])
        if not isinstance(mix, Ensemble) or card.last_step is None:
            raise ModelFolderError(f"the model of '{card.series}' is none that a seer has saved.")
        if (mix.horizons, card.seasons, card.step_seconds, [each.name for each in mix.experts]) != wanted:
            raise ModelFolderError(f"the model of '{card.series}' was made with other settings of the seer.")
        seer.mix = light(mix)
        kept = seer.mix.experts[0].state()
        values = zip(kept["values"].tolist(), kept["known"].tolist(), strict=True)
        seer.values.extend(value if known else None for value, known in values)
        seer.learnt = len(seer.values)
        seer.grid.go_on_from(card.last_step)
        return seer


def rmse(truth: Sequence[float | None], said: Floats, horizons: Sequence[int]) -> float:
    """Over the forecasts that were made of these values after one of them; infinite where there are too few.

    >>> rmse([1.0] * 20, np.full((20, 1), 3.0), (1,))
    2.0
    """
    known = np.array([value is not None for value in truth], dtype=np.bool_)
    values = np.array([0.0 if value is None else value for value in truth])
    errors = [
        (said[:-steps, place] - values[steps:])[known[steps:]]
        for place, steps in enumerate(horizons)
        if steps < len(values)
    ]
    wrong = np.concatenate([np.empty(0), *errors])
    return float(np.sqrt(np.mean(wrong**2))) if len(wrong) >= _FEWEST_PAIRS else math.inf


def _error(value: float, told: Floats) -> float:
    """Of the nearest horizon, in logarithms, as models watch themselves for drift."""
    return abs(math.log1p(value) - math.log1p(max(float(told[0]), 0.0)))


def light(mix: Ensemble) -> Ensemble:
    """The same mix, whose models are no longer fitted while they learn."""
    for expert in mix.experts:
        expert.refit_every = 0
    return mix


def _unfitted(settings: ForecastSettings) -> Ensemble:
    kinds = [MODELS[name] for name in settings.expert_names]
    return light(make_mix(settings.steps_ahead, settings.season_steps, settings.seed, kinds))
