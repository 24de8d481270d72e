"""What monitoring costs: throughput with and without it in one run, and the time to assemble a snapshot."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.metrics.catalogue import at_level
from foretide.metrics.metric import Level, Sample
from foretide.runtime.monitoring.monitor import LatestValues
from foretide.runtime.pipeline.query import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POOL = 4
WAYS = ("no follower at all", "audit only", "monitored")


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - figures without pictures
    """All figures of monitoring."""
    spark = ft.session("local[2]", "foretide-bench", {"spark.driver.memory": "6g"})
    spark.sparkContext.setLogLevel("OFF")
    try:
        rounds, batches, rows = (2, 4, 500_000) if quick else (4, 6, 1_000_000)
        return {
            "throughput with and without monitoring": throughput(spark, rounds, batches, rows),
            "snapshot of 64 workers, 64 machines and 32 operators": snapshots(),
        }
    finally:
        spark.stop()


# ---- throughput


def topology(rows: int) -> ft.Topology:
    def lines(spark: SparkSession) -> DataFrame:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2)
        number = (F.col("value") % 1000).cast("string")
        return source.load().select(F.concat(F.lit("user said http://example.com/p"), number).alias("line"), "value")

    def urls(frame: DataFrame) -> DataFrame:
        return frame.select(F.regexp_extract("line", r"https?://\S+", 0).alias("url"))

    def rare(frame: DataFrame) -> DataFrame:
        return frame.where(F.xxhash64("url") % 1_000_003 == 1)

    extract = ft.Bolt("extract", urls, [ft.From("lines", ft.Dynamic())], pool=POOL)
    keep = ft.Bolt("keep", rare, [ft.From("extract", ft.Dynamic())], pool=POOL)
    return ft.Topology("bench", [ft.Spout("lines", ft.Stream(lines))], [extract, keep])


def throughput(spark: SparkSession, rounds: int, batches: int, rows: int) -> list[dict[str, Any]]:
    """Ways take turns, and each is compared with the first within its round: the machine drifts."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    one_round(spark, WAYS[-1], batches, rows)
    for number in range(rounds):
        for way in WAYS if number % 2 else WAYS[::-1]:
            rates[way].append(one_round(spark, way, batches, rows))
    base = rates[WAYS[0]]
    return [
        {
            "way": way,
            "median rows/s": statistics.median(found),
            "loss, median of rounds %": 100 * (1 - statistics.median(a / b for a, b in zip(found, base, strict=True))),
            "least loss %": 100 * (1 - max(a / b for a, b in zip(found, base, strict=True))),
            "most loss %": 100 * (1 - min(a / b for a, b in zip(found, base, strict=True))),
        }
        for way, found in rates.items()
    ]


def one_round(spark: SparkSession, way: str, batches: int, rows: int) -> float:
    """Rows a second over some batches, the first two aside."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ft.RunSettings(
            trigger="0 seconds", monitoring=ft.MonitorSettings(workers_every=5) if way == WAYS[2] else None
        )
        sink, checkpoint = ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint"
        if way == WAYS[0]:
            bare = Query(spark, topology(rows), sink, checkpoint, settings, ControlFolder(f"{checkpoint}/foretide"))
            bare.start()
            query = bare.handle
        else:
            pipeline = ft.submit(spark, topology(rows), sink, checkpoint, settings)
            query = pipeline.query
        begun = query.lastProgress.batchId if query.lastProgress else -1
        while query.lastProgress is None or query.lastProgress.batchId < begun + batches + 2:
            time.sleep(0.05)
        seconds = [each.durationMs["triggerExecution"] / 1000 for each in query.recentProgress if each.numInputRows]
        query.stop() if way == WAYS[0] else pipeline.stop()
    return rows / statistics.mean(sorted(seconds[2:])[: max(1, len(seconds[2:]) * 3 // 4)])


# ---- snapshot


def snapshots() -> list[dict[str, Any]]:
    """A board as full as that of a large cluster; the time to take a snapshot of it and read all of its figures."""
    samples = [
        *_all(Level.WORKER, [str(worker) for worker in range(64)]),
        *_all(Level.MACHINE, [f"host{machine}" for machine in range(64)]),
        *_all(Level.OPERATOR, [f"bolt{bolt}" for bolt in range(32)]),
        *_all(Level.EDGE, [f"bolt{bolt}" for bolt in range(32)]),
        *_all(Level.TASK, [f"bolt{bolt}/{task}" for bolt in range(32) for task in range(8)]),
        *_all(Level.QUERY, ["bench"]),
    ]
    board = LatestValues("bench")
    taken = [_timed(lambda: board.put(samples)) for _ in range(20)]
    assembled = [_timed(lambda: board.snapshot(time.time())) for _ in range(50)]
    snapshot = board.snapshot(time.time())
    read = [_timed(lambda: [snapshot.figure(*key) for key in snapshot.figures]) for _ in range(20)]
    return [
        {"step": "take all samples in", "figures": len(samples), "median ms": statistics.median(taken)},
        {"step": "assemble the snapshot", "figures": len(samples), "median ms": statistics.median(assembled)},
        {"step": "read every figure with its age", "figures": len(samples), "median ms": statistics.median(read)},
    ]


def _all(level: Level, subjects: list[str]) -> list[Sample]:
    now = time.time()
    return [Sample(metric.name, subject, now, 1.5) for metric in at_level(level) for subject in subjects]


def _timed(work: Any) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000
