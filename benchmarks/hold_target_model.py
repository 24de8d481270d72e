"""What batches cost, learnt with few executors, against what they were measured to take with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretide.control.decisions.decision import Wish
from foretide.control.world.measured import batch_observation
from foretide.control.world.world import World
from foretide.queueing.learned_batches import MAX_BATCHES, BatchObservation, LearnedBatches, learn

WARM_UP = 3
"""Batches of a run that do not count: each run starts on a new checkpoint."""


@dataclass(frozen=True)
class Observing:
    """A policy that wishes for nothing and keeps what every batch showed."""

    name: str = "observing"

    def start(self) -> tuple[BatchObservation, ...]:
        return ()

    def wish(
        self, state: tuple[BatchObservation, ...], world: World
    ) -> tuple[tuple[BatchObservation, ...], list[Wish]]:
        batch = batch_observation(world)
        known = batch is None or (state and state[-1].number == batch.number)
        return (state if known or batch is None else (*state, batch)), []


def learnt_from(runs: Sequence[Sequence[BatchObservation]]) -> LearnedBatches | None:
    """The costs by the last batches of several runs, as many of each."""
    share = MAX_BATCHES // max(len(runs), 1)
    return learn([batch for run in runs for batch in run[WARM_UP:][-share:]])


def model_errors(learned: LearnedBatches, runs: Mapping[str, Sequence[BatchObservation]]) -> list[dict[str, Any]]:
    """For each run the rows a second of its batches, measured and by the model, and how far off single batches are."""
    return [_errors(learned, name, run[WARM_UP:]) for name, run in runs.items() if len(run) > WARM_UP]


def _errors(learned: LearnedBatches, name: str, batches: Sequence[BatchObservation]) -> dict[str, Any]:
    modelled = np.array([_seconds(learned, batch) for batch in batches])
    measured = np.array([batch.seconds for batch in batches])
    rows = sum(batch.rows for batch in batches)
    return {
        "run": name,
        "batches": len(batches),
        "rows/s measured": rows / measured.sum(),
        "rows/s by the model": rows / modelled.sum(),
        "error of rows/s": f"{measured.sum() / modelled.sum() - 1:+.1%}",
        "mean error of a batch": f"{np.abs(modelled / measured - 1).mean():.1%}",
    }


def _seconds(learned: LearnedBatches, batch: BatchObservation) -> float:
    replicas = {name: stage.active for name, stage in batch.stages.items()}
    return learned.model(batch.cores, replicas).length(batch.rows)
