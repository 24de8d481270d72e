"""One run of the slow-worker benchmark in a process of its own: prints its figures as one line of JSON.

    python -m benchmarks.slow_worker_run stateless static 60 25 45
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import foretide as ft
from foretide.apps.disturbance import cpu_hog, pin_executors
from foretide.control.latency import Latency
from foretide.runtime.attach import control
from foretide.runtime.settings.model import Settings
from foretide.workloads.keyed import Keyed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RATE = 30_000.0
VICTIM = "0"
WARM = 2.0


def digest(frame: DataFrame) -> DataFrame:
    text = F.concat_ws("-", "key", "value", "row")
    for _ in range(6):
        text = F.sha2(text, 256)
    return frame.select("key", "value", "event_time", text.alias("digest"))


def count(frame: DataFrame) -> DataFrame:
    hashed = digest(frame).withWatermark("event_time", "1 second")
    window = F.window("event_time", "2 seconds")
    return hashed.groupBy(window, F.substring("digest", 1, 2).alias("prefix")).count().drop("window")


def topology(kind: str, seconds: float) -> ft.Topology:
    spout = ft.Spout("lines", ft.Replay(Keyed(seed=1), ft.Curve.constant(RATE, seconds), partitions=2, flush=10.0))
    if kind == "stateless":
        return ft.Topology("slow", [spout], [ft.Bolt("digest", digest, [ft.From("lines", ft.Dynamic(by=("row",)))], pool=4)])
    return ft.Topology("slow", [spout], [ft.Bolt("digest", count, [ft.From("lines")])])


def main(kind: str, variant: str, seconds: float, start: float, end: float) -> dict[str, Any]:
    options = {"spark.sql.shuffle.partitions": "4", "spark.executor.memory": "768m"}
    if variant == "speculation":
        options |= {"spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.multiplier": "1.5"}
    spark = ft.session("local-cluster[2,1,1024]", "foretide-slow", options)
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:
        warm = ft.submit(spark, topology(kind, 60), ft.Parquet(f"{folder}/warm"), f"{folder}/warm-checkpoint")
        while warm.running and sum(1 for report in warm.reports if report.duration < WARM) < 5:
            time.sleep(0.2)
        warm.stop()
        pinned = pin_executors(spark.sparkContext.applicationId)
        pipeline = ft.submit(spark, topology(kind, seconds), ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint")
        return follow(pipeline, variant, pinned, seconds, (start, end)) | {"kind": kind, "variant": variant}


def follow(
    pipeline: ft.Pipeline, variant: str, pinned: dict[str, int], seconds: float, disturbed: tuple[float, float]
) -> dict[str, Any]:
    """Run to the end, slow the victim down meanwhile, and note the latency of every batch."""
    decisions: list[Any] = []
    controller = attach(pipeline, variant)
    if controller is not None:
        controller.on_decision(lambda decision: decisions.append(decision) if decision.chosen else None)
    with contextlib.ExitStack() as stack:
        begun = hog_at = None
        while pipeline.running and (begun is None or time.time() < begun + seconds + 5):
            time.sleep(0.1)
            begun = begun or (origin(pipeline) if pipeline.reports else None)
            if begun and hog_at is None and variant != "undisturbed" and time.time() >= begun + disturbed[0]:
                stack.enter_context(cpu_hog(pinned, VICTIM, loops=16))
                hog_at = time.time()
            if begun and hog_at and time.time() >= begun + disturbed[1]:
                stack.close()
    pipeline.stop()
    pipeline.raise_failure()
    assert pipeline.monitor is not None
    batches = [batch(pipeline, report, begun or 0.0) for report in list(pipeline.reports) if report.input_rows]
    return {
        "batches": batches,
        "hog_at": None if hog_at is None else hog_at - (begun or 0.0),
        "decisions": [{"at": each.at - (begun or 0.0), "says": [w.action.describe() for w in each.chosen]} for each in decisions],
        "alarms": [alarm.message for alarm in pipeline.alarms],
        "rows": sum(report.input_rows for report in pipeline.reports),
    }


def origin(pipeline: ft.Pipeline) -> float:
    from foretide.runtime.replayed import origin_of

    return origin_of(pipeline)


def batch(pipeline: ft.Pipeline, report: Any, begun: float) -> dict[str, Any]:
    figures = pipeline.monitor._arrivals.figures(report)
    found = pipeline.monitor._arrivals.latency(report, figures)
    return {"at": report.finished - begun, "seconds": report.duration, "rows": report.input_rows,
            "p50": found.get("latency_p50_ms"), "p99": found.get("latency_p99_ms"),
            "workers": {w: sum(r.run_ms for r in report.tasks or () if r.worker == w) for w in ("0", "1")}}


def attach(pipeline: ft.Pipeline, variant: str) -> Any:
    if variant == "foretide":
        return control(pipeline, ["bypass"], Latency(p99="3s"), settings=Settings())
    if variant == "reactive":
        return control(pipeline, ["reactive"], Latency(p99="3s"), settings=Settings())
    return None


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    kind, variant, *numbers = sys.argv[1:]
    print(json.dumps(main(kind, variant, *map(float, numbers))))
