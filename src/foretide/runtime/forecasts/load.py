"""The live forecast of the load of one spout in one step, by an ensemble that is never fitted here.

It learns every step. Fits run in another process (`load_fit`); between two of them it learns weights and
intervals.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foretide.control.world.world import Forecast, ForecastPoint, Record
from foretide.errors import ModelFolderError
from foretide.forecasting.events import Event, announced_at, factor_at
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast, rmse
from foretide.forecasting.history import DriftDetector
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import ENSEMBLE, LAST_VALUE, make_ensemble
from foretide.forecasting.saved import ModelCard
from foretide.forecasting.series import TimeSteps, mean_of
from foretide.runtime.forecasts.load_fit import FitRequest, without_fits
from foretide.settings.forecasts import ForecastSettings

_MIN_PAIRS = 10
_ALL_EVERY = 8
"""Fits after which models that were left out are tried again."""

_LEVELS = tuple(float(level) for level in LEVELS)


@dataclass(frozen=True, slots=True)
class LoadView:
    """The forecast after a step, for readers in other threads.

    Attributes:
        last: The number of the step that was learnt last.
        forecast: Twice as long as the farthest horizon, so that it serves until the next step is whole.
        by: The model with the highest weight where the ensemble is better than the last value, else the last value.
        records: By horizon in steps, how the ensemble did on the values on which it was scored when it was fitted.
    """

    last: int
    forecast: SeriesForecast
    by: str
    records: Mapping[int, Record]

    def at(self, at: float, settings: ForecastSettings, events: Sequence[Event] = ()) -> Forecast | None:
        """The forecast at a time, with what was announced; None if the last step is too old."""
        points = [self._point(at, seconds, settings.step, events) for seconds in self._moments(at, settings, events)]
        known = [
            replace(each, record=self.records.get(round(each.seconds / settings.step)))
            for each in points
            if each is not None
        ]
        return Forecast(self.by, tuple(known)) if len(known) == len(points) else None

    def _moments(self, at: float, settings: ForecastSettings, events: Sequence[Event]) -> list[float]:
        """The horizons, and the first and the last step of each event before the last of them."""
        ends = [moment - at for each in events for moment in (each.start, each.start + each.seconds - settings.step)]
        return sorted(
            {*settings.horizons, *(each for each in ends if settings.horizons[0] < each < settings.horizons[-1])}
        )

    def _point(self, at: float, seconds: float, step: float, events: Sequence[Event]) -> ForecastPoint | None:
        place = max(int((at + seconds) // step) - self.last - 1, 0)
        if place >= self.forecast.horizon:
            return None
        factor = factor_at(events, at + seconds)
        values = (factor * self.forecast.quantiles[place]).tolist()
        return ForecastPoint(
            seconds, factor * float(self.forecast.mean[place]), dict(zip(_LEVELS, values, strict=True)),
            announced=announced_at(events, at + seconds), by=self.by,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """The RMSE of the ensemble in use and of the new one, over the same forecasts, and whether it was replaced."""

    before: float
    after: float
    replaced: bool


class LiveLoadForecast:
    """The ensemble of one spout. Not thread-safe."""

    def __init__(self, spout: str, settings: ForecastSettings) -> None:
        self.spout, self.settings = spout, settings
        longest = settings.steps(settings.max_history)
        self.steps: TimeSteps[float] = TimeSteps(settings.step, longest, close_early=True)
        names, horizons = settings.member_names, settings.steps_ahead
        self.ensemble = without_fits(make_ensemble(horizons, settings.season_steps, settings.seed, names))
        self.values: deque[float | None] = deque(maxlen=settings.steps(settings.max_history))
        self.learnt = 0
        self.drifted = False
        self.fitted = False
        self.records: Mapping[int, Record] = {}
        self.left_out: frozenset[str] = frozenset()
        self._until_all = 0
        self._unlearnt = False
        self._means: deque[Floats] = deque(maxlen=settings.steps(settings.max_held_out))
        self._drift = DriftDetector()

    @classmethod
    def of_history(cls, spout: str, settings: ForecastSettings, values: Sequence[float | None]) -> LiveLoadForecast:
        """One that knows values for its first fit, and has learnt none of them."""
        load = cls(spout, settings)
        load.values.extend(values)
        load.learnt, load._unlearnt = len(values), True
        return load

    @classmethod
    def given(cls, spout: str, settings: ForecastSettings, ensemble: Ensemble, card: ModelCard) -> LiveLoadForecast:
        """One that continues with a model that was trained elsewhere. A step without a time ends now."""
        load = cls(spout, settings)
        load._continue(ensemble, card.last_step or 0)
        load.records = _known({steps: _record_in(card, steps) for steps in ensemble.horizons})
        load.fitted = True
        return load

    # ---- learning

    def take(self, samples: Iterable[tuple[float, float]]) -> bool:
        """Learn samples (time, load), oldest first; returns whether a step became whole."""
        valid = [(at, load) for at, load in samples if 0 <= load < math.inf]
        return self._learn_steps([step for at, load in valid for step in self.steps.add(at, load)])

    def pass_time(self, now: float) -> bool:
        """Returns whether a step became whole because its time is over."""
        return self._learn_steps(self.steps.pass_time(now))

    def _learn_steps(self, whole: Sequence[list[float] | None]) -> bool:
        self.learn([mean_of(step) for step in whole])
        return bool(whole)

    def learn(self, values: Sequence[float | None]) -> None:
        """Learn a value for each step, and keep the forecast after each. Gaps before the first value are left out."""
        first = 0
        while not self.values and first < len(values) and values[first] is None:
            first += 1
        steps = values[first:]
        if not steps:
            return
        for value, mean in zip(steps, self.ensemble.advance(steps).mean, strict=True):
            if value is not None and self._means:
                self.drifted |= self._drift.update(_log_error(value, self._means[-1]))
            self.values.append(value)
            self._means.append(mean)
        self.learnt += len(steps)

    # ---- forecasting

    def view(self) -> LoadView | None:
        """The present forecast; None before anything was learnt."""
        if self.steps.last is None or not self.ensemble.count:
            return None
        ahead = self.settings.steps_ahead
        reports = [report for report in map(self.ensemble.explain, ahead) if not report.mean_falls_back]
        leaders = [report.members[0].name for report in reports if report.members[0].name != LAST_VALUE]
        by = leaders[0] if leaders else LAST_VALUE
        return LoadView(self.steps.last, self.ensemble.forecast(2 * max(ahead)), by, self.records)

    # ---- fitting

    @property
    def enough(self) -> bool:
        """Whether there is enough history for a fit, and enough forecasts to compare it with."""
        known = sum(value is not None for value in self.values)
        scored = self._unlearnt or len(self._means) >= self._held_out()
        return known >= self.settings.steps(self.settings.min_history) and scored

    def _held_out(self) -> int:
        share = math.ceil(self.settings.held_out * len(self.values))
        return max(_MIN_PAIRS, min(share, self.settings.steps(self.settings.max_held_out)))

    def fit_request(self) -> FitRequest:
        """A fit to all values, from the first known one, of all models that are not left out, or it is time to try."""
        settings, values = self.settings, list(self.values)
        first = next(place for place, value in enumerate(values) if value is not None)
        out = self.left_out if self._until_all else frozenset[str]()
        self._until_all = (self._until_all or _ALL_EVERY) - 1
        names = tuple(name for name in settings.member_names if name not in out)
        return FitRequest(
            self.spout, values[first:], self._held_out(), names, settings.steps_ahead,
            settings.season_steps, settings.seed, settings.step, settings.min_gain,
        )  # fmt: skip

    def leave_out(self, asked: Sequence[str], names: Iterable[str]) -> None:
        """Note which of the models that a fit was asked for were not worth it."""
        self.left_out = (self.left_out - {*asked}) | {*names}

    def adopt_if_better(self, candidate: Ensemble, means: Floats, learnt: int) -> FitOutcome:
        """Use a newly fitted ensemble if it did better on the held-out values.

        Args:
            candidate: It has learnt all values that were known when its fit was requested.
            means: Its forecasts after each of the held-out values, by horizon.
            learnt: The value of `learnt` when its fit was requested.
        """
        since = self.learnt - learnt
        records = self._records_of(means, since)
        if self._unlearnt:
            after = _forecast_rmse(self._truth(len(means), since), means, candidate.horizons)
            self.adopt(candidate, means, since, records)
            return FitOutcome(math.inf, after, replaced=True)
        end = len(self._means) - since
        own = np.array(list(self._means)[max(0, end - len(means)) : end])
        shared = min(len(own), len(means))
        truth = self._truth(shared, since)
        own, theirs = own[len(own) - shared :], means[len(means) - shared :]
        before, after = (_forecast_rmse(truth, each, self.ensemble.horizons) for each in (own, theirs))
        if not (after < before or (after == before and not self.fitted)):
            return FitOutcome(before, after, replaced=False)
        self.adopt(candidate, theirs, since, records)
        return FitOutcome(before, after, replaced=True)

    def _truth(self, count: int, since: int) -> list[float | None]:
        """That many values before the `since` latest."""
        end = len(self.values) - since
        return list(self.values)[max(end - count, 0) : end]

    def _records_of(self, means: Floats, since: int) -> Mapping[int, Record]:
        """How forecasts made after each of the held-out values did, by horizon."""
        truth = self._truth(len(means), since)
        means = means[len(means) - len(truth) :]
        return _known({h: record_of(truth, means[:, place], h) for place, h in enumerate(self.ensemble.horizons)})

    def adopt(
        self, candidate: Ensemble, means: Floats, since: int, records: Mapping[int, Record] | None = None
    ) -> None:
        """Use another ensemble, after it has learnt the `since` latest values too."""
        self.ensemble, self.fitted, self._unlearnt = without_fits(candidate), True, False
        self.records = self.records if records is None else records
        later = list(self.values)[len(self.values) - since :]
        issued = self.ensemble.advance(later).mean if later else np.empty((0, means.shape[1]))
        self._means = deque([*means, *issued], maxlen=self._means.maxlen)
        self._drift, self.drifted = DriftDetector(), False
        for value, mean in zip(list(self.values)[1 - len(self._means) :], self._means, strict=False):
            if value is not None:
                self._drift.update(_log_error(value, mean))

    # ---- saving

    def card(self) -> ModelCard:
        """The description of the saved ensemble."""
        settings = self.settings
        return ModelCard(
            ENSEMBLE, self.spout, settings.step, self.ensemble.horizons, settings.season_steps, settings.seed,
            self.ensemble.count, last_step=self.steps.last, fitted=self.fitted,
            records={str(steps): record for steps, record in self.records.items()},
        )  # fmt: skip

    @classmethod
    def restored(cls, ensemble: object, card: ModelCard, settings: ForecastSettings) -> LiveLoadForecast:
        """Continue with a saved ensemble. Raises `ModelFolderError` if it was made with other settings."""
        load = cls(card.series, settings)
        if not isinstance(ensemble, Ensemble) or card.last_step is None:
            raise ModelFolderError(f"the model of '{card.series}' is not one of a live forecast")
        expected = (load.ensemble.horizons, settings.season_steps, settings.step)
        known = {*_names(ensemble)} <= {*settings.member_names}
        if (ensemble.horizons, card.seasons, card.step_seconds) != expected or not known:
            raise ModelFolderError(f"the model of '{card.series}' was made with other forecast settings")
        load._continue(ensemble, card.last_step)
        load.fitted = card.fitted
        load.records = {int(steps): record for steps, record in card.records.items()}
        return load

    def _continue(self, ensemble: Ensemble, last: int) -> None:
        """Use an ensemble that has learnt the values up to a step."""
        self.ensemble = without_fits(ensemble)
        state = self.ensemble.members[0].state()
        values = zip(state["values"].tolist(), state["known"].tolist(), strict=True)
        self.values.extend(value if known else None for value, known in values)
        self.learnt = len(self.values)
        self.steps.continue_from(last)


def _known(records: Mapping[int, Record | None]) -> Mapping[int, Record]:
    return {steps: record for steps, record in records.items() if record is not None}


def _record_in(card: ModelCard, steps: int) -> Record | None:
    """The root mean squared errors of a trained model and of the last value, on values that it had not learnt."""
    scores = card.scores.get(str(steps), {})
    own, relative = scores.get("rmse"), scores.get("relative_rmse")
    return None if own is None or not relative else Record(own, own / relative)


def record_of(truth: Sequence[float | None], means: Floats, steps: int) -> Record | None:
    """The mean absolute error of forecasts `steps` ahead made after each value, and of the last value; None if too few.

    >>> record_of([float(i) for i in range(20)], np.arange(20.0) + 1.0, 2)
    Record(error=1.0, naive=2.0)
    """
    values = np.array([math.nan if value is None else value for value in truth])
    known = ~np.isnan(values[steps:] + values[:-steps])
    if known.sum() < _MIN_PAIRS:
        return None
    later, last = values[steps:][known], values[:-steps][known]
    return Record(float(np.abs(means[:-steps][known] - later).mean()), float(np.abs(last - later).mean()))


def _forecast_rmse(truth: Sequence[float | None], means: Floats, horizons: Sequence[int]) -> float:
    """The RMSE of the forecasts made after each value of the values after it; infinite where there are too few.

    >>> _forecast_rmse([1.0] * 20, np.full((20, 1), 3.0), (1,))
    2.0
    """
    values = np.array([math.nan if value is None else value for value in truth])
    usable = [(place, steps) for place, steps in enumerate(horizons) if steps < len(values)]
    expected = np.concatenate([np.empty(0), *(means[:-steps, place] for place, steps in usable)])
    later = np.concatenate([np.empty(0), *(values[steps:] for _, steps in usable)])
    known = ~np.isnan(later)
    return rmse(expected[known], later[known]) if known.sum() >= _MIN_PAIRS else math.inf


def _log_error(value: float, mean: Floats) -> float:
    """The error at the nearest horizon, in logarithms, as models measure it for drift."""
    return abs(math.log1p(value) - math.log1p(max(float(mean[0]), 0.0)))


def _names(ensemble: Ensemble) -> list[str]:
    return [member.name for member in ensemble.members]
