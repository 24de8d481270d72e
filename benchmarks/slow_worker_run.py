"""One run of the slow-worker benchmark in a process of its own: prints its figures as one line of JSON.

python -m benchmarks.slow_worker_run stateless foretide 24 78 15 75
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from tests.standalone import HOSTS, StandaloneCluster

import foretide as ft
from foretide.apps.experiment import cpu_hog, is_over, origin_of, pin, pin_executors, replay_of, taken_by
from foretide.control.policies.baselines import Reactive
from foretide.runtime.loop.batch_watch import BatchWatch
from foretide.runtime.monitoring.tuple_latency import latencies
from foretide.spark.executors import driver_pid
from foretide.workloads.keyed import Keyed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RATE = 20_000.0
VICTIM = "0"
WARM, WARM_BATCHES = 2.0, 6
EXECUTORS = 2
POLICIES: dict[str, list[Any] | None] = {
    "foretide": None,
    "at-batch-end": None,
    "reactive": [Reactive()],
    "speculation+reactive": [Reactive()],
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}


def digest(frame: DataFrame) -> DataFrame:
    text = F.concat_ws("-", "key", "value", "row")
    for _ in range(6):
        text = F.sha2(text, 256)
    return frame.select("key", "value", "event_time", text.alias("digest"))


def count(frame: DataFrame) -> DataFrame:
    window = F.window("event_time", "2 seconds")
    keyed = frame.withWatermark("event_time", "1 second").groupBy(window, (F.col("key") % 1000).alias("key"))
    return digest(
        keyed.agg(F.count("*").alias("value"), F.max("row").alias("row"), F.max("event_time").alias("event_time"))
    )


def topology(kind: str, seconds: float) -> ft.Topology:
    spout = ft.Spout("lines", ft.Replay(Keyed(seed=1), ft.Curve.constant(RATE, seconds), partitions=2, flush=60.0))
    if kind == "stateless":
        bolt = ft.Bolt("digest", digest, [ft.From("lines", ft.Dynamic(by=("row",)))], pool=2)
    else:
        bolt = ft.Bolt("count", count, [ft.From("lines")])
    return ft.Topology("slow", [spout], [bolt])


def main(kind: str, variant: str, loops: int, seconds: float, start: float, end: float) -> dict[str, Any]:
    os.environ["SPARK_LOCAL_IP"] = HOSTS[0]
    with tempfile.TemporaryDirectory() as folder, StandaloneCluster(f"{folder}/cluster", cores=1) as cluster:
        spark = two_executors(cluster.url, variant)
        warm_up(spark, kind, folder)
        pinned = pin_executors(spark.sparkContext.applicationId)
        for process in (os.getpid(), driver_pid(spark.sparkContext)):
            pin(process, pinned["1"])
        pipeline = ft.submit(spark, topology(kind, seconds), ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint")
        found = follow(pipeline, variant, loops, pinned, (start, end))
        spark.stop()
    return found | {"kind": kind, "variant": variant, "loops": loops}


def two_executors(master: str, variant: str) -> Any:
    """A session with an executor of one core on each host."""
    options = {"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "768m", "spark.executor.cores": "1"}
    spark = ft.session(master, "foretide-slow", options | (SPECULATION if variant.startswith("speculation") else {}))
    spark.sparkContext.setLogLevel("OFF")
    status = spark.sparkContext._jsc.sc()
    while status.getExecutorMemoryStatus().size() <= EXECUTORS:  # the driver is one of them
        time.sleep(0.1)
    return spark


def warm_up(spark: Any, kind: str, folder: str) -> None:
    """Until batches are as short as they get: a JVM takes its time."""
    pipeline = ft.submit(spark, topology(kind, 120), ft.Parquet(f"{folder}/warm"), f"{folder}/warm-checkpoint")
    while pipeline.running and sum(report.duration < WARM for report in list(pipeline.reports)) < WARM_BATCHES:
        time.sleep(0.2)
    pipeline.stop()
    pipeline.raise_failure()


def follow(
    pipeline: ft.Pipeline, variant: str, loops: int, pinned: dict[str, int], slow: tuple[float, float]
) -> dict[str, Any]:
    """Run to the end, slow the victim down meanwhile, and note the latency of every batch."""
    plan = replay_of(pipeline.topology)
    decisions: list[Any] = []
    copies: list[float] = []
    if variant == "at-batch-end":
        BatchWatch.start = lambda *_: None  # type: ignore[method-assign]
        BatchWatch.copy_tasks = lambda *_: None  # type: ignore[method-assign]
    if variant in POLICIES:
        controller = ft.control(
            pipeline,
            POLICIES[variant],
            ft.Latency(p99="3s"),
            settings=ft.Settings(),
            min_executors=EXECUTORS,
            max_executors=EXECUTORS,
        )
        controller.on_decision(lambda decision: decisions.append(decision) if decision.chosen else None)
        pipeline.follower.monitor.on_samples(
            lambda samples: copies.extend(each.value for each in samples if each.metric == "worker_copied_tasks")
        )
    begun = hog_at = None
    with contextlib.ExitStack() as stack:
        while pipeline.running and not is_over(pipeline, plan):
            time.sleep(0.1)
            begun = begun or (origin_of(pipeline) if pipeline.reports else None)
            elapsed = time.time() - begun if begun else 0.0
            if hog_at is None and variant != "undisturbed" and elapsed >= slow[0]:
                stack.enter_context(cpu_hog(pinned, VICTIM, loops))
                hog_at = elapsed
            if elapsed >= slow[1]:
                stack.close()
    pipeline.stop()
    pipeline.raise_failure()
    taken = sum(report.input_rows for report in pipeline.reports)
    return {
        "batches": [batch(plan, report, begun or 0.0) for report in list(pipeline.reports) if report.input_rows],
        "hog_at": hog_at,
        "decisions": [
            {"at": each.at - (begun or 0.0), "says": [wish.action.describe() for wish in each.chosen]}
            for each in decisions
        ],
        "within_batch": any("running slowness" in wish.reason for each in decisions[:1] for wish in each.chosen),
        "copies": sum(copies),
        "alarms": [alarm.message for alarm in pipeline.alarms],
        "missing": abs((plan.total_rows or 0) - taken) + lost(pipeline, plan),
    }


def lost(pipeline: ft.Pipeline, plan: Any) -> int:
    """Rows that are not in the output exactly once."""
    if pipeline.topology.bolts[0].id == "digest":
        frame = pipeline.output("digest")
        rows, distinct = frame.count(), frame.select("value").distinct().count()
        return abs(rows - (plan.total_rows or 0)) + rows - distinct
    counted = pipeline.output("count").agg(F.sum("value")).first()[0]
    return abs((plan.payload_rows or 0) - counted)


def batch(plan: Any, report: Any, begun: float) -> dict[str, Any]:
    taken = taken_by(report)
    found = latencies(plan, taken, report.finished)
    return {
        "at": report.finished - begun,
        "seconds": report.duration,
        "rows": report.input_rows,
        "p50": float(sorted(found)[len(found) // 2]),
        "p99": float(sorted(found)[-1 - len(found) // 100]),
        "latencies": [round(float(value), 4) for value in found],
        "workers": {w: sum(run.run_ms for run in report.tasks or () if run.worker == w) for w in ("0", "1")},
    }


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    kind, variant, loops, *numbers = sys.argv[1:]
    print(json.dumps(main(kind, variant, int(loops), *map(float, numbers))))
