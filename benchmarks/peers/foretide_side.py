"""Foretide as a process with the protocol of the peers: `python -m benchmarks.peers.foretide_side NAME=VALUE ...`.

Throughput is that of micro-batches: requests -> routed edge -> extract -> count by URL, in update mode. From topic to
topic it is a topology in real-time mode. With `control=true` the edge is load-aware and a control loop splits it.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import foretide as ft
from benchmarks.peers.process import HEAP
from benchmarks.peers.rows import LINE
from benchmarks.real_time_run import counted, start_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

_BATCH_ROWS = 2_000_000
_READERS = _COUNTERS = 2
_REAL_TIME_MASTER = "local[24]"
"""A slot for each task of a real-time query; a slot that waits costs nothing."""

_TASKS_SECONDS = 60.0
_SETTINGS = {
    "spark.driver.memory": HEAP,
    "spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": str(_COUNTERS),
    "spark.ui.enabled": "false",
}


def say(found: Any) -> None:
    print(f"peer {json.dumps(found)}", flush=True)


# ---- throughput


def throughput(options: Mapping[str, str]) -> None:
    """Count at least so many rows, in batches, and say when each batch had ended."""
    spark = ft.session("local[2]", "foretide-peers", _SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    rows = int(options["rows"])
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", min(_BATCH_ROWS, rows))
    lines = numbers.option("numPartitions", _READERS).load().select("value", F.expr(LINE).alias("line"))
    edge = ft.edge(
        "extract", ft.Dynamic(by=("value",)), replicas=int(options["tasks"]), control_folder=f"{options['folder']}/c"
    )
    urls = lines.transform(edge).select(F.regexp_extract("line", r"https?://\S+", 0).alias("url"))
    counts = urls.groupBy("url").agg(F.count("*").alias("requests"))
    writer = (
        counts.writeStream.format("memory").queryName("counts").outputMode("update").trigger(processingTime="0 seconds")
    )
    query = writer.option("checkpointLocation", f"{options['folder']}/checkpoint").start()
    while sum(each.numInputRows for each in query.recentProgress) < rows:
        if not query.isActive:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.1)
    query.stop()
    latest = spark.table("counts").groupBy("url").agg(F.max("requests").alias("requests"))
    page = F.regexp_extract("url", r"(\d+)$", 1).cast("long")
    checksum = latest.agg(F.sum((page + 1) * F.col("requests"))).first()[0]
    say({"checksum": checksum, "samples": samples(query.recentProgress)})
    spark.stop()


def samples(progress: Any) -> list[tuple[float, int]]:
    """When each batch had ended, from the beginning of the first one on, and the rows counted by then."""
    found, rows, begin = [], 0, None
    for each in progress:
        if each.numInputRows:
            at = datetime.fromisoformat(each.timestamp).timestamp()
            begin = at if begin is None else begin
            rows += each.numInputRows
            found.append((at - begin + each.durationMs["triggerExecution"] / 1000, rows))
    return found


# ---- from topic to topic


def between_topics(options: Mapping[str, str]) -> None:
    """Run the topology until the input ends."""
    spark = start_session(_REAL_TIME_MASTER, _SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    name = options["in"].removesuffix("-in")
    settings = ft.RunSettings(batch="60 seconds").in_mode("real-time")
    sink = ft.KafkaSink(options["servers"], f"{name}-{{stream}}")
    pipeline = ft.submit(spark, topology(name, options), sink, f"{options['folder']}/checkpoint", settings)
    if options["control"] == "true":
        ft.control(pipeline, ["load_aware"])
    if not pipeline.await_tasks(_TASKS_SECONDS):
        raise RuntimeError("the tasks did not start")
    say({"ready": True})
    sys.stdin.read()
    pipeline.stop()
    spark.stop()


def topology(name: str, options: Mapping[str, str]) -> ft.Topology:
    """Requests -> extract (dynamic, or load-aware under control) -> count (fields)."""
    source = ft.KafkaSource(options["servers"], options["in"], "row long, due long, line string", start="earliest")
    grouping = ft.LoadAware(by=("row",)) if options["control"] == "true" else ft.Dynamic(by=("row",))
    work = partial(extract, slow_from=int(options["slow_from"]), slow_ms=int(options["slow_ms"]))
    bolts = [
        ft.Bolt("extract", work, [ft.From("requests", grouping)], pool=int(options["tasks"])),
        ft.Bolt("out", counted, [ft.From("extract", ft.Fields("url"))]),
    ]
    return ft.Topology(name, [ft.Spout("requests", source)], bolts)


def extract(requests: DataFrame, slow_from: int, slow_ms: int) -> DataFrame:
    """The URL of each request. From a row on, task 0 sleeps for each of its rows."""
    sleep = f"coalesce(length(java_method('java.lang.Thread', 'sleep', bigint({slow_ms}))), 0)"
    slowed = f"CASE WHEN spark_partition_id() = 0 AND row >= {slow_from} THEN {sleep} ELSE 0 END >= 0"
    rows = requests.where(slowed) if slow_ms else requests
    return rows.select("row", "due", F.regexp_extract("line", r"https?://\S+", 0).alias("url"))


def main() -> None:
    options = dict(each.split("=", 1) for each in sys.argv[1:])
    (throughput if options["mode"] == "throughput" else between_topics)(options)


if __name__ == "__main__":
    main()
