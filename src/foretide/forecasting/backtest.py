"""Backtests by rolling origin: a forecast from every step of the last part of a series, from earlier values only."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from foretide.errors import NotEnoughHistoryError
from foretide.forecasting.forecaster import MEDIAN, Floats, Scores, score
from foretide.forecasting.load.base import Issued, LoadModel
from foretide.forecasting.load.ensemble import Ensemble

Progress = Callable[[float], None]
Clock = Callable[[], float]

_CHUNK = 250
_MIN_SCORED = 20


@dataclass(frozen=True, slots=True)
class Horizon:
    """Forecasts `steps` ahead of the scored values: their positions, mean, quantiles, truth, and last known value."""

    steps: int
    places: Floats
    mean: Floats
    quantiles: Floats
    truth: Floats
    last: Floats

    @property
    def median(self) -> Floats:
        """The median of each."""
        return self.quantiles[:, MEDIAN]

    @property
    def scores(self) -> Scores:
        """Their scores."""
        return score(self.mean, self.quantiles, self.truth, self.last)


@dataclass(frozen=True, slots=True)
class Backtest:
    """The forecasts of a model over the last part of a series, and the seconds that learning and forecasting took."""

    name: str
    horizons: tuple[Horizon, ...]
    learn_seconds: float
    """For the first part, before the first forecast that is scored."""
    step_seconds: float
    """For each later value: learning, forecasting, and any fit that was due."""


def roll(
    model: LoadModel | Ensemble,
    values: Sequence[float | None],
    share: float = 0.3,
    progress: Progress = lambda _: None,
    clock: Clock = time.perf_counter,
) -> Backtest:
    """Let a new model learn the series, and collect its forecasts for the last `share` of it.

    Forecasts come from `advance`, which learns value by value: no forecast has seen what it is scored against.
    """
    start = _start(values, share, model.horizons)
    recorder = _Recorder(clock)
    for begin in range(0, len(values), _CHUNK):
        recorder.record(partial(model.advance, values[begin : begin + _CHUNK]))
        progress(min(1.0, (begin + _CHUNK) / len(values)))
    return recorder.backtest(model.name, model.horizons, values, start)


def roll_ensemble(
    ensemble: Ensemble,
    values: Sequence[float | None],
    share: float = 0.3,
    progress: Progress = lambda _: None,
    clock: Clock = time.perf_counter,
) -> tuple[Backtest, ...]:
    """Backtests of an ensemble and of each of its members, the ensemble first. Its seconds do not include theirs."""
    start = _start(values, share, ensemble.horizons)
    own, recorders = _Recorder(clock), [_Recorder(clock) for _ in ensemble.members]
    for begin in range(0, len(values), _CHUNK):
        seen = values[begin : begin + _CHUNK]
        issued = []
        for place, (recorder, member) in enumerate(zip(recorders, ensemble.members, strict=True)):
            issued.append(recorder.record(partial(member.advance, seen)))
            progress(min(1.0, (begin + _CHUNK * (place + 1) / len(recorders)) / len(values)))
        own.record(partial(ensemble.combine, seen, issued))
    names = [ensemble.name, *(member.name for member in ensemble.members)]
    return tuple(
        recorder.backtest(name, ensemble.horizons, values, start)
        for name, recorder in zip(names, [own, *recorders], strict=True)
    )


def _start(values: Sequence[float | None], share: float, horizons: Sequence[int]) -> int:
    """The position of the first scored value."""
    size = len(values)
    start = size - int(share * size)
    if size - start < _MIN_SCORED or start <= max(horizons) or values[0] is None:
        raise NotEnoughHistoryError(
            f"a series of {size} values is too short to hold out {share:.0%} of it, or starts with a gap; "
            f"give at least {max(math.ceil(_MIN_SCORED / share), _MIN_SCORED + max(horizons))} values"
        )
    return start


class _Recorder:
    """The forecasts that a model issued, chunk by chunk, and how long that took."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: list[Issued] = []
        self._spent: list[float] = []

    def record(self, work: Callable[[], Issued]) -> Issued:
        before = self._clock()
        self._issued.append(work())
        self._spent.append(self._clock() - before)
        return self._issued[-1]

    def backtest(self, name: str, horizons: Sequence[int], values: Sequence[float | None], start: int) -> Backtest:
        learning = start // _CHUNK
        means = np.concatenate([each.mean for each in self._issued])
        quantiles = np.concatenate([each.quantiles for each in self._issued])
        later = sum(self._spent[learning:]) / max(1, len(values) - learning * _CHUNK)
        return Backtest(name, _cut(horizons, values, start, means, quantiles), sum(self._spent[:learning]), later)


def _cut(
    horizons: Sequence[int], values: Sequence[float | None], start: int, means: Floats, quantiles: Floats
) -> tuple[Horizon, ...]:
    """For each horizon the forecasts of known values from `start` on."""
    known = np.array([value is not None for value in values])
    numbers = np.array([np.nan if value is None else value for value in values])
    filled = numbers[np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))]
    targets = np.flatnonzero(known & (np.arange(len(known)) >= start))
    return tuple(
        Horizon(
            steps,
            targets.astype(np.float64),
            means[targets - steps, place],
            quantiles[targets - steps, place],
            numbers[targets],
            filled[targets - steps],
        )
        for place, steps in enumerate(horizons)
    )
