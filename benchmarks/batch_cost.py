"""What a batch costs: the URL count as a topology, bare and controlled, beside the same count as a plain query."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import foretide as ft
from foretide.apps.app import Load
from foretide.apps.url_count import WINDOW_SECONDS, build
from foretide.control_folder.folder import ControlFolder
from foretide.spark.sources.port import LoadContext
from foretide.spark.sources.registry import source_port
from foretide.workloads.requests import RequestLines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTERS = ("local[2]", "local-cluster[2,1,1024]")
ROWS = 20_000
WARM_UP = 4
PARTS = {
    "planning": ("queryPlanning",),
    "jobs": ("addBatch",),
    "source": ("latestOffset", "getBatch"),
    "logs": ("walCommit", "commitOffsets", "commitBatch"),
}


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - figures without pictures
    """The time of a batch on each master."""
    rounds, batches = (2, 6) if quick else (5, 12)
    return {f"20,000 rows a batch, {master}": compare(master, rounds, batches) for master in MASTERS}


@dataclass
class Batches:
    """The batches of one way, over all rounds: their seconds, those of each part, and the median of each round."""

    seconds: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})
    stages: int = 0
    rounds: list[float] = field(default_factory=list)

    def add(self, found: list[dict[str, int]], stages: int) -> None:
        """Take the durations of one round in, in milliseconds."""
        seconds = [each["triggerExecution"] / 1000 for each in found]
        self.seconds += seconds
        self.rounds.append(statistics.median(seconds))
        self.stages = stages
        for part, names in PARTS.items():
            self.parts[part] += [sum(each.get(name, 0) for name in names) / 1000 for each in found]


def compare(master: str, rounds: int, batches: int) -> list[dict[str, Any]]:
    """Ways take turns in one session, and each is compared with the first within its round: the machine drifts."""
    options = {"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m"}
    spark = ft.session(master, "foretide-bench", options)
    spark.sparkContext.setLogLevel("OFF")
    found = {way: Batches() for way in WAYS}
    try:
        for number in range(rounds + 1):
            for way in list(WAYS)[:: 1 if number % 2 else -1]:
                durations, stages = one_round(spark, WAYS[way], batches)
                if number:  # the first round is for the JVM to compile
                    found[way].add(durations, stages)
    finally:
        spark.stop()
    base = next(iter(found.values()))
    return [_row(way, each, base) for way, each in found.items()]


def _row(way: str, found: Batches, base: Batches) -> dict[str, Any]:
    low, _, high = statistics.quantiles(found.seconds, n=4)
    ratios = [a / b for a, b in zip(found.rounds, base.rounds, strict=True)]
    return {
        "way": way,
        "median s": statistics.median(found.seconds),
        "quartiles s": f"{low:.3f} to {high:.3f}",
        "times plain, median of rounds": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "stages": found.stages,
        **{f"{part} s": statistics.median(each) for part, each in found.parts.items()},
    }


def one_round(spark: SparkSession, start: Callable[..., tuple[Any, Any]], batches: int) -> tuple[list[Any], int]:
    """The durations of some batches, those of the start aside, and the stages of the last job."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query, stop = start(spark, folder, batches + WARM_UP + 4)
        wanted = batches + WARM_UP
        while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < wanted):
            time.sleep(0.05)
        progress = [each for each in query.recentProgress if each.numInputRows == ROWS]
        stages = _stages(spark, str(query.runId))
        stop()
    return [each.durationMs for each in progress[WARM_UP:wanted]], stages


def _stages(spark: SparkSession, group: str) -> int:
    """The stages of a batch that ran."""
    tracker = spark.sparkContext.statusTracker()
    counts = []
    for job in sorted(tracker.getJobIdsForGroup(group))[-8:]:
        with suppress(Exception):
            counts.append(len(tracker.getJobInfo(job).stageIds))
    return max(counts, default=0)


def topology(batches: int) -> ft.Topology:
    """The application, with as many rows in each batch."""
    curve = ft.Curve.constant(ROWS, float(batches))
    lines = RequestLines(seed=7, urls=1000, zipf=1.1, malformed=0.001)
    source = ft.Replay(lines, curve, event_seconds=batches * 30.0, max_rows=ROWS, paced=False)
    return replace(build(Load()), spouts=[ft.Spout("requests", source)])


def _plain(spark: SparkSession, folder: str, batches: int) -> tuple[Any, Any]:
    (spout,) = topology(batches).spouts
    context = LoadContext(spark, spout.id, ControlFolder(f"{folder}/control"))
    lines = source_port(spout.source).load(context)
    counts = _count(lines).writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = counts.start(f"{folder}/out")
    return query, query.stop


def _count(lines: DataFrame) -> DataFrame:
    """The count as people write it in Spark."""
    found = lines.withColumn("url", F.regexp_extract("line", r"https?://\S+", 0)).where("url != ''")
    window = F.window("event_time", f"{WINDOW_SECONDS} seconds")
    counts = found.withWatermark("event_time", "1 second").groupBy(window, "url").agg(F.count("*").alias("requests"))
    return counts.select(F.col("window.start").alias("window_start"), "url", "requests")


def _bare(spark: SparkSession, folder: str, batches: int) -> tuple[Any, Any]:
    settings = ft.RunSettings(monitoring=None, trigger="0 seconds")
    pipeline = ft.submit(spark, topology(batches), ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint", settings)
    return pipeline.query, pipeline.stop


def _controlled(spark: SparkSession, folder: str, batches: int) -> tuple[Any, Any]:
    settings = ft.RunSettings(trigger="0 seconds")
    pipeline = ft.submit(spark, topology(batches), ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint", settings)
    ft.control(pipeline, target=ft.Latency(p99="60s"), settings=ft.Settings())
    return pipeline.query, pipeline.stop


WAYS = {"plain query": _plain, "topology": _bare, "topology, controlled": _controlled}
