"""The engine: throughput of a routed edge beside its rivals, 200 re-splits, and what the audit costs."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.routing.ring import DEFAULT_SLOTS
from foretide.spark.edges import barrier, exchange, task_column
from foretide.spark.groupings import slot_of
from foretide.spark.progress.reader import QueryReader
from foretide.spark.rest import SparkRest
from foretide.workloads.keyed import Keyed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

POOL = 4


def run(*, quick: bool, folder: Path) -> dict[str, Any]:  # noqa: ARG001 - engine figures need no pictures
    """All figures of the engine."""
    spark = ft.session("local[2]", "foretide-bench", {"spark.driver.memory": "6g"})
    spark.sparkContext.setLogLevel("OFF")
    try:
        return {
            "throughput of an edge": throughput(spark, quick=quick),
            "cost of watching": watching(spark, quick=quick),
            "cost of tuple ids": tuple_ids(spark, quick=quick),
            "re-splits of a running query": resplits(spark, quick=quick),
        }
    finally:
        spark.stop()


# ---- throughput


def lines(spark: SparkSession, rows: int) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    number = (F.col("value") % 1000).cast("string")
    return source.select(F.concat(F.lit("user said http://example.com/p"), number, F.lit(" ok")).alias("line"), "value")


def urls(frame: DataFrame) -> DataFrame:
    return frame.select(F.regexp_extract("line", r"https?://\S+", 0).alias("url"), "value")


def batch_seconds(frame: DataFrame, batches: int, follow: Callable[[Any], Any] | None = None) -> list[float]:
    """Run a query into nothing and time its batches; the first two warm up."""
    with tempfile.TemporaryDirectory(prefix="foretide-bench-") as folder:
        query = (
            frame.writeStream.format("noop").option("checkpointLocation", folder).trigger(processingTime="0 seconds")
        )
        started = query.start()
        follower = follow(started) if follow else None
        while (last := started.lastProgress) is None or last.batchId < batches + 1:
            time.sleep(0.05)
            if not started.isActive:
                raise RuntimeError(str(started.exception()))
        seconds = [p.durationMs["triggerExecution"] / 1000 for p in started.recentProgress if p.numInputRows]
        started.stop()
        if follower is not None:
            follower.set()
    return seconds[2 : batches + 2]


Modes = dict[str, "tuple[Callable[[], DataFrame], Callable[[Any], Any] | None]"]


def compare(modes: Modes, batches: int, rounds: int) -> dict[str, float]:
    """What a batch of each mode takes while nothing else disturbs: the lower quartile of all its batches.

    Modes take turns, so that a drifting machine is fair to all; other processes only ever add to a batch.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds):
        for name, (build, follow) in list(modes.items())[:: 1 if turn % 2 == 0 else -1]:
            seconds[name] += batch_seconds(build(), batches, follow)
    return {name: statistics.quantiles(times, n=4)[0] for name, times in seconds.items()}


def throughput(spark: SparkSession, *, quick: bool) -> list[dict[str, Any]]:
    rows, batches, rounds = (200_000, 2, 1) if quick else (2_000_000, 5, 4)
    with tempfile.TemporaryDirectory(prefix="foretide-bench-") as control:
        routed = ft.edge("parse", ft.Dynamic(by=("value",)), replicas=POOL, control_folder=control)
        modes: Modes = {
            "routed edge": (lambda: urls(lines(spark, rows).transform(routed)), None),
            "repartition(n)": (lambda: urls(barrier(lines(spark, rows).repartition(POOL))), None),
            "repartition(n, key)": (
                lambda: urls(lines(spark, rows).repartition(POOL, "value").transform(barrier)),
                None,
            ),
            "no exchange": (lambda: urls(lines(spark, rows)), None),
        }
        seconds = compare(modes, batches, rounds)
    return [
        {
            "edge": name,
            "rows": rows * batches * rounds,
            "rows/s": rows / seconds[name],
            "routed edge / this": seconds[name] / seconds["routed edge"],
        }
        for name in modes
    ]


# ---- the cost of watching


