"""The live forecast of the load of one spout, by an ensemble that learns every step and is never fitted here.

Fits are slow and run in another process:

    python -m foretide.runtime.forecasts.load FOLDER NICENESS

`request.json` in the folder says what to fit; the ensemble is saved beside it in `model`, and its forecasts of the
held-out values in `forecasts.npy`. A process, not a thread: a fit holds Python's lock and cannot be interrupted, and a
process can be given low priority and be killed. Between two fits the ensemble goes on learning weights and intervals.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from foretide.control.world.world import Forecast, ForecastPoint
from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import LEVELS, Floats, SeriesForecast, rmse
from foretide.forecasting.history import DriftDetector
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.load.registry import ENSEMBLE, LAST_VALUE, make_ensemble
from foretide.forecasting.saved import ModelCard, save_model
from foretide.forecasting.series import TimeSteps, mean_of
from foretide.runtime.processes import end_with_parent
from foretide.settings.forecasts import ForecastSettings

_MIN_PAIRS = 10
_LEVELS = tuple(float(level) for level in LEVELS)


@dataclass(frozen=True, slots=True)
class LoadView:
    """The forecast after a step, for readers in other threads.

    Attributes:
        last: The number of the step that was learnt last.
        forecast: Twice as long as the farthest horizon, so that it serves until the next step is whole.
        by: The model with the highest weight where the ensemble is better than the last value, else the last value.
    """

    last: int
    forecast: SeriesForecast
    by: str

    def at(self, at: float, settings: ForecastSettings) -> Forecast | None:
        """The forecast at a time; None if the last step is too old."""
        points = []
        for seconds in settings.horizons:
            place = max(int((at + seconds) // settings.step) - self.last - 1, 0)
            if place >= self.forecast.horizon:
                return None
            quantiles = dict(zip(_LEVELS, self.forecast.quantiles[place].tolist(), strict=True))
            points.append(ForecastPoint(seconds, float(self.forecast.mean[place]), quantiles))
        return Forecast(self.by, tuple(points))


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What a fit process is to fit: the values, of which the last `held_out` only score the new ensemble."""

    spout: str
    values: list[float | None]
    held_out: int
    members: tuple[str, ...]
    horizons: tuple[int, ...]
    seasons: tuple[int, ...] | None
    seed: int
    step: float

    def write(self, folder: Path) -> None:
        """Write it where `main` reads it."""
        (folder / "request.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


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
        self.steps: TimeSteps[float] = TimeSteps(settings.step, close_early=True)
        names, horizons = settings.member_names, settings.steps_ahead
        self.ensemble = without_fits(make_ensemble(horizons, settings.season_steps, settings.seed, names))
        self.values: deque[float | None] = deque(maxlen=settings.steps(settings.max_history))
        self.learnt = 0
        self.drifted = False
        self._means: deque[Floats] = deque(maxlen=settings.steps(settings.max_held_out))
        self._drift = DriftDetector()

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
        if self.steps.last is None or not self.values:
            return None
        ahead = self.settings.steps_ahead
        reports = [report for report in map(self.ensemble.explain, ahead) if not report.mean_falls_back]
        leaders = [report.members[0].name for report in reports if report.members[0].name != LAST_VALUE]
        by = leaders[0] if leaders else LAST_VALUE
        return LoadView(self.steps.last, self.ensemble.forecast(2 * max(ahead)), by)

    # ---- fitting

    @property
    def enough(self) -> bool:
        """Whether there is enough history for a fit, and enough forecasts to compare it with."""
        known = sum(value is not None for value in self.values)
        return known >= self.settings.steps(self.settings.min_history) and len(self._means) >= self._held_out()

    def _held_out(self) -> int:
        share = math.ceil(self.settings.held_out * len(self.values))
        return max(_MIN_PAIRS, min(share, self.settings.steps(self.settings.max_held_out)))

    def fit_request(self) -> FitRequest:
        """A fit to all values, from the first known one."""
        settings, values = self.settings, list(self.values)
        first = next(place for place, value in enumerate(values) if value is not None)
        return FitRequest(
            self.spout, values[first:], self._held_out(), settings.member_names, settings.steps_ahead,
            settings.season_steps, settings.seed, settings.step,
        )  # fmt: skip

    def adopt_if_better(self, candidate: Ensemble, means: Floats, learnt: int) -> FitOutcome:
        """Use a newly fitted ensemble if it did better on the held-out values.

        Args:
            candidate: It has learnt all values that were known when its fit was requested.
            means: Its forecasts after each of the held-out values, by horizon.
            learnt: The value of `learnt` when its fit was requested.
        """
        since = self.learnt - learnt
        end = len(self._means) - since
        own = np.array(list(self._means)[max(0, end - len(means)) : end])
        shared = min(len(own), len(means))
        end = len(self.values) - since
        truth = list(self.values)[end - shared : end]
        own, theirs = own[len(own) - shared :], means[len(means) - shared :]
        before, after = (_forecast_rmse(truth, each, self.ensemble.horizons) for each in (own, theirs))
        if not after < before:
            return FitOutcome(before, after, replaced=False)
        self.adopt(candidate, theirs, since)
        return FitOutcome(before, after, replaced=True)

    def adopt(self, candidate: Ensemble, means: Floats, since: int) -> None:
        """Use another ensemble, after it has learnt the `since` latest values too."""
        self.ensemble = without_fits(candidate)
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
            self.ensemble.count, last_step=self.steps.last,
        )  # fmt: skip

    @classmethod
    def restored(cls, ensemble: object, card: ModelCard, settings: ForecastSettings) -> LiveLoadForecast:
        """Continue with a saved ensemble. Raises `ModelFolderError` if it was made with other settings."""
        load = cls(card.series, settings)
        if not isinstance(ensemble, Ensemble) or card.last_step is None:
            raise ModelFolderError(f"the model of '{card.series}' is not one of a live forecast")
        expected = (load.ensemble.horizons, settings.season_steps, settings.step, _names(load.ensemble))
        if (ensemble.horizons, card.seasons, card.step_seconds, _names(ensemble)) != expected:
            raise ModelFolderError(f"the model of '{card.series}' was made with other forecast settings")
        load.ensemble = without_fits(ensemble)
        state = load.ensemble.members[0].state()
        values = zip(state["values"].tolist(), state["known"].tolist(), strict=True)
        load.values.extend(value if known else None for value, known in values)
        load.learnt = len(load.values)
        load.steps.continue_from(card.last_step)
        return load


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


