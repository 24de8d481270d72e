"""Makes the nets that come with Foretide.

    python -m benchmarks.train_nets workers [--all]
    python -m benchmarks.train_nets keys

The net of workers learns from the first 70 % of the recordings in `benchmarks/data` (`--all`: from all of them), in
steps of 5 s, which begin at any second where there is one row a second; once with all readings, and once with machines
read every 15 s, as by default. That of keys learns from generated streams whose hot keys come and go.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.generators.hot_keys import zipf_windows
from benchmarks.workers import LEARNT, RECORDINGS, STEP, Frames, read_recording
from foretide.forecasting import pretrained
from foretide.forecasting.key_net import KeyNet
from foretide.forecasting.portable_features import portable
from foretide.forecasting.saved import save_state
from foretide.forecasting.settings import KeyNetSettings, TrainingBudget
from foretide.forecasting.worker_frames import MachineFrame
from foretide.forecasting.worker_model import WorkerModel
from foretide.settings.forecasts import ForecastSettings

MACHINES_EVERY = 3
"""Steps of 5 s between two readings of a machine by default."""

KEY_STREAMS = ((1.0, 10_000), (1.0, 2_000), (0.6, 10_000), (1.3, 40_000), (0.8, 500))
"""Zipf exponents, and rows in a window."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train_nets", description=__doc__)
    parser.add_argument("which", choices=("workers", "keys"))
    parser.add_argument("--all", action="store_true", help="learn from whole recordings")
    options = parser.parse_args()
    if options.which == "workers":
        train_workers(1.0 if options.all else LEARNT)
    else:
        train_keys()


def train_workers(share: float) -> None:
    """Train on a share of all recordings, and save."""
    net = ForecastSettings().net
    histories = {
        name: [portable(frame, net.targets) for frame in frames[: round(share * len(frames))]]
        for name, frames in _copies()
    }
    model = WorkerModel.trained(replace(net, budget=replace(net.budget, seeds=4)), histories, seed=(1, 0))
    about = {"model": "workers", "step_seconds": STEP, **pretrained.shape_of(net)}
    save_state(pretrained.FOLDER / "workers", model.state(), about)


def _copies() -> Iterator[tuple[str, Frames]]:
    for path in RECORDINGS:
        for offset in range(int(STEP) if path.name == "workers.parquet" else 1) if path.exists() else ():
            frames = read_recording(path, offset)
            name = f"{path.name} from {offset} s on"
            yield name, frames
            yield f"{name}, machines read less often", [_thinned(frame, at) for at, frame in enumerate(frames)]


def _thinned(frame: MachineFrame | None, at: int) -> MachineFrame | None:
    return None if frame is None else MachineFrame({} if at % MACHINES_EVERY else frame.machine, frame.workers)


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