def bare_edge(frame: DataFrame, control: str) -> DataFrame:
    """The same edge and table, with nothing that confirms or counts."""
    spark = frame.sparkSession
    schema = "format int, version long, edges map<string, struct<pool int, ring array<int>>>"
    table = spark.read.schema(schema).option("multiLine", value=True).json(ControlFolder(control).routes_url)
    ring = table.select(F.try_element_at("edges", F.lit("parse"))["ring"]).scalar()
    slot = slot_of(frame, ["value"], DEFAULT_SLOTS)
    task = F.coalesce(F.get(ring, slot), slot % POOL)
    return barrier(frame.withColumn("_ft_parse", task).repartitionById(POOL, "_ft_parse")).drop("_ft_parse")


def follower(query: Any) -> threading.Event:
    """Read every batch back as a pipeline does, until told to stop."""
    stop = threading.Event()
    reader = QueryReader(query)

    def follow() -> None:
        while not stop.is_set():
            reader.reports()
            time.sleep(0.1)
        reader.close()

    threading.Thread(target=follow, daemon=True).start()
    return stop


def watching(spark: SparkSession, *, quick: bool) -> list[dict[str, Any]]:
    """What confirming, counting and the XOR of ids cost: milliseconds a batch, and the share of a full batch."""
    rows, batches, rounds = (100_000, 3, 1) if quick else (2_000_000, 6, 6)
    with tempfile.TemporaryDirectory(prefix="foretide-bench-") as control:
        full = compare(watched(spark, rows, control), batches, rounds)
        tiny = compare(watched(spark, 1000, control), 10 * batches, 1 if quick else 2)
    return [
        {
            "watched": name,
            "rows a batch": rows,
            "batch, s": full[name],
            "overhead, %": 100 * (full[name] / full["nothing"] - 1),
            "overhead of a tiny batch, ms": 1000 * (tiny[name] - tiny["nothing"]),
        }
        for name in full
    ]


def watched(spark: SparkSession, rows: int, control: str) -> Modes:
    edge = ft.edge("parse", ft.Dynamic(by=("value",)), replicas=POOL, control_folder=control)
    with_ids = ft.edge("parse", ft.Dynamic(by=("value",)), replicas=POOL, control_folder=control, audit=True)
    lines(spark, rows).transform(edge)  # the table has to be there before the bare edge reads it
    return {
        "nothing": (lambda: urls(bare_edge(lines(spark, rows), control)), None),
        "route confirmed": (lambda: urls(lines(spark, rows).transform(edge)), None),
        "confirmed and counted": (lambda: urls(lines(spark, rows).transform(edge)), follower),
        "confirmed, counted, XOR of ids": (lambda: urls(lines(spark, rows).transform(with_ids)), follower),
    }


# ---- the cost of tuple ids


def tuple_ids(spark: SparkSession, *, quick: bool) -> list[dict[str, Any]]:
    """CPU time of all tasks with and without the XOR of ids, both sides of an edge together, for a row.

    Modes take turns, and the least of all rounds counts: other processes only ever add to it.
    """
    rows, rounds = (100_000, 2) if quick else (1_000_000, 6)
    figures = []
    for columns in (2, 20):
        spent: dict[bool, list[float]] = defaultdict(list)
        for _ in range(rounds + 1):
            for audit in (False, True):
                spent[audit].append(cpu_seconds(spark, audited(spark, rows, columns, audit=audit)))
        without, with_ids = (min(spent[audit][1:]) / rows for audit in (False, True))
        figures.append(
            {
                "columns": columns,
                "rows": rows,
                "a row over an edge, ns of CPU": 1e9 * without,
                "its ids, ns of CPU": 1e9 * (with_ids - without),
            }
        )
    return figures


def audited(spark: SparkSession, rows: int, columns: int, *, audit: bool) -> DataFrame:
    text = F.concat(F.lit("user said number "), F.col("id").cast("string"))
    more = [(F.col("id") * place if place % 2 else text).alias(f"c{place}") for place in range(1, columns)]
    frame = spark.range(0, rows, 1, 2).select("id", *more)
    placed = frame.withColumn(task_column("parse"), F.pmod(F.xxhash64("id"), F.lit(POOL)).cast("int"))
    return exchange(placed, "parse", POOL, audit=audit)


