"""The nets: key frequencies beside simple rivals, worker performance beside ARIMA, SVR and ablations, and their speed.

    python -m benchmarks forecasting_nets [--quick]

Worker performance is compared on made-up workers ('synthetic') and on the recording `benchmarks/data/workers.parquet`.
The recording has a row for each worker, and one for the machine, in each step of 5 seconds:

| column | type | meaning |
|---|---|---|
| `at` | float | when the step began, in seconds; steps without rows are gaps |
| `machine` | string | the machine |
| `worker` | string or null | the worker; null in the row that has the machine's own features |
| `cpu`, `sending_time`, `queuing_time` | float | the targets, in the rows of workers, in any unit |
| any other | float | further features of workers, or of machines (also under the same name); null is not measured |

The first 70 % of the steps are learnt from; errors are those of the rest, one step ahead, each divided by the width of
the worker's target in what was learnt from. No model sees a value before it has forecast it, or learns weights from it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.generators.colocated import colocated_steps
from benchmarks.generators.hot_keys import zipf_windows
from benchmarks.rivals.key_scores import heavy_recall, top_recall, total_variation
from benchmarks.rivals.worker_models import arima_one_step, svr_one_step
from foretide.forecasting.key_models import KeyEwma, KeyModel, LastWindow
from foretide.forecasting.key_net import KeyNet
from foretide.forecasting.settings import KeyNetSettings, TrainingBudget, WorkerNetSettings
from foretide.forecasting.worker_forecaster import WorkerForecaster
from foretide.forecasting.worker_frames import MachineFrame, WorkerHistory

RECORDING = Path(__file__).parent / "data" / "workers.parquet"
STEP_SECONDS = 5.0
LEARNT = 0.7
TARGETS = ("cpu", "sending_time", "queuing_time")
FAR = (1, 3, 6)

Frames = list[MachineFrame | None]


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    """All figures of the nets."""
    recordings = [None, *([RECORDING] if RECORDING.exists() else [])]
    return {
        "key frequencies a window ahead, changing Zipf stream": keys(quick=quick),
        "speed of the two-tier net, 8 workers": speed(quick=quick),
        **{title: rows for recording in recordings for title, rows in compare(recording, quick=quick).items()},
    }


# ---- key frequencies


def keys(*, quick: bool) -> list[dict[str, Any]]:
    """Every model on the last 30 % of some streams; the mean over streams, and its spread."""
    count, seeds = (120, 1) if quick else (300, 3)
    budget = TrainingBudget(seeds=1, epochs=10 if quick else 40)
    settings = KeyNetSettings(retrain_every=0, budget=budget)
    found: dict[str, list[Any]] = {}
    for seed in range(seeds):
        stream = zipf_windows(seed + 1, count)
        models = {"last window": LastWindow(), **{f"EWMA {a}": KeyEwma(a) for a in (0.3, 0.5, 0.7)}}
        for name, model in {**models, "encoder-decoder": KeyNet(seed, settings)}.items():
            found.setdefault(name, []).append(key_scores(model, stream, round(count * LEARNT)))
    columns = ("top_20_recall", "heavy_recall", "total_variation")
    return [
        {"model": name, "streams": seeds}
        | dict(zip(columns, np.mean(scores, axis=0).tolist(), strict=True))
        | {"recall_spread": float(np.std(scores, axis=0)[0])}
        for name, scores in found.items()
    ]


def key_scores(model: KeyModel, stream: list[dict[int, int]], learnt: int) -> list[float]:
    model.learn(stream[:learnt])
    scores = []
    for window in stream[learnt:]:
        ahead = model.forecast(1)[0]
        scores.append([score(ahead, window) for score in (top_recall, heavy_recall, total_variation)])
        model.learn([window])
    return [float(each) for each in np.mean(scores, axis=0)]


# ---- speed


def speed(*, quick: bool) -> list[dict[str, Any]]:
    """Training on an hour of history, then frame after frame: `learn` and `forecast` together are one prediction."""
    frames = synthetic(1, 820, 8)
    model = WorkerForecaster(1, WorkerNetSettings(retrain_every=0, budget=budget_of(quick=quick, seeds=3)))
    start, cpu = time.perf_counter(), time.process_time()
    model.learn(frames[:720])
    trained, cpu = time.perf_counter() - start, time.process_time() - cpu
    model.learn(frames[720:721])
    model.forecast(1)
    took = []
    for frame in frames[721:]:
        start = time.perf_counter()
        model.learn([frame])
        model.forecast(1)
        took.append((time.perf_counter() - start) * 1000)
    rows = {"training on 720 steps, s": trained, "the same, CPU s": cpu}
    rows |= {f"one prediction, {name} ms": float(np.quantile(took, q)) for name, q in (("median", 0.5), ("p90", 0.9))}
    return [{"what": name, "figure": figure} for name, figure in rows.items()]


def budget_of(*, quick: bool, seeds: int) -> TrainingBudget:
    return TrainingBudget(seeds=1, epochs=20) if quick else TrainingBudget(seeds=seeds)


# ---- worker performance


def compare(recording: Path | None, *, quick: bool) -> dict[str, Any]:
    """RMSE of every model by target; for nets the mean over seeds, none of them picked, and its spread."""
    machines = {"synthetic": synthetic(2, 720, 4)} if recording is None else read_recording(recording)
    origin = "synthetic" if recording is None else recording.name
    errors = {name: [baseline_errors(frames, name) for frames in machines.values()] for name in ("last value", "SVR")}
    errors["ARIMA"] = [baseline_errors(frames, "ARIMA") for frames in machines.values()]
    scores = {name: [rmse(each)] for name, each in errors.items()}
    settings = WorkerNetSettings(retrain_every=0, budget=budget_of(quick=quick, seeds=1))
    ways = {
        "two-tier": settings,
        "two-tier, targets only (paper)": replace(settings, targets_only=True),
        "plain": replace(settings, net="plain"),
        "flat": replace(settings, net="flat"),
    }
    far = []
    for name, way in ways.items():
        for seed in range(1 if quick else 3):
            runs = [net_errors(frames, way, seed) for frames in machines.values()]
            scores.setdefault(name, []).append(rmse([each[1] for each in runs]))
            far += [{"data": origin, "net": name, "seed": seed} | further(machines, runs)] if name == "two-tier" else []
    return {
        f"worker performance, RMSE one step ahead, {origin}": [
            score_row(origin, name, each, scores) for name, each in scores.items()
        ],
        f"two-tier net, RMSE several steps ahead (of the last value's), {origin}": far,
    }


def score_row(origin: str, name: str, scores: list[Any], everyone: dict[str, list[Any]]) -> dict[str, Any]:
    mean = np.mean(scores, axis=0)
    below = {
        f"below_{other}": f"{100 * float(np.mean(1 - mean / everyone[other][0])):.1f} %" for other in ("ARIMA", "SVR")
    }
    spread = float(np.std([np.mean(each) for each in scores]))
    by_target = {target: f"{value:.4f}" for target, value in zip(TARGETS, mean, strict=True)}
    return {"data": origin, "model": name, **by_target, "seeds": len(scores), "spread": f"{spread:.4f}", **below}


def synthetic(seed: int, steps: int, workers: int) -> Frames:
    return [MachineFrame(step.machine, step.workers) for step in colocated_steps(seed, steps, workers)]


def read_recording(path: Path) -> dict[str, Frames]:
    """The frames of each machine of a recording."""
    table = pd.read_parquet(path)
    table["step"] = ((table["at"] - table["at"].min()) / STEP_SECONDS).round().astype(int)
    features = [name for name in table.columns if name not in {"at", "machine", "worker", "step"}]
    return {str(name): _frames(part, features) for name, part in table.groupby("machine")}


def _frames(table: pd.DataFrame, features: list[str]) -> Frames:
    first, last = int(table["step"].min()), int(table["step"].max())
    frames: Frames = [None] * (last - first + 1)
    for step, rows in table.groupby("step"):
        machine: dict[str, float] = {}
        workers: dict[str, dict[str, float]] = {}
        for worker, values in zip(rows["worker"], rows[features].to_dict("records"), strict=True):
            known = {str(name): float(value) for name, value in values.items() if pd.notna(value)}
            into = machine if pd.isna(worker) else workers.setdefault(str(worker), {})
            into.update(known)
        frames[int(str(step)) - first] = MachineFrame(machine, workers)
    return frames


def truth_of(frames: Frames) -> tuple[WorkerHistory, int, Any, Any]:
    """The history, how much is learnt from, the widths (workers x targets), and which forecasts count."""
    history = WorkerHistory.of(frames)
    learnt = round(len(frames) * LEARNT)
    present = history.present(TARGETS)
    values = np.stack([[history.series(name, target) for target in TARGETS] for name in history.names])
    width = np.ptp(values[:, :, :learnt], axis=2)
    return history, learnt, np.where(width > 0, width, 1.0), present


def baseline_errors(frames: Frames, model: str) -> Any:
    """Scaled errors (steps x workers x targets) where a worker was there before and after; NaN elsewhere."""
    history, learnt, width, present = truth_of(frames)
    ways = {"ARIMA": arima_one_step, "SVR": svr_one_step, "last value": lambda series, cut: series[cut - 1 : -1]}
    wrong = np.empty((len(frames) - learnt, len(history.names), len(TARGETS)))
    for at, name in enumerate(history.names):
        for aim, target in enumerate(TARGETS):
            series = history.series(name, target)
            wrong[:, at, aim] = (ways[model](series, learnt) - series[learnt:]) / width[at, aim]
    wrong[~(present[learnt:] & present[learnt - 1 : -1])] = np.nan
    return wrong


def net_errors(frames: Frames, settings: WorkerNetSettings, seed: int) -> dict[int, Any]:
    """Scaled errors, as those of the baselines, for each of the distances; row t is that of the forecast before t."""
    history, learnt, width, present = truth_of(frames)
    model = WorkerForecaster(seed, replace(settings, first_training=learnt))
    model.learn(frames[:learnt])
    wrong = {far: np.full((len(frames) - learnt, len(history.names), len(TARGETS)), np.nan) for far in FAR}
    for now in range(learnt, len(frames)):
        ahead = model.forecast(max(FAR))
        for far in (far for far in FAR if now + far - 1 < len(frames)):
            for at, name in enumerate(history.names):
                if name in ahead and present[now + far - 1, at]:
                    then = frames[now + far - 1].workers[name]
                    found = [ahead[name][target].mean[far - 1] - then[target] for target in TARGETS]
                    wrong[far][now - learnt, at] = found / width[at]
        model.learn([frames[now]])
    return wrong


def further(machines: dict[str, Frames], runs: list[dict[int, Any]]) -> dict[str, str]:
    """The RMSE at each distance, as a share of that of the last value, averaged over the targets."""
    row = {}
    for far in FAR:
        naive = []
        for frames in machines.values():
            history, learnt, width, present = truth_of(frames)
            values = np.stack([[history.series(name, target) for target in TARGETS] for name in history.names])
            change = (values[:, :, learnt - 1 : -far] - values[:, :, learnt - 1 + far :]).transpose(2, 0, 1) / width
            change[~(present[learnt - 1 : -far] & present[learnt - 1 + far :])] = np.nan
            naive.append(change)
        row[f"step_{far}"] = f"{np.mean(rmse([each[far] for each in runs]) / rmse(naive)):.3f}"
    return row


def rmse(errors: list[Any]) -> Any:
    """By target, over all machines, workers and steps."""
    return np.sqrt(np.nanmean(np.concatenate([each.reshape(-1, len(TARGETS)) for each in errors]) ** 2, axis=0))
