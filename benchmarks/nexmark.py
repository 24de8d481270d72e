"""Nexmark's queries on Spark alone and with Foretide attached, over the same events.

    python -m benchmarks nexmark

Every run reads the same files, one a batch, as fast as it can, in one session on two cores; the sink discards the rows
after they were counted and hashed. With Foretide, queries with a join use `ft.join`, those with another state have an
edge in front of it, all others neither; the control loop is attached to all. Runs alternate, and the side that begins
changes. The first batches of a run are not measured, nor is the last one, which only closes windows.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import foretide as ft
from foretide.apps.nexmark.files import stream_of, write_files
from foretide.apps.nexmark.queries import QUERIES
from foretide.apps.nexmark.ways import Controlled, Plain
from foretide.workloads.nexmark import NexmarkEvents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MADE = NexmarkEvents(seed=7, rate=10_000.0)
SPARK, FORETIDE = "Spark", "Foretide"
SUM = "nexmark_sum"


@dataclass(frozen=True)
class Work:
    """Events of a batch, batches, how many of them are not measured, and how often each query is run on each side."""

    events: int = 100_000
    batches: int = 10
    left_out: int = 4
    rounds: int = 3


@dataclass(frozen=True)
class Run:
    """What one run took: seconds of each measured batch, and number and hash of all rows that came out."""

    seconds: tuple[float, ...]
    result: tuple[int, int]

    def rate(self, work: Work) -> float:
        """Events per second."""
        return work.events * len(self.seconds) / sum(self.seconds)


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    work = Work(events=10_000, rounds=1) if quick else Work()
    spark = ft.session("local[2]", "foretide-nexmark", {"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    place = Path(tempfile.mkdtemp(prefix="foretide-nexmark-"))
    try:
        write_files(place / "events", MADE, [work.events] * work.batches)
        bench = Bench(spark, place, work)
        for side in (SPARK, FORETIDE):
            bench.one("q5", side)  # Java compiles what is run often
        rows = [bench.row(query) for query in QUERIES]
    finally:
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)
    return {f"{work.batches} batches of {work.events:,} events, {work.rounds} runs a side, medians": rows}


@dataclass
class Bench:
    """Runs queries over the same files."""

    spark: SparkSession
    folder: Path
    work: Work
    runs: int = 0

    def row(self, query: str) -> dict[str, Any]:
        """Both sides, in turn."""
        found: dict[str, list[Run]] = {SPARK: [], FORETIDE: []}
        for turn in range(self.work.rounds):
            for side in (SPARK, FORETIDE) if turn % 2 == 0 else (FORETIDE, SPARK):
                found[side].append(self.one(query, side))
        rates = {side: [each.rate(self.work) for each in runs] for side, runs in found.items()}
        figures: dict[str, Any] = {"query": query}
        for side, values in rates.items():
            figures[f"events/s {side}"] = median(values)
            figures[f"from .. to {side}"] = f"{min(values):,.0f} .. {max(values):,.0f}"
        figures["ratio"] = median(rates[FORETIDE]) / median(rates[SPARK])
        for side, runs in found.items():
            figures[f"batch s {side}"] = median(second for each in runs for second in each.seconds)
        results = {each.result for runs in found.values() for each in runs}
        return {**figures, "rows": max(results)[0], "same rows": len(results) == 1}

    def one(self, query: str, side: str) -> Run:
        """One run over all files."""
        self.runs += 1
        checkpoint = self.folder / f"run{self.runs}"
        ways = Plain() if side == SPARK else Controlled(str(checkpoint / "foretide"))
        result = QUERIES[query](stream_of(self.spark, self.folder / "events"), MADE, ways)
        hashes = F.sum(F.pmod(F.xxhash64(*result.columns), F.lit(1_000_003))).alias("hash")
        counted = result.observe(SUM, F.count(F.lit(1)).alias("rows"), hashes)
        writer = counted.writeStream.format("noop").queryName(f"{query}-{side}")
        running = writer.option("checkpointLocation", str(checkpoint)).start()
        controller = ft.control(running) if side == FORETIDE else None
        running.processAllAvailable()
        progress = list(running.recentProgress)
        running.stop()
        if controller is not None:
            controller.stop()
        return self._figures(progress)

    def _figures(self, progress: list[Any]) -> Run:
        batches = sorted((each for each in progress if each.numInputRows), key=lambda each: each.batchId)
        measured = batches[self.work.left_out : self.work.batches]
        sums = [each.observedMetrics[SUM] for each in progress if SUM in each.observedMetrics]
        result = sum(each["rows"] for each in sums), sum(each["hash"] or 0 for each in sums)
        return Run(tuple(each.durationMs["triggerExecution"] / 1000 for each in measured), result)
