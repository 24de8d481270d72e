"""The base of every load model: what they share is here, and only how they see the next steps is left to them.

A model is a function of the last `reach` values and of what its last fit found. It is fitted anew after a number of
values that depends on nothing else (and when drift is noticed), so learning in pieces equals learning at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from foretide.errors import NotEnoughHistoryError
from foretide.forecasting.forecaster import Floats, SeriesForecast, State
from foretide.forecasting.history import LIMIT, History, Mask, checked, windows
from foretide.forecasting.load.calibration import (
    REACH,
    WINDOW,
    Calibration,
    calibrate,
    movement,
    scaled_errors,
    uncalibrated,
)
from foretide.forecasting.load.drift import DriftDetector

HORIZONS = (1, 2, 3, 6, 12)
"""The steps ahead at which errors are kept, unless others are asked for."""

_CALIBRATE_EVERY = 16
_FIRST_FIT = 64


@dataclass(frozen=True, slots=True)
class Points:
    """Steps x horizons: the centre that errors are measured from, and the mean if the model has one of its own."""

    centre: Floats
    mean: Floats | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """The forecasts that were made after each of some values, at the model's horizons.

    Attributes:
        mean: Steps x horizons.
        quantiles: Steps x horizons x levels.
        awake: Whether the model had been fitted, and so has a say of its own.
    """

    mean: Floats
    quantiles: Floats
    awake: Mask


class LoadModel(ABC):
    """Learns values, is fitted from time to time, and surrounds its centre with the errors it has made."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Packages beyond NumPy that it imports once it is fitted."""
    refit_every: int = 0
    """Values between two fits once there are many; 0 for models that are not fitted."""
    corrects_mean: ClassVar[bool] = False
    """Whether the mean is the centre times what truth was to centre lately (for models that think in logarithms)."""

    def __init__(self, horizons: Sequence[int] = HORIZONS, seasons: Sequence[int] | None = None, seed: int = 0) -> None:
        """At which horizons errors are kept; known seasons in steps (None: found out at each fit); the seed."""
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

    # ---- what a model brings

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many of the last values a forecast depends on."""

    @abstractmethod
    def predict(self, seen: Floats, horizons: Sequence[int]) -> Points:
        """The centre (and mean) for each window of values (steps x reach) at each horizon."""

    def fit(self, values: Floats) -> None:  # noqa: B027 not every model has something to find out
        """Find out from the values so far whatever `predict` needs."""

    @property
    def awake(self) -> bool:
        """Whether it has a say of its own already."""
        return True

    def fitted(self) -> dict[str, Any]:
        """What the last fit found, as numbers, strings, lists and arrays."""
        return {}

    def restore_fitted(self, found: State) -> None:  # noqa: B027
        """Take over what an earlier fit found."""

    # ---- learning

    def learn(self, seen: Sequence[float | None]) -> None:
        """Take in what came next, oldest first; None is a gap."""
        self.advance(seen)

    def advance(self, seen: Sequence[float | None]) -> Issued:
        """Learn, and say what was forecast after each value: only from what was known by then."""
        values, known = self._history.bridge(*checked(seen))
        done, parts = 0, [self._nothing()]
        forced = False
        while done < len(values):
            if not forced:
                forced = self._drifted(values[done], known[done], self._last_centre())
            stop = done + self._until_fit()
            part, forced = self._part(values[done:stop], known[done:stop], refit=forced)
            parts.append(part)
            done += len(part.mean)
        dropped = self._history.forget()
        self._centres, self._units = self._centres[dropped:], self._units[dropped:]
        return Issued(*(np.concatenate([getattr(p, f) for p in parts]) for f in ("mean", "quantiles", "awake")))

    def retrain(self) -> None:
        """Fit now, from what was learnt; a model that can goes on from its last fit."""
        if len(self._history):
            self.fit(self._history.values[-LIMIT:])  # however the series was cut
            self.fits += 1

    def _part(self, values: Floats, known: Mask, *, refit: bool) -> tuple[Issued, bool]:
        """Learn values of which only the first may call for a fit; stops before a value at which drift is noticed."""
        first = len(self._history)
        if refit or self._due(self.count + 1):
            self._history.extend(values[:1], known[:1])
            self.retrain()
            self._history.extend(values[1:], known[1:])
        else:
            self._history.extend(values, known)
        points = self._points_from(first)
        stop = self._first_drift(values, known, points.centre)
        drifted = stop < len(values)
        if drifted:
            keep = first + stop
            self._history.values, self._history.known = self._history.values[:keep], self._history.known[:keep]
        mean = None if points.mean is None else points.mean[:stop]
        return self._issue(Points(points.centre[:stop], mean), first), drifted

    def _points_from(self, first: int) -> Points:
        return self.predict(windows(self._history.values, first, self.reach), self.horizons)

    def _issue(self, points: Points, first: int) -> Issued:
        """Keep the centres, and surround them with the errors that were known at each step."""
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
            mean[place:stop] = self._mean(Points(points.centre[place:stop], _rows(points.mean, place, stop)))
            self.count += stop - place
            place = stop
        return Issued(mean, quantiles, np.full(steps, self.awake))

    def _mean(self, points: Points) -> Floats:
        if points.mean is not None:
            return points.mean
        return points.centre * self._calibration.ratio if self.corrects_mean else points.centre

    def _calibrated(self, size: int) -> Calibration:
        """From the latest errors at each horizon among the first `size` values of the history."""
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
        """How many values from the next one on can be learnt before a fit is due at the one after them."""
        if not self.refit_every:
            return 1 << 30
        count = self.count + 1
        doubling = _FIRST_FIT << max(0, (count // _FIRST_FIT).bit_length())
        regular = (count // self.refit_every + 1) * self.refit_every
        regular = regular if regular >= _FIRST_FIT else -(-_FIRST_FIT // self.refit_every) * self.refit_every
        return min(doubling, regular) - count

    # ---- drift

    def _last_centre(self) -> float | None:
        return float(self._centres[-1, 0]) if len(self._centres) else None

    def _drifted(self, value: float, known: bool, centre: float | None) -> bool:  # noqa: FBT001 one of three facts
        if centre is None or not known or not self.refit_every:
            return False
        fired = self._drift.update(float(abs(np.log1p(value) - np.log1p(centre))))
        self.drifts += fired
        return fired

    def _first_drift(self, values: Floats, known: Mask, centre: Floats) -> int:
        """The place of the first value after the first one at which drift is noticed; else how many there are."""
        for place in range(1, len(values)):
            if self._drifted(values[place], bool(known[place]), float(centre[place - 1, 0])):
                return place
        return len(values)

    # ---- forecasting

    def forecast(self, horizon: int) -> SeriesForecast:
        """A distribution for each of the next `horizon` steps."""
        if not len(self._history):
            raise NotEnoughHistoryError(f"{self.name} has learnt nothing yet; ask again when there are values.")
        ahead = range(1, horizon + 1)
        last = len(self._history) - 1
        points = self.predict(windows(self._history.values, last, self.reach), ahead)
        unit = movement(windows(self._history.values, last, REACH))
        spread = self._spread(ahead)
        mean = points.mean if points.mean is not None else points.centre * (spread.ratio if self.corrects_mean else 1.0)
        return SeriesForecast(mean[0], spread.quantiles(points.centre, unit)[0])

    def _spread(self, ahead: range) -> Calibration:
        """The calibration at any horizon: between two known ones in between, beyond the last growing by its root."""
        known, steps = np.array(self.horizons, dtype=np.float64), np.array(ahead, dtype=np.float64)
        offsets = np.array([np.interp(steps, known, level) for level in self._calibration.offsets.T]).T
        grown = np.sqrt(np.maximum(steps / known[-1], 1.0))
        return Calibration(offsets * grown[:, None], np.interp(steps, known, self._calibration.ratio))

    # ---- keeping

    def state(self) -> State:
        """Everything a later process needs to go on from here."""
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
        """Go on from a kept state."""
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


def _rows(array: Floats | None, start: int, stop: int) -> Floats | None:
    return None if array is None else array[start:stop]