def cpu_seconds(spark: SparkSession, frame: DataFrame) -> float:
    """Run a frame into nothing: the CPU time of its tasks."""
    rest = SparkRest.of(spark.sparkContext)
    before = {stage["stageId"] for stage in rest.get("stages")}
    frame.write.format("noop").mode("overwrite").save()
    time.sleep(0.5)  # Spark's own figures come a little later
    return sum(stage["executorCpuTime"] for stage in rest.get("stages") if stage["stageId"] not in before) / 1e9


# ---- re-splits


def resplits(spark: SparkSession, *, quick: bool) -> list[dict[str, Any]]:
    """Re-split a running query again and again, and compare its output with that of an uncontrolled run."""
    changes, a_batch = (10, 10_000) if quick else (200, 10_000)
    with tempfile.TemporaryDirectory(prefix="foretide-bench-") as folder:
        pipeline = submit(spark, f"{folder}/steered", 1_000_000_000, a_batch)
        published = steer(pipeline, changes)
        pipeline.stop()
        pipeline.raise_failure()
        taken = sum(report.input_rows for report in pipeline.reports)
        free = submit(spark, f"{folder}/free", taken, 500_000)
        while sum(report.input_rows for report in list(free.reports)) < taken:
            time.sleep(0.1)
        free.stop()
        same = digest(pipeline) == digest(free)
    late, worst_off = judge(pipeline, published)
    return [
        {
            "re-splits": changes,
            "rows": taken,
            "batches": len(pipeline.reports),
            "not in force by the next batch": late,
            "worst rows per task, sampling errors": worst_off,
            "restarts": pipeline.restarts,
            "alarms": len(pipeline.alarms),
            "output identical": same,
        }
    ]


def submit(spark: SparkSession, folder: str, rows: int, a_batch: int) -> ft.Pipeline:
    source = ft.Replay(Keyed(seed=11), ft.Curve.constant(float(rows), 1.0), paced=False, max_rows=a_batch)
    digests = lambda frame: frame.select("row", "key", "value", F.sha2(F.col("value").cast("string"), 256).alias("d"))  # noqa: E731
    bolt = ft.Bolt("work", digests, [ft.From("numbers", ft.Dynamic(by=("row",)))], pool=3)
    topology = ft.Topology(Path(folder).name, [ft.Spout("numbers", source)], [bolt])
    settings = ft.RunSettings(trigger="0 seconds")
    return ft.submit(spark, topology, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint", settings)


def steer(pipeline: ft.Pipeline, changes: int) -> list[tuple[float, int, tuple[float, ...]]]:
    ratios = ("7:3:2", "1:1:1", "2:1:0", "4:3:1", "0:0:1", "1:8:1")
    published = []
    for turn in range(changes):
        table = pipeline.split("work", ratios[turn % len(ratios)])
        published.append((time.time(), table.version, table.edges["work"].shares))
        while not pipeline.reports or (pipeline.reports[-1].route_version or 0) < table.version:
            time.sleep(0.02)
            pipeline.raise_failure()
    return published


def judge(pipeline: ft.Pipeline, published: list[tuple[float, int, tuple[float, ...]]]) -> tuple[int, float]:
    """Batches that began after a publication but used an older version; and the worst split, in standard errors."""
    shares = {version: parts for _, version, parts in published}
    late, worst = 0, 0.0
    for report in pipeline.reports:
        newest = max((v for at, v, _ in published if at < report.finished - report.duration), default=0)
        late += (report.route_version or 0) < newest
        flow = (report.edges or {}).get("work")
        if flow is not None and flow.per_task and report.route_version in shares:
            worst = max(worst, *map(partial(off_by, flow.read), flow.per_task, shares[report.route_version]))
    return late, worst


def off_by(total: int, rows: int, share: float) -> float:
    """How many standard errors of random sampling the rows of a task are off."""
    error = (total * share * (1 - share)) ** 0.5
    return abs(rows - total * share) / error if error else float(rows != total * share)


def digest(pipeline: ft.Pipeline) -> tuple[Any, ...]:
    """Count, sum and XOR over all columns of the output: equal for equal multisets of distinct rows."""
    every = F.xxhash64("row", "key", "value", "d")
    frame = pipeline.output("work").agg(
        F.count("*"), F.countDistinct("row"), F.bit_xor(every), F.sum(every.cast("decimal(38,0)"))
    )
    return tuple(frame.first() or ())
