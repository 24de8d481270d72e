"""The nets: key frequencies beside simple rivals, and the speed of the net of workers (its errors: `workers`).

    python -m benchmarks forecasting_nets [--quick]
    KEYS_TRAINED=1 python -m benchmarks forecasting_nets

Key forecasts are scored on the last 30 % of the windows; no model sees a window before it has forecast it. The net is
the one that comes with Foretide; `KEYS_TRAINED=1` adds one that has learnt the first 70 % of the stream only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.flights import flight_windows
from benchmarks.generators.colocated import colocated_steps
from benchmarks.generators.hot_keys import zipf_windows
from benchmarks.rivals.key_scores import heavy_recall, top_recall, total_variation
from foretide.forecasting.key_models import Key, KeyEwma, KeyModel, LastWindow
from foretide.forecasting.key_net import KeyNet
from foretide.forecasting.pretrained import pretrained_keys
from foretide.forecasting.settings import KeyNetSettings, TrainingBudget, WorkerNetSettings
from foretide.forecasting.worker_forecaster import WorkerForecaster
from foretide.forecasting.worker_frames import MachineFrame

LEARNT = 0.7

Stream = list[dict[Key, float]]


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    """All figures of the nets."""
    return {
        "key frequencies a window ahead": keys(quick=quick),
        "speed of the two-tier net, 8 workers": speed(quick=quick),
    }


# ---- key frequencies


def keys(*, quick: bool) -> list[dict[str, Any]]:
    """Every model on the last 30 % of some generated streams, and on flights; the mean over streams, and its spread."""
    count, seeds = (120, 1) if quick else (300, 3)
    generated: list[Stream] = [dict_stream(zipf_windows(seed + 1, count)) for seed in range(seeds)]
    rows = key_rows("generated", generated, quick=quick)
    real = flight_windows(20 if quick else 90)
    return rows + ([] if real is None else key_rows("flights by destination", [dict_stream(real)], quick=quick))


def dict_stream(windows: Sequence[Mapping[Any, int]]) -> Stream:
    """Counts as models take them."""
    return [{key: float(rows) for key, rows in window.items()} for window in windows]


def key_rows(name: str, streams: list[Stream], *, quick: bool) -> list[dict[str, Any]]:
    """The scores of every model; the pre-trained net as it comes, and a net that has learnt the first part."""
    found: dict[str, list[Any]] = {}
    settings = KeyNetSettings(retrain_every=0, budget=TrainingBudget(seeds=1, epochs=10 if quick else 40))
    still = replace(settings, first_training=0)
    for seed, stream in enumerate(streams):
        models = {"last window": LastWindow(), **{f"EWMA {a}": KeyEwma(a) for a in (0.3, 0.5, 0.7)}}
        nets = {"net as it comes": KeyNet(seed, still, pretrained_keys(still))}
        if "KEYS_TRAINED" in os.environ:
            nets["net trained on this stream"] = KeyNet(seed, settings)
        for model_name, model in {**models, **nets}.items():
            found.setdefault(model_name, []).append(key_scores(model, stream, round(len(stream) * LEARNT)))
    columns = ("top_20_recall", "heavy_recall", "total_variation")
    return [
        {"stream": name, "model": model, "streams": len(streams)}
        | dict(zip(columns, np.mean(scores, axis=0).tolist(), strict=True))
        | {"recall_spread": float(np.std(scores, axis=0)[0])}
        for model, scores in found.items()
    ]


def key_scores(model: KeyModel, stream: Stream, learnt: int) -> list[float]:
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
    frames = [MachineFrame(step.machine, step.workers) for step in colocated_steps(1, 820, 8)]
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
