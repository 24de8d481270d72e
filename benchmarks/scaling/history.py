"""How large the store becomes with the time that it holds, and how long it takes to read from it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.scaling.growth import gathered
from benchmarks.scaling.loop import AT_EXECUTORS, TASKS, cpu_ms
from benchmarks.scaling.worlds import MadeUp
from benchmarks.store_growth import BEGIN, HOUR, _bytes, _grow
from foretide.store.metric_store import MetricStore

BATCHES = 4
HOURS = [24, 72, 168, 720]
QUICK_HOURS = [6, 12, 24]


def figures(*, quick: bool) -> dict[str, Any]:
    """The store of a usual pipeline, with the retention of the settings, by hours, and what a batch adds by tasks."""
    return {
        f"the store after {BATCHES} made-up batches by tasks": gathered(TASKS, of_batches),
        "the store of a usual pipeline by hours": gathered(QUICK_HOURS if quick else HOURS, of_hours),
    }


def of_batches(tasks: int) -> dict[str, float]:
    """CPU milliseconds to write the samples of a batch, and bytes, when nothing is thinned out yet."""
    made = MadeUp(tasks, AT_EXECUTORS)
    batches = [made.samples(made.report(number)) for number in range(BATCHES + 1)]
    with tempfile.TemporaryDirectory(prefix="foretide-growth-") as place:
        path = Path(place) / "metrics.db"
        with MetricStore.open(path) as store:
            store.write("p", batches[0])  # the series are new
            begun = _bytes(path)
            spent = cpu_ms(lambda: [store.write("p", samples) for samples in batches[1:]])[1]
        return {
            "samples a batch": float(len(batches[-1])),
            "CPU ms a batch": spent / BATCHES,
            "bytes a batch": max(_bytes(path) - begun, 0) / BATCHES,
        }


def of_hours(hours: int) -> dict[str, float]:
    """Megabytes, and CPU milliseconds to read the last hour of a metric, all of it, and the newest values."""
    with tempfile.TemporaryDirectory(prefix="foretide-growth-") as place:
        path = Path(place) / "metrics.db"
        grown = _grow(path, hours)
        end = BEGIN + hours * HOUR
        with MetricStore.open(path) as store:
            recent = cpu_ms(lambda: store.read("p", metrics=["batch"], subjects=["batch-1"], since=end - HOUR))[1]
            whole = cpu_ms(lambda: store.read("p", metrics=["batch"], subjects=["batch-1"]))[1]
            newest = cpu_ms(lambda: store.latest("p"))[1]
    return {
        "MB": grown["MB at the end"],
        "CPU ms to read the last hour of a metric": recent,
        "CPU ms to read all of a metric": whole,
        "CPU ms to read the newest values": newest,
        "share of the time that the writer takes": grown["share of the time that its turns take"],
    }
