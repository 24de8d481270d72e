"""The base of every load model. A model adds only how it predicts the next steps.

A model is a function of the last `reach` values and of its last fit. It is fitted again after a fixed number of values
and when drift is detected, so learning in pieces equals learning at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from foretide.errors import NotEnoughHistoryError
from foretide.forecasting.forecaster import Floats, SeriesForecast, State
from foretide.forecasting.history import (
    LIMIT,
    REACH,
    WINDOW,
    Calibration,
    DriftDetector,
    History,
    Mask,
    calibrate,
    checked,
    movement,
    scaled_errors,
    uncalibrated,
    windows,
)
from foretide.forecasting.load.registry import HORIZONS

_CALIBRATE_EVERY = 16
_FIRST_FIT = 64


@dataclass(frozen=True, slots=True)
class Points:
    """Steps x horizons: the centre that errors are measured from, and the mean where the model has a separate one."""

    centre: Floats
    mean: Floats | None = None

    def rows(self, start: int, stop: int) -> Points:
        """Those of some of the steps."""
        return Points(self.centre[start:stop], None if self.mean is None else self.mean[start:stop])


@dataclass(frozen=True, slots=True)
class Issued:
    """The forecasts made after each of some values, at the horizons of the model.

    Attributes:
        mean: Steps x horizons.
        quantiles: Steps x horizons x levels.
        ready: Whether the model was fitted by then.
    """

    mean: Floats
    quantiles: Floats
    ready: Mask


class LoadModel(ABC):
    """Learns values, is fitted from time to time, and derives quantiles from its past errors."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Packages beyond NumPy that a fit imports."""
    refit_every: int = 0
    """Values between two fits once there are many; 0 for models that are not fitted."""
    corrects_mean: ClassVar[bool] = False
    """Whether the mean is the centre times the recent ratio of truth to centre (for models of logarithms)."""

    def __init__(self, horizons: Sequence[int] = HORIZONS, seasons: Sequence[int] | None = None, seed: int = 0) -> None:
        """Track errors at some horizons; seasons are in steps (None: found by each fit)."""
        self.horizons = tuple(sorted({1, *horizons}))
        self.seasons = None if seasons is None else tuple(seasons)
        self.seed = seed
        self.count = 0
        self.drifts = 0
        self.fits = 0
        self._history = History()
        self._centres = np.empty((0, len(self.horizons)))
        self._units = np.empty(0)
        self._calibration = uncalibrated(self.horizons)
        self._drift = DriftDetector()

    # ---- what a model implements

    @property
    @abstractmethod
    def reach(self) -> int:
        """The number of latest values that a forecast depends on."""

    @abstractmethod
    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The centre (and mean) for each window of values (steps x reach) at each horizon."""

    def fit(self, values: Floats) -> None:  # noqa: B027 - some models have nothing to fit
        """Fit the parameters that `predict` uses."""

    @property
    def ready(self) -> bool:
        """Whether it forecasts anything but the last value yet."""
        return True

    def fitted(self) -> dict[str, Any]:
        """The fitted parameters, as numbers, strings, lists and arrays."""
        return {}

    def restore_fitted(self, found: State) -> None:  # noqa: B027
        """Restore fitted parameters."""

    # ---- learning

    def learn(self, seen: Sequence[float | None]) -> None:
        """Learn the next values, oldest first; None is a gap."""
        self.advance(seen)

    def know(self, seen: Sequence[float | None]) -> None:
        """Take earlier values in without forecasting each of them: for a fit, before any value is learnt."""
        values, known = self._history.bridge(*checked(seen))
        self._history.extend(values, known)
        self._centres = np.repeat(self._history.values[:, None], len(self.horizons), axis=1)
        self._units = np.ones(len(self._history))
        self.count += len(values)

    def advance(self, seen: Sequence[float | None]) -> Issued:
        """Learn, and return the forecasts made after each value, from what was known by then."""
        values, known = self._history.bridge(*checked(seen))
        done, parts = 0, [self._nothing()]
        forced = False
        while done < len(values):
            if not forced:
                centre = float(self._centres[-1, 0]) if len(self._centres) else None
                forced = self._drifted(values[done], known[done], centre)
            stop = done + self._until_fit()
            part, forced = self._part(values[done:stop], known[done:stop], refit=forced)
            parts.append(part)
            done += len(part.mean)
        dropped = self._history.forget()
        self._centres, self._units = self._centres[dropped:], self._units[dropped:]
        return Issued(*(np.concatenate([getattr(p, f) for p in parts]) for f in ("mean", "quantiles", "ready")))

    def retrain(self) -> None:
        """Fit now to the values learnt, from the last fit where the model can."""
        if len(self._history):
            self.fit(self._history.values[-LIMIT:])  # however the series was cut
            self.fits += 1

    def _part(self, values: Floats, known: Mask, *, refit: bool) -> tuple[Issued, bool]:
        """Learn values of which only the first may trigger a fit; stops before a value at which drift is detected."""
        first = len(self._history)
        if refit or self._due(self.count + 1):
            self._history.extend(values[:1], known[:1])
            self.retrain()
            self._history.extend(values[1:], known[1:])
        else:
            self._history.extend(values, known)
        points = self.predict(windows(self._history.values, first, self.reach), self.horizons)
        stop = self._first_drift(values, known, points.centre)
        drifted = stop < len(values)
        if drifted:
            keep = first + stop
            self._history.values, self._history.known = self._history.values[:keep], self._history.known[:keep]
        return self._issue(points.rows(0, stop), first), drifted

    def _issue(self, points: Points, first: int) -> Issued:
        """Store the centres, and add quantiles from the errors known at each step."""
        steps = len(points.centre)
        unit = movement(windows(self._history.values, first, REACH))
        self._centres = np.concatenate([self._centres, points.centre])
        self._units = np.concatenate([self._units, unit])
        quantiles = np.empty((steps, len(self.horizons), self._calibration.offsets.shape[1]))
        mean = np.empty_like(points.centre)
        place = 0
        while place < steps:
            if (self.count + 1) % _CALIBRATE_EVERY == 0:
                self._calibration = self._calibrated(first + place + 1)
            stop = min(steps, place + _CALIBRATE_EVERY - (self.count + 1) % _CALIBRATE_EVERY)
            quantiles[place:stop] = self._calibration.quantiles(points.centre[place:stop], unit[place:stop])
            mean[place:stop] = self._mean(points.rows(place, stop))
            self.count += stop - place
            place = stop
        return Issued(mean, quantiles, np.full(steps, self.ready))

    def _mean(self, points: Points) -> Floats:
        if points.mean is not None:
            return points.mean
        return points.centre * self._calibration.ratio if self.corrects_mean else points.centre

    def _calibrated(self, size: int) -> Calibration:
        """The calibration by the latest errors at each horizon among the first `size` values of the history."""
        values, known = self._history.values[:size], self._history.known[:size]
        scaled, truth, centre = [], [], []
        for place, horizon in enumerate(self.horizons):
            origins = np.arange(max(0, size - horizon - WINDOW), max(0, size - horizon))
            origins = origins[known[origins + horizon]]
            truth.append(values[origins + horizon])
            centre.append(self._centres[origins, place])
            scaled.append(scaled_errors(truth[-1], centre[-1], self._units[origins]))
        return calibrate(scaled, truth, centre, self.horizons)

    # ---- when to fit

    def _due(self, count: int) -> bool:
        """After 64 values, then whenever their number has doubled, then every `refit_every`."""
        if not self.refit_every or count < _FIRST_FIT:
            return False
        doubled = count % _FIRST_FIT == 0 and (count // _FIRST_FIT).bit_count() == 1 and count < self.refit_every
        return doubled or count % self.refit_every == 0

    def _until_fit(self) -> int:
        """The number of values that can be learnt before the next fit is due."""
        if not self.refit_every:
            return 1 << 30
        count = self.count + 1
        doubling = _FIRST_FIT << max(0, (count // _FIRST_FIT).bit_length())
        regular = (count // self.refit_every + 1) * self.refit_every
        regular = regular if regular >= _FIRST_FIT else -(-_FIRST_FIT // self.refit_every) * self.refit_every
        return min(doubling, regular) - count

    # ---- drift

    def _drifted(self, value: float, known: bool, centre: float | None) -> bool:  # noqa: FBT001
        if centre is None or not known or not self.refit_every:
            return False
        fired = self._drift.update(float(abs(np.log1p(value) - np.log1p(centre))))
        self.drifts += fired
        return fired

    def _first_drift(self, values: Floats, known: Mask, centre: Floats) -> int:
        """The index of the first value after the first one at which drift is detected; else the number of values."""
        for place in range(1, len(values)):
            if self._drifted(values[place], bool(known[place]), float(centre[place - 1, 0])):
                return place
        return len(values)

    # ---- forecasting

    def forecast(self, horizon: int) -> SeriesForecast:
        """A distribution for each of the next `horizon` steps."""
        if not len(self._history):
            raise NotEnoughHistoryError(f"the model '{self.name}' has not learnt any value yet")
        ahead = range(1, horizon + 1)
        last = len(self._history) - 1
        points = self.predict(windows(self._history.values, last, self.reach), ahead)
        unit = movement(windows(self._history.values, last, REACH))
        spread = self._spread(ahead)
        mean = points.mean if points.mean is not None else points.centre * (spread.ratio if self.corrects_mean else 1.0)
        return SeriesForecast(mean[0], spread.quantiles(points.centre, unit)[0])

    def _spread(self, ahead: range) -> Calibration:
        """The calibration at any horizon: interpolated, and growing by the square root beyond the last horizon."""
        known, steps = np.array(self.horizons, dtype=np.float64), np.array(ahead, dtype=np.float64)
        offsets = np.array([np.interp(steps, known, level) for level in self._calibration.offsets.T]).T
        grown = np.sqrt(np.maximum(steps / known[-1], 1.0))
        return Calibration(offsets * grown[:, None], np.interp(steps, known, self._calibration.ratio))

    # ---- state

    def state(self) -> State:
        """Everything that another process needs to continue from here."""
        return {
            "model": self.name,
            "horizons": list(self.horizons),
            "count": self.count,
            "drifts": self.drifts,
            "fits": self.fits,
            "values": self._history.values,
            "known": self._history.known,
            "centres": self._centres,
            "units": self._units,
            "offsets": self._calibration.offsets,
            "ratio": self._calibration.ratio,
            "drift": self._drift.state(),
            "fitted": self.fitted(),
        }

    def restore(self, state: State) -> None:
        """Continue from a saved state."""
        self.horizons = tuple(state["horizons"])
        self.count, self.drifts, self.fits = int(state["count"]), int(state["drifts"]), int(state["fits"])
        self._history = History(np.array(state["values"]), np.array(state["known"], dtype=np.bool_))
        self._centres, self._units = np.array(state["centres"]), np.array(state["units"])
        self._calibration = Calibration(np.array(state["offsets"]), np.array(state["ratio"]))
        self._drift.restore(state["drift"])
        self.restore_fitted(state["fitted"])

    def _nothing(self) -> Issued:
        shape = (0, len(self.horizons))
        return Issued(np.empty(shape), np.empty((*shape, self._calibration.offsets.shape[1])), np.empty(0, np.bool_))
