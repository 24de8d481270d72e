"""What batches cost, learnt from those that were measured: a fixed part, work for each row, tasks, the longest task.

Recent batches count more. The costs do not depend on how many cores or replicas there were, so a model that was learnt
with few of them says what more would bring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from foretide.queueing.batches import BatchModel, StagePlan, longest_of
from foretide.queueing.model import BatchCosts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MIN_BATCHES = 3
MAX_BATCHES = 60
_FADING = 0.95
_SMALL_SCV = 1e-4
"""A squared variation coefficient for which the longest of several tasks grows in proportion to the deviation."""


@dataclass(frozen=True, slots=True)
class StageObservation:
    """One operator in a batch: rows, tasks that had rows, seconds that all of them ran, and the longest one."""

    rows: float
    active: int
    busy: float
    longest: float


@dataclass(frozen=True, slots=True)
class BatchObservation:
    """One batch: rows that entered, seconds from start to commit, cores that it could use, and its operators."""

    number: int
    rows: float
    seconds: float
    cores: int
    stages: Mapping[str, StageObservation]


@dataclass(frozen=True, slots=True)
class OperatorCosts:
    """What an operator costs: seconds for a row and for a task, rows for each one that enters, and variation."""

    row_seconds: float
    task_seconds: float
    visits: float
    scv: float
    active: int


@dataclass(frozen=True, slots=True)
class LearnedBatches:
    """Costs of batches.

    Attributes:
        fixed_cost: Seconds of a batch without rows.
        row_cost: Seconds that each row adds beside the work of the operators.
        error: Relative error of the lengths that the model gives for the batches it was learnt from.
        batches: How many those are.
    """

    fixed_cost: float
    row_cost: float
    operators: Mapping[str, OperatorCosts]
    error: float
    batches: int

    def model(self, cores: int, replicas: Mapping[str, int], trigger: float = 0.0) -> BatchModel:
        """The query with other cores and replicas; operators that are not named keep the tasks they had."""
        stages = (
            StagePlan(
                name,
                costs.row_seconds * costs.visits,
                active := max(replicas.get(name, costs.active), 1),
                active,
                costs.visits,
                costs.scv,
                costs.task_seconds,
            )
            for name, costs in self.operators.items()
        )
        return BatchModel(BatchCosts(cores, self.fixed_cost, trigger=trigger, row_cost=self.row_cost), tuple(stages))


def learn(observed: Sequence[BatchObservation]) -> LearnedBatches | None:
    """What batches cost; None while too few have been measured. The last one is the newest."""
    batches = [batch for batch in observed[-MAX_BATCHES:] if batch.rows >= 1 and batch.stages]
    if len(batches) < MIN_BATCHES:
        return None
    names = [name for name in batches[-1].stages if sum(name in batch.stages for batch in batches) >= MIN_BATCHES]
    operators = {name: _operator(name, [batch for batch in batches if name in batch.stages]) for name in names}
    weights = _weights(len(batches))
    rows = np.array([batch.rows for batch in batches])
    rest = np.array([batch.seconds - sum(_stage_seconds(batch, name) for name in names) for batch in batches])
    fixed, each = _fit(np.ones(len(batches)), rows, rest, weights)
    known = LearnedBatches(fixed, each, operators, 0.0, len(batches))
    return replace(known, error=_error(known, batches, weights))


def _stage_seconds(batch: BatchObservation, name: str) -> float:
    """Seconds of the batch that an operator took: its longest task, as often as the cores made turns necessary."""
    stage = batch.stages.get(name)
    return 0.0 if stage is None else stage.longest * math.ceil(stage.active / batch.cores)


def _operator(name: str, batches: Sequence[BatchObservation]) -> OperatorCosts:
    stages = [batch.stages[name] for batch in batches]
    weights = _weights(len(stages))
    tasks, rows = (np.array([float(getattr(stage, field)) for stage in stages]) for field in ("active", "rows"))
    per_task, per_row = _fit(tasks, rows, np.array([stage.busy for stage in stages]), weights)
    entered = np.array([batch.rows for batch in batches])
    visits = float((weights * rows).sum() / (weights * entered).sum())
    return OperatorCosts(per_row, per_task, visits, _scv(stages, per_task, per_row, weights), stages[-1].active)


def _scv(stages: Sequence[StageObservation], per_task: float, per_row: float, weights: Floats) -> float:
    """The variation of a row's work that explains by how much the longest tasks exceed the mean ones."""
    excess: list[float] = []
    expected: list[float] = []
    for stage, weight in zip(stages, weights, strict=True):
        rows = stage.rows / stage.active if stage.active > 1 else 0.0
        if rows * stage.active < 1 or per_row <= 0:
            continue
        deviations = (longest_of(stage.active, 1.0, _SMALL_SCV)[0] - 1) / math.sqrt(_SMALL_SCV)
        unit = deviations * per_row * math.sqrt(rows)
        excess.append(weight * unit * (stage.longest - per_task - per_row * rows))
        expected.append(weight * unit * unit)
    deviation = sum(excess) / sum(expected) if expected else 0.0
    return max(deviation, 0.0) ** 2


def _weights(count: int) -> Floats:
    return _FADING ** np.arange(count - 1, -1, -1, dtype=np.float64)


def _fit(first: Floats, second: Floats, values: Floats, weights: Floats) -> tuple[float, float]:
    """The two factors, neither below 0, with which first and second add up to the values best."""
    roots = np.sqrt(weights)
    scale = max(float(np.abs(second).max()), 1e-12)
    columns = np.stack([first * roots, second / scale * roots], axis=1)
    (a, b), *_ = np.linalg.lstsq(columns, values * roots, rcond=1e-6)
    if b < 0:
        a, b = float((weights * first * values).sum() / (weights * first * first).sum()), 0.0
    elif a < 0:
        a, b = 0.0, float((weights * second * values).sum() / (weights * second * second).sum()) * scale
    return max(float(a), 0.0), max(float(b), 0.0) / scale


def _error(known: LearnedBatches, batches: Sequence[BatchObservation], weights: Floats) -> float:
    """The weighted root mean square of the relative errors."""
    modelled = [
        known.model(batch.cores, {name: stage.active for name, stage in batch.stages.items()}).length(batch.rows)
        for batch in batches
    ]
    off = np.array([model / batch.seconds - 1 for model, batch in zip(modelled, batches, strict=True)])
    return float(np.sqrt((weights * off * off).sum() / weights.sum()))
