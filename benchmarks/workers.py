"""Forecasts of worker performance on recordings of real executors, beside ARIMA, SVR, the last value and ablations.

    python -m benchmarks workers [--quick]
    WORKERS_PAPER=20x1000 WORKERS_RUNS=3 WORKERS_RECORDINGS=workers.parquet python -m benchmarks workers

The recordings are those in `benchmarks/data`, made by `python -m benchmarks.record_workers`: a row for each worker, and
one for the machine, in each second; what is not measured is null. `WORKERS_PAPER` is the number of seeds and of epochs
of the net as printed (2x60 by default), `WORKERS_RUNS` how often the others are trained from other seeds (1).

The first 70 % of the steps are learnt from; errors are those of the rest, one step ahead, each divided by the width of
the worker's target in what was learnt from. No model sees a value before it has forecast it, or learns weights from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.generators.colocated import colocated_steps
from benchmarks.rivals.worker_models import arima_one_step, svr_one_step
from foretide.forecasting.forecaster import Floats
from foretide.forecasting.settings import TrainingBudget, WorkerNetSettings
from foretide.forecasting.worker_forecaster import WorkerForecaster
from foretide.forecasting.worker_frames import MachineFrame, WorkerHistory
from foretide.metrics.from_batch import SLOWNESS, relative_times
from foretide.settings.forecasts import ForecastSettings, worker_net

DATA = Path(__file__).parent / "data"
RECORDINGS = (DATA / "workers.parquet", DATA / "workers-batches.parquet")
STEP = ForecastSettings().worker_step
LEARNT, EARLY = 0.7, 0.25
SLOW, SOON = 1.75, (5.0, 15.0)
TUPLES, TUPLE_TIME = "worker_inbound_tuples_per_second", "worker_tuple_execution_time_ms"
PAPER_TARGETS = (
    "worker_cpu_user_percent",
    "worker_outbound_batch_sending_time_ms",
    "worker_inbound_queuing_time_ms",
)

Frames = list[MachineFrame | None]


@dataclass(frozen=True)
class Recording:
    """Workers of one machine, and their targets."""

    name: str
    frames: Frames
    targets: tuple[str, ...]

    @property
    def learnt(self) -> int:
        """The steps that are learnt from."""
        return round(len(self.frames) * LEARNT)


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    """All figures of the nets of workers."""
    found: dict[str, Any] = {}
    chosen = os.environ.get("WORKERS_RECORDINGS", "").split(",")
    for recording in recordings():
        if chosen == [""] or recording.name in chosen:
            found |= compare(recording, quick=quick)
    return found


def recordings() -> Iterator[Recording]:
    """Those that are there, then generated workers whose neighbours' load has early signs."""
    for path in RECORDINGS:
        if path.exists():
            yield Recording(path.name, read_recording(path), (*PAPER_TARGETS, SLOWNESS))
    steps = [MachineFrame(step.machine, step.workers) for step in colocated_steps(2, 720, 4)]
    yield Recording("generated", list(steps), ("cpu", "sending_time", "queuing_time"))


def read_recording(path: Path, offset: float = 0.0, step: float = STEP) -> Frames:
    """The frames of a recording of one machine: of several rows in a step the newest values."""
    table = pd.read_parquet(path)
    table["step"] = np.floor((table["at"] - table["at"].min() - offset) / step).astype(int)
    table = table[table.step >= 0].drop(columns=["at", "machine"])
    newest = table.groupby(["step", table["worker"].fillna("")]).last().drop(columns="worker", errors="ignore")
    frames: Frames = [None] * (int(table.step.max()) + 1)
    for at, rows in newest.groupby(level=0):
        known = {
            str(name): {str(key): float(value) for key, value in row.items() if pd.notna(value)}
            for (_, name), row in rows.to_dict("index").items()
        }
        frames[int(str(at))] = MachineFrame(known.pop("", {}), _with_slowness(known, step))
    return frames


