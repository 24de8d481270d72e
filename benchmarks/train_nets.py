"""Makes the nets that come with Foretide.

    python -m benchmarks.train_nets workers [--all]
    python -m benchmarks.train_nets keys

The net of workers learns from the first 70 % of `benchmarks/data/workers.parquet` (`--all`: from all of it), in steps
of 2 s that begin at either second, once with readings every 2 s and once as a pipeline with default settings has them:
processes every 5 s, machines every 15 s. That of keys learns from generated streams whose hot keys come and go.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.generators.hot_keys import zipf_windows
from benchmarks.workers import DATA, LEARNT, Frames, read_recording
from foretide.forecasting import pretrained
from foretide.forecasting.key_net import KeyNet
from foretide.forecasting.portable_features import portable
from foretide.forecasting.saved import save_state
from foretide.forecasting.settings import KeyNetSettings, TrainingBudget
from foretide.forecasting.worker_frames import MachineFrame
from foretide.forecasting.worker_model import WorkerModel
from foretide.settings.forecasts import ForecastSettings

STEP = ForecastSettings().worker_step
WORKERS_EVERY, MACHINES_EVERY = 2, 7
"""Steps of 2 s between two readings by default, about."""

KEY_STREAMS = ((1.0, 10_000), (1.0, 2_000), (0.6, 10_000), (1.3, 40_000), (0.8, 500))
"""Zipf exponents, and rows in a window."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train_nets", description=__doc__)
    parser.add_argument("which", choices=("workers", "keys"))
    parser.add_argument("--all", action="store_true", help="learn from whole recordings")
    options = parser.parse_args()
    if options.which == "workers":
        train_workers(DATA / "workers.parquet", 1.0 if options.all else LEARNT)
    else:
        train_keys()


def train_workers(recording: Path, share: float) -> None:
    """Train on a share of a recording, and save."""
    net = ForecastSettings().net
    histories = {
        name: [portable(frame, net.targets) for frame in frames[: round(share * len(frames))]]
        for name, frames in _copies(recording)
    }
    model = WorkerModel.trained(replace(net, budget=replace(net.budget, seeds=4)), histories, seed=(1, 0))
    about = {"model": "workers", "step_seconds": STEP, **pretrained.shape_of(net)}
    save_state(pretrained.FOLDER / "workers", model.state(), about)


def _copies(recording: Path) -> Iterator[tuple[str, Frames]]:
    for offset in (0.0, 1.0):
        frames = read_recording(recording, STEP, offset)
        yield f"{offset:g}", frames
        yield f"{offset:g}, read less often", [_thinned(frame, at) for at, frame in enumerate(frames)]


def _thinned(frame: MachineFrame | None, at: int) -> MachineFrame | None:
    """A step with what is read less often left out; what batches and tasks tell is there in each."""
    if frame is None:
        return None
    of_processes = at % WORKERS_EVERY == 0
    workers = {
        name: {key: value for key, value in each.items() if of_processes or key == "worker_slowness"}
        for name, each in frame.workers.items()
    }
    return MachineFrame(frame.machine if at % MACHINES_EVERY == 0 else {}, workers)


def train_keys() -> None:
    """Train one net on all streams, one after the other, and save it."""
    settings = KeyNetSettings(first_training=0, retrain_every=0, keep=2000, budget=TrainingBudget(seeds=1, epochs=30))
    net = KeyNet(1, settings)
    for seed, (zipf, rows) in enumerate(KEY_STREAMS, start=100):
        net.learn(zipf_windows(seed, 300, zipf=zipf, rows=rows))
    net.retrain()
    weights = {f"weight{at:02}": each for at, each in enumerate(net.weights or ())}
    save_state(pretrained.FOLDER / "keys", weights, {"model": net.name, "hidden": settings.hidden})


if __name__ == "__main__":
    main()
