"""Coarser steps for older samples: of each step the last sample stays, with the mean and the extremes of all.

The last sample keeps its own time and value. The samples of one batch have one time, so what stays of a step is a batch
as it was, and can be replayed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from foretide.durations import Seconds
from foretide.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Step:
    """From an age of `after` seconds on, one sample is kept every `every` seconds."""

    after: Seconds
    every: Seconds

    def __post_init__(self) -> None:
        if not (self.after > 0 and self.every > 0 and math.isfinite(self.after + self.every)):
            raise SettingsError(f"a step must have 'after' and 'every' greater than 0 s, got {self}")


DEFAULT_STEPS = (Step(after=3600.0, every=60.0), Step(after=24 * 3600.0, every=300.0))
"""Every sample for an hour, one a minute for a day, then one every five minutes."""


def conflicts(steps: Sequence[Step]) -> Iterator[str]:
    """What is wrong with a list of steps."""
    for finer, coarser in pairwise(steps):
        if coarser.after <= finer.after:
            yield f"the step after {coarser.after:g} s must be listed before the one after {finer.after:g} s"
        elif coarser.every <= finer.every or coarser.every % finer.every:
            yield f"a step of {coarser.every:g} s must be a multiple of the one before it, {finer.every:g} s"


@dataclass(frozen=True, slots=True)
class StepSample:
    """What is kept of a step: its last sample, and the count, mean, minimum and maximum of all its samples."""

    metric: str
    subject: str
    at: float
    value: float
    count: int
    mean: float
    low: float
    high: float


def begin(at: float, every: float) -> float:
    """When the step of a time begins: at a multiple of its length since 1970."""
    return math.floor(at / every) * every if math.isfinite(at) else at


def by_step(samples: Iterable[StepSample], every: float) -> list[list[StepSample]]:
    """The samples of one series, in the order of time, step by step."""
    return [list(each) for _, each in groupby(samples, lambda sample: begin(sample.at, every))]


def merged(samples: Sequence[StepSample]) -> StepSample:
    """What is kept of the samples of one step.

    >>> one, two = (StepSample("cpu", "w", at, at, 1, at, at, at) for at in (1.0, 3.0))
    >>> merged([one, two])
    StepSample(metric='cpu', subject='w', at=3.0, value=3.0, count=2, mean=2.0, low=1.0, high=3.0)
    """
    last, count = samples[-1], sum(each.count for each in samples)
    low, high = min(each.low for each in samples), max(each.high for each in samples)
    total = sum(each.mean * each.count for each in samples)
    mean = total / count if math.isfinite(total) else sum(each.mean * (each.count / count) for each in samples)
    return StepSample(last.metric, last.subject, last.at, last.value, count, min(max(mean, low), high), low, high)
