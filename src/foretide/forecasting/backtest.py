"""Rolling origin: forecast from every step of the last part of a series, each time from what came before alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from foretide.errors import NotEnoughHistoryError
from foretide.forecasting.forecaster import LEVELS, Floats
from foretide.forecasting.load.base import Issued, LoadModel
from foretide.forecasting.load.ensemble import Ensemble
from foretide.forecasting.scores import Scores, score

Progress = Callable[[float], None]
Clock = Callable[[], float]

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
    model: LoadModel | Ensemble,
    values: Sequence[float | None],
    share: float = 0.3,
    progress: Progress = lambda _: None,
    clock: Clock = time.perf_counter,
) -> Rolled:
    """Let a fresh model learn the series and keep what it forecast for the last `share` of it.

    Forecasts come from `advance`, which learns value by value: none can have seen what it is scored against.
    """
    start = _start(values, share, model.horizons)
    tape = _Tape(clock)
    for begin in range(0, len(values), _CHUNK):
        tape.record(partial(model.advance, values[begin : begin + _CHUNK]))
        progress(min(1.0, (begin + _CHUNK) / len(values)))
    return tape.rolled(model.name, model.horizons, values, start)


def roll_mix(
    mix: Ensemble,
    values: Sequence[float | None],
    share: float = 0.3,
    progress: Progress = lambda _: None,
    clock: Clock = time.perf_counter,
) -> tuple[Rolled, ...]:
    """The same for a mix and each of its experts at once: the mix first. Its seconds do not contain theirs."""
    start = _start(values, share, mix.horizons)
    own, tapes = _Tape(clock), [_Tape(clock) for _ in mix.experts]
    for begin in range(0, len(values), _CHUNK):
        seen = values[begin : begin + _CHUNK]
        issued = []
        for place, (tape, expert) in enumerate(zip(tapes, mix.experts, strict=True)):
            issued.append(tape.record(partial(expert.advance, seen)))
            progress(min(1.0, (begin + _CHUNK * (place + 1) / len(tapes)) / len(values)))
        own.record(partial(mix.combine, seen, issued))
    names = [mix.name, *(expert.name for expert in mix.experts)]
    return tuple(
        tape.rolled(name, mix.horizons, values, start) for name, tape in zip(names, [own, *tapes], strict=True)
    )


def _start(values: Sequence[float | None], share: float, horizons: Sequence[int]) -> int:
    """Where the part begins that is held back."""
    size = len(values)
    start = size - int(share * size)
    if size - start < _FEWEST or start <= max(horizons) or values[0] is None:
        raise NotEnoughHistoryError(
            f"a series of {size} values is too short to hold back {share:.0%} of it (or starts with a gap); "
            f"give at least {max(math.ceil(_FEWEST / share), _FEWEST + max(horizons))} values, the first one known."
        )
    return start


class _Tape:
    """What a model issued, chunk by chunk, and how long that took."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: list[Issued] = []
        self._spent: list[float] = []

    def record(self, work: Callable[[], Issued]) -> Issued:
        before = self._clock()
        self._issued.append(work())
        self._spent.append(self._clock() - before)
        return self._issued[-1]

    def rolled(self, name: str, horizons: Sequence[int], values: Sequence[float | None], start: int) -> Rolled:
        learning = start // _CHUNK
        means = np.concatenate([each.mean for each in self._issued])
        quantiles = np.concatenate([each.quantiles for each in self._issued])
        later = sum(self._spent[learning:]) / max(1, len(values) - learning * _CHUNK)
        return Rolled(name, _cut(horizons, values, start, means, quantiles), sum(self._spent[:learning]), later)


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
