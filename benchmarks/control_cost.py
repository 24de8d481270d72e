"""What monitoring and control cost in CPU time: that of the driver, its JVM and all other processes, in one run.

Ways take turns. CPU time is read from `/proc`: unlike the time of a batch it depends little on what else runs.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import foretide as ft
from benchmarks.monitoring import topology
from foretide.control_folder.folder import ControlFolder
from foretide.runtime.pipeline.query import Query
from foretide.runtime.shutdown import descendants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = ("no follower at all", "audit only", "monitored", "monitored and controlled")
WARM_UP = 3
_TICK = os.sysconf("SC_CLK_TCK")
_JVM = "Spark's driver and executors"


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - figures without pictures
    """CPU time a row by way, and where the time of the last way goes."""
    rounds, batches, rows = (2, 6, 300_000) if quick else (10, 12, 500_000)
    spark = ft.session("local[2]", "foretide-bench", {"spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("OFF")
    try:
        return measure(spark, rounds, batches, rows)
    finally:
        spark.stop()


def measure(spark: SparkSession, rounds: int, batches: int, rows: int) -> dict[str, Any]:
    """Each way is compared with the first within its round."""
    used: dict[str, list[Counter[str]]] = {way: [] for way in WAYS}
    for number in range(-1, rounds):
        for way in WAYS if number % 2 else WAYS[::-1]:
            found = one_round(spark, way, batches, rows)
            if number >= 0:  # the first round is for the JVM to compile
                used[way].append(found)
    per_million = {way: [each.total() / batches / rows * 1e6 for each in found] for way, found in used.items()}
    base = per_million[WAYS[0]]
    costs = [_cost(way, found, base, batches) for way, found in per_million.items()]
    return {
        f"CPU time, {rows:,} rows a batch": costs,
        "where it goes": _parts(used, batches),
    }


def _cost(way: str, found: list[float], base: list[float], batches: int) -> dict[str, Any]:
    more = [100 * (a / b - 1) for a, b in zip(found, base, strict=True)]
    low, _, high = statistics.quantiles(more, n=4) if len(more) > 1 else (more[0],) * 3
    return {
        "way": way,
        "CPU s per million rows, median": statistics.median(found),
        "more than without, median %": statistics.median(more),
        "quartiles %": f"{low:.1f} to {high:.1f}",
        "batches a round": batches,
    }


def _parts(used: dict[str, list[Counter[str]]], batches: int) -> list[dict[str, Any]]:
    """CPU milliseconds a batch by thread and process, of the last way and of the first."""
    first, last = used[WAYS[0]], used[WAYS[-1]]
    names = sorted({name for each in last for name in each}, key=lambda name: -_median(last, name))
    return [
        {
            "part": name,
            "CPU ms a batch": 1000 * _median(last, name) / batches,
            "without": 1000 * _median(first, name) / batches,
        }
        for name in names
        if _median(last, name) * 1000 / batches >= 0.05
    ]


def _median(rounds: list[Counter[str]], name: str) -> float:
    return statistics.median(each[name] for each in rounds)


def one_round(spark: SparkSession, way: str, batches: int, rows: int) -> Counter[str]:
    """CPU seconds by part, over some batches after the first ones."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query, stop = _start(spark, way, rows, folder)
        _until(query, WARM_UP)
        before = cpu_seconds()
        _until(query, WARM_UP + batches)
        after = cpu_seconds()
        stop()
    after.subtract({name: seconds for name, seconds in before.items() if name in after})
    return after


def _start(spark: SparkSession, way: str, rows: int, folder: str) -> tuple[Any, Any]:
    monitored = way in WAYS[2:]
    settings = ft.RunSettings(trigger="0 seconds", monitoring=ft.MonitorSettings() if monitored else None)
    sink, checkpoint = ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint"
    if way == WAYS[0]:
        bare = Query(spark, topology(rows), sink, checkpoint, settings, ControlFolder(f"{checkpoint}/foretide"))
        bare.start()
        return bare.handle, bare.handle.stop
    pipeline = ft.submit(spark, topology(rows), sink, checkpoint, settings)
    if way == WAYS[3]:
        ft.control(pipeline, target=ft.Latency(p99="60s"), settings=ft.Settings())
    return pipeline.query, pipeline.stop


def _until(query: Any, batch: int) -> None:
    while query._jsq.lastProgress() is None or query._jsq.lastProgress().batchId() < batch:
        time.sleep(0.1)


def cpu_seconds() -> Counter[str]:
    """CPU seconds so far, of each thread of this process by its name, and of all processes below it."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    used: Counter[str] = Counter()
    for task in Path("/proc/self/task").iterdir():
        used[names.get(int(task.name), "other threads")] += _of(task / "stat")
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # it may end meanwhile
            kind = _JVM if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes()[:200] else "other processes"
            used[kind] += _of(Path(f"/proc/{pid}/stat"))
    return used


def _of(stat: Path) -> float:
    """User and system time; 0 for one that has ended."""
    try:
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK
