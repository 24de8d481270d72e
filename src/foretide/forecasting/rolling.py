"""Rolling origin: forecast from every step of the last part of a series, each time from what came before alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from foretide.errors import NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS, Floats
from foretide.forecasting.model import LoadModel
from foretide.forecasting.scores import Scores, score
from foretide.forecasting.selection import Mix

_CHUNK = 250
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class Horizon:
    """What was forecast `steps` ahead for each of the last values: times x (mean, quantiles), truth, last known."""

    steps: int
    places: Floats
    mean: Floats
    quantiles: Floats
    truth: Floats
    last: Floats

    @property
    def median(self) -> Floats:
        """The median of each."""
        return self.quantiles[:, int(np.argmin(np.abs(LEVELS - 0.5)))]

    @property
    def scores(self) -> Scores:
        """How good they were."""
        return score(self.mean, self.quantiles, self.truth, self.last)


@dataclass(frozen=True, slots=True)
class Rolled:
    """A model's forecasts over the last part of a series, and the seconds that learning and forecasting took."""

    name: str
    horizons: tuple[Horizon, ...]
    learn_seconds: float
    """For the first part, before the first forecast that is scored."""
    step_seconds: float
    """For each value after it: learning it, forecasting from it, and any fit that fell due."""


def roll(
    model: LoadModel | Mix,
    values: Sequence[float | None],
    share: float = 0.3,
    progress: Callable[[float], None] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Rolled:
    """Let a fresh model learn the series and keep what it forecast for the last `share` of it.

    Forecasts come from `advance`, which learns value by value: none can have seen what it is scored against.
    """
    size = len(values)
    start = size - int(share * size)
    if size - start < _FEWEST or start < max(model.horizons) + 1 or values[0] is None:
        raise NotEnoughHistoryError(
            f"a series of {size} values is too short to hold back {share:.0%} of it (or starts with a gap); "
            f"give at least {max(round(_FEWEST / share), _FEWEST + max(model.horizons))} values."
        )
    means, quantiles, spent = [], [], []
    for begin in range(0, size, _CHUNK):
        before = clock()
        issued = model.advance(values[begin : begin + _CHUNK])
        spent.append(clock() - before)
        means.append(issued.mean)
        quantiles.append(issued.quantiles)
        progress(min(1.0, (begin + _CHUNK) / size))
    learning = start // _CHUNK
    later = spent[learning:]
    horizons = _cut(model.horizons, values, start, np.concatenate(means), np.concatenate(quantiles))
    return Rolled(model.name, horizons, sum(spent[:learning]), sum(later) / max(1, size - learning * _CHUNK))


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