def without_fits(ensemble: Ensemble) -> Ensemble:
    """The same ensemble, whose members are no longer fitted while they learn."""
    for member in ensemble.members:
        member.refit_every = 0
    return ensemble


# ---- the fit process


def fit_command(folder: Path, niceness: int) -> Sequence[str]:
    """The command that runs a fit."""
    return [sys.executable, "-m", "foretide.runtime.forecasts.load", str(folder), str(niceness)]


def fit(ensemble: Ensemble, values: Sequence[float | None], held_out: int) -> Floats:
    """Fit a new ensemble to all but the last `held_out` values; returns its forecasts after each of those."""
    ensemble.learn(values[:-held_out])
    ensemble.retrain()
    return without_fits(ensemble).advance(values[-held_out:]).mean


def main(folder: Path, niceness: int) -> None:
    """Run the fit that `request.json` asks for."""
    os.nice(niceness)
    request = TypeAdapter(FitRequest).validate_json((folder / "request.json").read_bytes())
    ensemble = make_ensemble(request.horizons, request.seasons, request.seed, request.members)
    means = fit(ensemble, request.values, request.held_out)
    card = ModelCard(
        ENSEMBLE, request.spout, request.step, ensemble.horizons, request.seasons, request.seed, ensemble.count
    )
    save_model(folder / "model", ensemble, card)
    np.save(folder / "forecasts.npy", means, allow_pickle=False)


if __name__ == "__main__":
    end_with_parent(Path(sys.argv[1]))
    main(Path(sys.argv[1]), int(sys.argv[2]))
