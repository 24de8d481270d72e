"""One of the pipelines that `benchmarks.record_workers` records, in a process and a Spark session of its own.

    python -m benchmarks.recorded_pipeline NAME TRACE RATE SECONDS FOLDER

It prints `ready` once its batches are short and its executors pinned, and runs until its standard input is closed.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

import foretide as ft
from foretide.apps.experiment import pin_executors
from foretide.workloads.keyed import Keyed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXECUTORS = 2
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # several JVMs share a few cores
_WARM_SECONDS, _WARM_BATCHES, _WARM_LIMIT = 6.0, 4, 240.0
_ATTEMPTS = 4


def topology(name: str, curve: ft.Curve) -> ft.Topology:
    """Hashing that takes a while, then a second edge: work, queues and shuffles to measure."""

    def digest(frame: DataFrame) -> DataFrame:
        text = F.concat_ws("-", "key", "value", "row")
        for _ in range(12):
            text = F.sha2(text, 512)
        return frame.select("key", text.alias("digest"))

    spout = ft.Spout("lines", ft.Replay(Keyed(seed=1), curve, partitions=EXECUTORS, max_rows=60_000))
    digests = ft.Bolt("digest", digest, [ft.From("lines")], pool=2 * EXECUTORS)
    letters = ft.Bolt(
        "letters", lambda df: df.where("digest like 'a%'"), [ft.From("digest", ft.Fields("key"))], pool=EXECUTORS
    )
    return ft.Topology(name, [spout], [digests, letters])


def session(name: str) -> SparkSession:
    """A session with two executors of a core each."""
    options = {
        "spark.sql.shuffle.partitions": str(EXECUTORS),
        "spark.executor.memory": "640m",
        "spark.task.maxFailures": "16",
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.executor.extraJavaOptions": _JAVA,
    }
    spark = ft.session(f"local-cluster[{EXECUTORS},1,768]", f"foretide-{name}", options)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main(name: str, trace: str, rate: float, seconds: float, folder: Path) -> None:
    spark = session(name)
    settings = ft.RunSettings(
        trigger="1 second",
        monitoring=ft.MonitorSettings(
            store=str(folder / f"{name}.db"), workers_every=1.0, machines_every=1.0, smoothing={}, rules=()
        ),
    )
    curve = ft.Curve.from_trace(trace, seconds=seconds, mean_rate=rate, first=0, samples=900)
    pipeline = running(spark, curve, folder / name, settings)
    pin_executors(spark.sparkContext.applicationId)
    print("ready", flush=True)
    over = threading.Event()
    threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    while pipeline.running and not over.wait(0.5):
        pass
    pipeline.stop()
    pipeline.raise_failure()
    spark.stop()


def _await_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def running(spark: SparkSession, curve: ft.Curve, folder: Path, settings: ft.RunSettings) -> ft.Pipeline:
    """The pipeline once its batches are as short as they get on this machine.

    It is started again if it fails: on a busy machine, Spark may not wait long enough for Python to start.
    """
    for attempt in range(_ATTEMPTS):
        pipeline = ft.submit(
            spark, topology(folder.name, curve), ft.Parquet(f"{folder}-{attempt}"), f"{folder}-{attempt}-cp", settings
        )
        limit = time.monotonic() + _WARM_LIMIT
        while pipeline.running and time.monotonic() < limit:
            if sum(report.duration < _WARM_SECONDS for report in list(pipeline.reports)) >= _WARM_BATCHES:
                return pipeline
            time.sleep(0.2)
        if pipeline.running and pipeline.reports:
            return pipeline
        pipeline.stop()
    pipeline.raise_failure()
    raise SystemExit("no batch has ended")


if __name__ == "__main__":
    name, trace, rate, seconds, folder = sys.argv[1:]
    main(name, trace, float(rate), float(seconds), Path(folder))