def _with_slowness(workers: dict[str, dict[str, float]], step: float) -> dict[str, dict[str, float]]:
    """The slowness of workers whose recording lacks it, from the time and the number of the tuples of a step."""
    if any(SLOWNESS in each for each in workers.values()):
        return workers
    tasks = [
        (name, None, each[TUPLE_TIME] * each[TUPLES] * step, each[TUPLES] * step)
        for name, each in workers.items()
        if each.get(TUPLES) and TUPLE_TIME in each
    ]
    return workers | {name: {**workers[name], SLOWNESS: value} for name, value in relative_times(tasks).items()}


def compare(recording: Recording, *, quick: bool) -> dict[str, Any]:
    """RMSE of every model by target, right after training and in all; for nets the mean over runs, none picked."""
    targets, portable = recording.targets, recording.name != "generated"
    net = replace(worker_net(), targets=targets, portable=portable, first_training=1 << 30, retrain_every=0)
    net = net if portable else replace(net, process_features=frozenset({"cpu"}))
    net = replace(net, budget=replace(net.budget, epochs=3 if quick else net.budget.epochs))
    printed = WorkerNetSettings(
        targets=targets,
        process_features=frozenset({*targets[:1]}),
        sigmoid=True,
        targets_only=True,
        first_training=1 << 30,
        retrain_every=0,
        horizon=1,
        budget=paper_budget(quick=quick),
    )
    errors = {name: [baseline_errors(recording, way)] for name, way in BASELINES.items()}
    runs = range(int(os.environ.get("WORKERS_RUNS", "1")))
    nets = {"two-tier": net, "plain": replace(net, net="plain"), "flat": replace(net, net="flat")}
    ahead = {name: [forecasts(recording, way, seed) for seed in runs] for name, way in nets.items()}
    ahead["two-tier as printed"] = [forecasts(recording, printed, 0)]
    errors |= {name: [errors_of(recording, each) for each in found] for name, found in ahead.items()}
    found = {
        f"RMSE one step ahead, {recording.name}": [row(recording, name, each, errors) for name, each in errors.items()]
    }
    if SLOWNESS in targets:
        found[f"slow in 5 to 15 s, {recording.name}"] = [
            {"model": name} | slow_scores(recording, each[0]) for name, each in ahead.items() if "printed" not in name
        ]
    return found


def paper_budget(*, quick: bool) -> TrainingBudget:
    """Seeds, epochs and validation share of the paper; the seed with the lowest validation error is kept."""
    seeds, epochs = (int(each) for each in os.environ.get("WORKERS_PAPER", "2x60").split("x"))
    return TrainingBudget(seeds=1 if quick else seeds, epochs=3 if quick else epochs, patience=epochs, validation=0.1)


def row(recording: Recording, name: str, errors: list[Floats], everyone: dict[str, list[Floats]]) -> dict[str, Any]:
    """The figures of a model: by target, and how far below ARIMA and SVR it is on average over the paper's targets."""
    early = round((len(recording.frames) - recording.learnt) * EARLY)
    scores = np.mean([rmse(each) for each in errors], axis=0)
    paper = len([target for target in recording.targets if target != SLOWNESS])
    below = {}
    for span, steps in (("early", early), ("all", None)):
        own = np.mean([rmse(each[:steps]) for each in errors], axis=0)
        for other in ("ARIMA", "SVR"):
            share = float(np.mean(1 - (own / rmse(everyone[other][0][:steps]))[:paper]))
            below[f"below {other}, {span}"] = f"{100 * share:.1f} %"
    by_target = {name: f"{value:.4f}" for name, value in zip(recording.targets, scores, strict=True)}
    return {"model": name, **by_target, "runs": len(errors), **below}


# ---- one step ahead


def widths(recording: Recording) -> tuple[WorkerHistory, Floats, Any]:
    """The history, the width of every target (workers x targets), and which values are known (steps x workers)."""
    history = WorkerHistory.of(recording.frames)
    values = np.stack([[history.series(name, each) for each in recording.targets] for name in history.names])
    width = np.ptp(values[:, :, : recording.learnt], axis=2)
    return history, np.where(width > 0, width, 1.0), history.present(recording.targets)


BASELINES: dict[str, Callable[[Floats, int], Floats]] = {
    "last value": lambda series, learnt: series[learnt - 1 : -1],
    "ARIMA": arima_one_step,
    "SVR": svr_one_step,
}


