"""Skewed stream-stream joins: Foretide's hot-key plans beside stock Spark, other partitions, salting by hand, rivals.

    python -m benchmarks joins

Every run reads the same files, one a batch and side, as fast as it can, in one session on two cores. What is measured
is the second half of the batches, when plans are in force. LI = (max - avg) / avg is that of the rows of one side that
a partition holds times those of the other (Aj-Stream's measure), read from Spark's state after three of these batches,
and, beside it, that of the pairs that each partition put out. Runs of stock Spark and Foretide alternate; where they
differ little they are repeated, and medians are told. TMPDIR says where files and checkpoints are; in memory they
disturb least.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import foretide as ft
from benchmarks.joins_counts import hot_counts
from benchmarks.joins_moving import moving_keys
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.control.policies.hot_keys import HotKeySettings
from foretide.joins.plan import imbalance
from foretide.joins.settings import WindowSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCHES, SECONDS, BOUND = 14, 10, 2
MEASURED = 7
"""Batches that count, the last ones: a plan is in force from the sixth on."""

SCHEMA = "key long, t timestamp, v long"
EPOCH = 1_700_000_000


@dataclass(frozen=True)
class Case:
    """A workload: its name, skew (or the share of one hot key), rows a batch and side, keys, how many of the joined
    rows are kept, one of so many, and how often it is run."""

    name: str
    zipf: float = 0.0
    hot: float = 0.0
    rows: tuple[int, ...] = (7_000,)
    keys: int = 1_000
    kept: int = 100
    rounds: int = 1


CASES = (
    Case("z = 0", 0.0, rows=(40_000,), keys=10_000, kept=10, rounds=3),
    Case("z = 0.5", 0.5, rows=(30_000,), keys=10_000, kept=10),
    Case("z = 1", 1.0, rows=(12_000,)),
    Case("z = 1.5", 1.5),
    Case("z = 2", 2.0, rows=(5_000,)),
    Case("half of all rows", hot=0.5, rows=(6_000,)),
)
SIZES = tuple(
    Case(f"{rows:,} rows", 1.5, rows=(rows,), kept=10, rounds=rounds)
    for rows, rounds in ((1_000, 3), (2_000, 3), (4_000, 1))
)
WARM_UP = replace(CASES[0], name="warm-up")
"""Java compiles for a minute or two what it then runs for days; with two cores that would be measured instead."""

AMONG_RIVALS = Case("5,000 rows", 1.5, rows=(5_000,))
FLUCTUATING = Case("rate between 2,000 and 8,000", hot=0.5, rows=(2_000, 8_000, 4_000, 7_000, 3_000))
RIVALS = ("2 partitions", "16 partitions", "salted by hand", "ContRand-like", "BiStream-like")


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - no pictures here
    spark = ft.session("local[2]", "foretide-joins", {"spark.sql.streaming.numRecentProgressUpdates": "1000"})
    spark.sparkContext.setLogLevel("OFF")
    bench = Bench(spark, Path(tempfile.mkdtemp(prefix="foretide-joins-")))
    for variant in () if quick else ("stock", "foretide") * 2:
        bench.one(WARM_UP, variant)
    cases = CASES[3:4] if quick else CASES
    hot = CASES[3]
    found: dict[str, Any] = {"by skew, 8 partitions": [bench.row(case) for case in cases]}
    if not quick:
        found["16 partitions"] = [bench.row(hot, partitions=16)]
        found["rivals at z = 1.5, 5,000 rows"] = [
            bench.rival(AMONG_RIVALS, name) for name in ("stock", *RIVALS, "foretide")
        ]
        found["by size, z = 1.5"] = [bench.row(case) for case in SIZES]
        found["fluctuating rate, half of all rows on one key"] = [bench.row(FLUCTUATING)]
    found["aggregation by Python, half of all rows on one key"] = hot_counts(spark, bench.folder, quick=quick)
    found["moving hot keys: LI of the next window, planned ahead"] = moving_keys(quick=quick)
    spark.stop()
    shutil.rmtree(bench.folder, ignore_errors=True)
    return found


class Bench:
    """Runs joins over the same files."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.runs = spark, folder, 0

    def row(self, case: Case, partitions: int = 8) -> dict[str, Any]:
        """Stock and Foretide, in turn."""
        runs = [
            (self.one(case, "stock", partitions), self.one(case, "foretide", partitions)) for _ in range(case.rounds)
        ]
        stock, ours = (
            {name: _middle([run[which][name] for run in runs]) for name in runs[0][which]} for which in (0, 1)
        )
        return {
            "workload": case.name,
            "LI stock": stock["LI"],
            "LI foretide": ours["LI"],
            "LI of pairs stock": stock["LI of pairs"],
            "LI of pairs foretide": ours["LI of pairs"],
            "rows/s stock": stock["rows/s"],
            "rows/s foretide": ours["rows/s"],
            "throughput": ours["rows/s"] / stock["rows/s"],
            "CPU": ours["CPU s"] / stock["CPU s"],
            "p99 batch s stock": stock["p99 batch s"],
            "p99 batch s foretide": ours["p99 batch s"],
            "state rows": ours["state rows"] / max(stock["state rows"], 1),
            "same rows": len({run["checksum"] for both in runs for run in both}) == 1,
        }

    def rival(self, case: Case, variant: str) -> dict[str, Any]:
        found = self.one(case, variant, {"2 partitions": 2, "16 partitions": 16}.get(variant, 8))
        return {name: value for name, value in found.items() if name != "checksum"}

    def one(self, case: Case, variant: str, partitions: int = 8) -> dict[str, Any]:
        """One run over all files of a case."""
        self.runs += 1
        place = self.folder / f"run{self.runs}"
        data = self._data(case)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        left, right = (self._side(data / side, side) for side in "lr")
        joined = joins(left, right, variant, str(place / "control"))
        kept = joined.where(f"(lv * 31 + rv) % {case.kept} = 0")
        writer = kept.select("lv", "rv", F.spark_partition_id().alias("task")).writeStream.format("parquet")
        writer = writer.option("path", str(place / "out")).option("checkpointLocation", str(place / "checkpoint"))
        began = self._cpu()
        query = writer.trigger(processingTime="0 seconds").start()
        if variant == "foretide":
            ft.control(query, ["hot_keys"], settings=settings(), control_folder=str(place / "control"))
        while query.isActive and self._last_batch(query) < BATCHES - 1:
            time.sleep(0.1)
        query.processAllAvailable()
        if query.exception():
            raise query.exception()
        progress = [each for each in query.recentProgress if each.numInputRows]
        query.stop()
        return {**self._figures(case, variant, place, progress), "CPU s": self._cpu() - began}

    def _last_batch(self, query: Any) -> int:
        """Asked for by itself: a whole progress, ten times a second, is work that would be measured."""
        latest = query._jsq.lastProgress()
        return -1 if latest is None else int(latest.batchId())

    def _cpu(self) -> float:
        """Seconds of processor time that Spark's process has used."""
        pid = self.spark._jvm.java.lang.ProcessHandle.current().pid()
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _figures(self, case: Case, variant: str, place: Path, progress: list[Any]) -> dict[str, Any]:
        late = progress[-MEASURED:]
        seconds = [each.durationMs["triggerExecution"] / 1000 for each in late]
        out = self.spark.read.parquet(str(place / "out"))
        since = (BATCHES - MEASURED) * 1_000_000
        loads = {row.task: row["count"] for row in out.where(f"lv >= {since}").groupBy("task").count().collect()}
        partitions = int(self.spark.conf.get("spark.sql.shuffle.partitions"))
        checksum = out.agg(F.count("*"), F.expr("sum(xxhash64(lv, rv) % 1000003)")).first()
        found = {
            "run": variant,
            "LI": held_imbalance(self.spark, place / "checkpoint", partitions, [each.batchId for each in late[::3]]),
            "LI of pairs": imbalance([float(loads.get(task, 0)) for task in range(partitions)]),
            "rows/s": sum(each.numInputRows for each in late) / sum(seconds),
            "p99 batch s": float(np.quantile(seconds, 0.99)),
            "state rows": late[-1].stateOperators[0].numRowsTotal,
            "checksum": tuple(checksum),
        }
        print(f"{case.name}: {found}", flush=True)
        return found

    def _side(self, path: Path, side: str) -> DataFrame:
        read = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(path))
        named = read.select(
            F.col("key").alias(f"{side}key"), F.col("t").alias(f"{side}t"), F.col("v").alias(f"{side}v")
        )
        return named.withWatermark(f"{side}t", "2 seconds")

    def _data(self, case: Case) -> Path:
        """A file a batch and side; the same for every run."""
        place = self.folder / case.name.replace(" ", "_")
        if place.exists():
            return place
        rng = np.random.default_rng(7)
        weights = np.arange(1, case.keys + 1) ** -case.zipf
        for side in "lr":
            (place / side).mkdir(parents=True)
            for batch in range(BATCHES):
                rows = case.rows[batch % len(case.rows)]
                keys = rng.choice(case.keys, rows, p=weights / weights.sum())
                keys = np.where(rng.random(rows) < case.hot, 0, keys)
                times = (EPOCH + batch * SECONDS) * 1_000_000 + np.sort(rng.integers(0, SECONDS * 1_000_000, rows))
                table = pa.table(
                    {
                        "key": keys,
                        "t": pa.array(times, pa.timestamp("us", "UTC")),
                        "v": batch * 1_000_000 + np.arange(rows),
                    }
                )
                pq.write_table(table, place / side / f"{batch:04d}.parquet")
        return place


