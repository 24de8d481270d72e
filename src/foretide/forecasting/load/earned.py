"""Which models of an ensemble are worth the CPU time of their fits: by the error that each saves for a CPU second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretide.forecasting.forecaster import Floats
from foretide.forecasting.load.base import Issued

FREE_SECONDS = 0.5
"""A model whose fit takes less is not asked what it is good for."""

_MIN_ERRORS = 10


@dataclass(frozen=True, slots=True)
class Earned:
    """What a model has saved on values that it had not learnt, as a share of the error, and what its fit took."""

    name: str
    gain: float
    cpu_seconds: float

    def worth(self, min_gain: float) -> bool:
        """Whether it saves that share of the error for each CPU second, or is cheap.

        >>> Earned("svr", 0.01, 2.0).worth(0.001), Earned("svr", 0.001, 2.0).worth(0.001)
        (True, False)
        """
        return self.cpu_seconds < FREE_SECONDS or self.gain >= min_gain * self.cpu_seconds


def earned(
    names: Sequence[str],
    issued: Sequence[Issued],
    weights: Floats,
    cpu_seconds: Sequence[float],
    values: Sequence[float | None],
    horizons: Sequence[int],
) -> tuple[Earned, ...]:
    """What each model but the first, the last value, has saved.

    Args:
        names: Of the models.
        issued: The forecasts of each model after each of the values.
        weights: Horizons x models, of the mean.
        cpu_seconds: Of the fit of each model.
        values: Those that were held out.
        horizons: Of the forecasts, in steps.
    """
    means = np.stack([each.mean for each in issued], axis=2)
    truth = np.array([np.nan if value is None else value for value in values])
    return tuple(
        Earned(name, _gain(means, weights, place, truth, horizons), seconds)
        for place, (name, seconds) in enumerate(zip(names, cpu_seconds, strict=True))
        if place
    )


def _gain(means: Floats, weights: Floats, place: int, truth: Floats, horizons: Sequence[int]) -> float:
    """The largest gain over all horizons: a model may be good at one only."""
    gains = [
        _gain_at(means[:-steps, each] - truth[steps:, None], weights[each], place)
        for each, steps in enumerate(horizons)
        if steps < len(truth)
    ]
    return max(gains, default=0.0)


def _gain_at(errors: Floats, weights: Floats, place: int) -> float:
    """The root mean squared error without a model less that with it, as a share of that without it.

    Without it the others keep their weights relative to each other.
    """
    errors = errors[~np.isnan(errors).any(axis=1)]
    others = np.where(np.arange(len(weights)) == place, 0.0, weights)
    others = others / others.sum() if others.sum() > 0 else np.eye(len(weights))[0]
    whole, without = (
        float(np.sqrt(np.mean((errors @ each) ** 2))) if len(errors) else 0.0 for each in (weights, others)
    )
    return (without - whole) / without if len(errors) >= _MIN_ERRORS and without > 0 else 0.0
