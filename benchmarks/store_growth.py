"""How large the store of a usual pipeline becomes in a week, and how long the writer is busy with keeping it small.

What a pipeline of four operators with a batch every 500 ms measures: 119 samples a batch, 17.5 a second by the clock,
274 series. Time is moved by hand. All but the last hours are written with one sample of each series every 20 seconds:
what is kept of them, one sample a minute or every five minutes with its figures, takes the same space.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from foretide.metrics.metric import Sample
from foretide.settings.run import MonitorSettings
from foretide.store.metric_store import MetricStore
from foretide.store.upkeep import WriterSettings
from foretide.store.writer import StoreWriter

HOUR = 3600.0
PIECE_OF_TIME = 300.0
BEGIN = 1_750_000_000.0 - 1_750_000_000.0 % 86_400
PERIODS = {"batch": (119, 0.5), "worker": (54, 5.0), "machine": (101, 15.0)}
"""Series by what measures them: how many, and the seconds between two samples."""

SPARSE = 20.0
DENSE_HOURS = 3


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - figures without pictures
    """The size of the file, the longest turn of the writer, and its share of the time."""
    hours = 30 if quick else 7 * 24 + 2
    with tempfile.TemporaryDirectory(prefix="foretide-growth-") as place:
        return {"store of a usual pipeline": _grow(Path(place) / "metrics.db", hours)}


def _grow(path: Path, hours: int) -> dict[str, float]:
    settings, rng, moved = MonitorSettings(), random.Random(1), {"now": BEGIN}
    kept = WriterSettings(retention_seconds=settings.retention, steps=settings.steps, capacity=10**6)

    def steady() -> float:
        return moved["now"]

    turns: list[float] = []
    largest, written = 0, 0
    with StoreWriter(partial(MetricStore.open, path), "p", kept, clock=steady, steady_clock=steady) as writer:
        for piece in range(int(hours * HOUR / PIECE_OF_TIME)):
            dense = piece * PIECE_OF_TIME >= (hours - DENSE_HOURS) * HOUR
            samples = list(_samples(rng, moved["now"], dense=dense))
            written += len(samples)
            moved["now"] += PIECE_OF_TIME
            writer.put(samples)
            pause: float | None = 0.0
            while pause == 0.0:
                began = time.perf_counter()
                pause = writer.turn()
                turns.append(time.perf_counter() - began)
            if writer.problem:
                raise RuntimeError(writer.problem)
            largest = max(largest, _bytes(path))
    with MetricStore.open(path) as store:
        rows = len(store.read("p"))
    return {
        "hours": hours,
        "samples written": written,
        "samples kept": rows,
        "MB at the end": _bytes(path) / 1e6,
        "MB at most, with the WAL": largest / 1e6,
        "longest turn of the writer (ms)": max(turns) * 1e3,
        "share of the time that its turns take": sum(turns) / (hours * HOUR),
    }


def _samples(rng: random.Random, since: float, *, dense: bool) -> Iterator[Sample]:
    for kind, (series, period) in PERIODS.items():
        step = period if dense else max(period, SPARSE)
        for place in range(int(PIECE_OF_TIME / step)):
            for number in range(series):
                yield Sample(f"{kind}-{number}", kind, since + place * step, rng.random() * 1000)


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