def held_imbalance(spark: Any, checkpoint: Path, partitions: int, batches: list[int]) -> float:
    """LI of what the partitions of a join hold, rows of the left side times rows of the right; mean over batches."""
    return float(np.mean([_held_imbalance(spark, checkpoint, partitions, batch) for batch in batches]))


def _held_imbalance(spark: Any, checkpoint: Path, partitions: int, batch: int) -> float:
    reader = spark.read.format("statestore").option("operatorId", 0).option("batchId", batch)
    held = []
    for side in ("left", "right"):
        rows = reader.option("joinSide", side).load(str(checkpoint)).groupBy("partition_id").count().collect()
        held.append({row["partition_id"]: row["count"] for row in rows})
    left, right = held
    return imbalance([float(left.get(place, 0) * right.get(place, 0)) for place in range(partitions)])


def _middle(values: list[Any]) -> Any:
    """The median of figures; the first of anything else."""
    return float(np.median(values)) if isinstance(values[0], int | float) else values[0]


def settings() -> ft.Settings:
    return ft.Settings(
        policies={"hot_keys": HotKeySettings(windows=WindowSettings(1.0))},
        guards=GuardSettings(cooldown=0.0),
        evaluation=EvaluationSettings(roll_back=False),
        monitoring=ft.MonitorSettings(store="", workers_every=0, machines_every=0),
    )