def baseline_errors(recording: Recording, way: Callable[[Floats, int], Floats]) -> Floats:
    """Scaled errors (steps x workers x targets) where a worker was there before and after; NaN elsewhere."""
    history, width, present = widths(recording)
    learnt = recording.learnt
    wrong = np.empty((len(recording.frames) - learnt, len(history.names), len(recording.targets)))
    for at, name in enumerate(history.names):
        for aim, target in enumerate(recording.targets):
            series = history.series(name, target)
            wrong[:, at, aim] = (way(series, learnt) - series[learnt:]) / width[at, aim]
    wrong[~(present[learnt:] & present[learnt - 1 : -1])] = np.nan
    return wrong


Ahead = list[dict[str, dict[str, Floats]]]
"""What was forecast before each of the last steps: by worker and target, the steps ahead."""


def forecasts(recording: Recording, settings: WorkerNetSettings, seed: int) -> Ahead:
    """Train on the first part, then forecast before each later step."""
    model = WorkerForecaster(seed, settings)
    model.learn(recording.frames[: recording.learnt])
    model.retrain()
    found: Ahead = []
    for frame in recording.frames[recording.learnt :]:
        ahead = model.forecast(settings.horizon)
        found.append({name: {key: each.mean for key, each in targets.items()} for name, targets in ahead.items()})
        model.learn([frame])
    return found


def errors_of(recording: Recording, ahead: Ahead) -> Floats:
    """Scaled errors one step ahead, as those of the baselines."""
    history, width, present = widths(recording)
    wrong = np.full((len(ahead), len(history.names), len(recording.targets)), np.nan)
    for place, each in enumerate(ahead):
        now = recording.learnt + place
        for at, name in enumerate(history.names):
            frame = recording.frames[now]
            if frame is not None and name in each and present[now, at] and present[now - 1, at]:
                then = frame.workers[name]
                wrong[place, at] = [each[name][key][0] - then[key] for key in recording.targets] / width[at]
    return wrong


def rmse(errors: Floats) -> Floats:
    """By target, over all workers and steps."""
    found: Floats = np.sqrt(np.nanmean(errors.reshape(-1, errors.shape[-1]) ** 2, axis=0))
    return found


# ---- slow soon


def slow_scores(recording: Recording, ahead: Ahead) -> dict[str, Any]:
    """Of workers that are not slow yet: were those slow 5 to 15 s later of which that was forecast, and the reverse?"""
    first, last = (round(seconds / STEP) for seconds in SOON)
    hits = wrong = missed = 0
    for place, each in enumerate(ahead[:-last]):
        now = recording.learnt + place - 1
        measured = [ratios(recording.frames[now + far]) for far in (0, *range(first, last + 1))]
        expected = [ratios_of({name: float(t[SLOWNESS][far - 1]) for name, t in each.items() if SLOWNESS in t})
                    for far in range(first, min(last, worker_net().horizon) + 1)]  # fmt: skip
        for worker in (name for name, ratio in measured[0].items() if ratio < SLOW):
            truth = max((then.get(worker, 0.0) for then in measured[1:]), default=0.0) >= SLOW
            said = max((then.get(worker, 0.0) for then in expected), default=0.0) >= SLOW
            hits, wrong, missed = hits + (truth and said), wrong + (said and not truth), missed + (truth and not said)
    share = {"precision": hits / max(hits + wrong, 1), "recall": hits / max(hits + missed, 1)}
    return {"cases": hits + missed, "said": hits + wrong} | {name: f"{value:.2f}" for name, value in share.items()}


def ratios(frame: MachineFrame | None) -> dict[str, float]:
    """The slowness of each worker over that of its peers, the other workers of its pipeline."""
    workers = {} if frame is None else frame.workers
    return ratios_of({name: each[SLOWNESS] for name, each in workers.items() if SLOWNESS in each})


def ratios_of(slowness: dict[str, float]) -> dict[str, float]:
    """As `ratios`; the pipeline of a worker is the part of its name before the slash, if it has one."""
    found = {}
    for name, value in slowness.items():
        pipeline = name.rpartition("/")[0]
        peers = [other for each, other in slowness.items() if each != name and each.rpartition("/")[0] == pipeline]
        if peers:
            found[name] = value / max(float(np.median(peers)), 1e-9)
    return found