def joins(left: DataFrame, right: DataFrame, variant: str, control: str) -> DataFrame:
    """The same join in every way there is."""
    if variant == "foretide":
        return ft.join(left, right, [("lkey", "rkey")], f"{BOUND} seconds", control_folder=control)
    bound = f"rt >= lt - INTERVAL {BOUND} SECONDS AND rt <= lt + INTERVAL {BOUND} SECONDS"
    match variant:
        case "BiStream-like":
            return gridded(left, right, bound, 8, 1, F.expr("true"))
        case "ContRand-like":
            return gridded(left, right, bound, 2, 4, F.expr("true"))
        case "salted by hand":
            return gridded(left, right, bound, 4, 2, None)
    return left.join(right, F.expr(f"lkey = rkey AND {bound}"))


def gridded(left: DataFrame, right: DataFrame, bound: str, rows: int, columns: int, every: Any) -> DataFrame:
    """Salts by hand: all keys, or only the three hottest, which somebody has to know."""
    hot = {side: F.col(f"{side}key") < 3 if every is None else every for side in "lr"}
    row, column = F.pmod(F.xxhash64("lv"), F.lit(rows)), F.pmod(F.xxhash64("rv"), F.lit(columns))
    of_left = F.array(*(row * columns + place for place in range(columns)))
    of_right = F.array(*(column + place * columns for place in range(rows)))
    none = F.array(F.lit(0).cast("long"))
    salted = (
        left.withColumn("ls", F.explode(F.when(hot["l"], of_left.cast("array<long>")).otherwise(none))),
        right.withColumn("rs", F.explode(F.when(hot["r"], of_right.cast("array<long>")).otherwise(none))),
    )
    return salted[0].join(salted[1], F.expr(f"lkey = rkey AND ls = rs AND {bound}"))
