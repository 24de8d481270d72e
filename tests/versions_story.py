"""What a user does first, with the Spark that is installed: prints what came of it as JSON.

An edge in a plain query under control, its route changed while it runs, a join, and what this Spark lacks.
"""

import json
import tempfile
import time
from pathlib import Path

import pyspark

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.errors import EnvironmentNotReadyError
from foretide.spark.versions import lacking, version_of

WAIT_SECONDS = 300
WITHIN = "INTERVAL 2 SECONDS"


def wait_for(condition):
    end = time.monotonic() + WAIT_SECONDS
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def routed(spark, folder):
    """A query with an edge: sent to task 3 alone in the middle, and controlled."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 400).load()
    control = ControlFolder(f"{folder}/checkpoint/foretide")
    edge = ft.edge("work", ft.Dynamic(by=("value",)), replicas=4, audit=True, control_folder=control.location)
    worked = source.transform(edge).selectExpr("value", "spark_partition_id() AS task")
    writer = worked.writeStream.queryName("versions").option("path", f"{folder}/out").format("parquet")
    writer = writer.trigger(processingTime="1 second").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.start()
    controller = ft.control(query, target=ft.Latency(p99="30s"), settings=ft.Settings())
    split = wait_for(lambda: (seen := control.status.pipeline()) and seen.edges and seen.edges["work"].per_task)
    version = control.change_routes(lambda table: table.split("work", [0, 0, 0, 1])).version
    wait_for(lambda: control.status.pipeline().route_version == version and controller.decisions)
    seen, loop = control.status.pipeline(), controller.status()
    problems = controller.problems
    query.stop()
    out = spark.read.parquet(f"{folder}/out")
    return {
        "split": split,
        "in_force": seen.route_version == version,
        "last_split": seen.edges["work"].per_task,
        "alarms": list(seen.alarms),
        "problems": problems,
        "target": None if loop.record is None else loop.record.measured,
        "rows_once": out.count() == out.select("value").distinct().count() > 0,
    }


def joined(spark, folder):
    """A join of two streams of files, and the same join of the files by a batch query."""
    frames = []
    for name, column in (("left", "k"), ("right", "j")):
        rows = spark.range(300).selectExpr(
            f"id AS {name}", f"int(id % 7) AS {column}", f"timestamp_seconds(1700000000 + id % 50) AS t_{name}"
        )
        rows.write.parquet(f"{folder}/{name}")
        frames.append(rows)
    streams = [
        spark.readStream.schema(frame.schema).parquet(f"{folder}/{name}").withWatermark(f"t_{name}", "1 second")
        for name, frame in zip(("left", "right"), frames, strict=True)
    ]
    pairs = ft.join(*streams, on=[("k", "j")], within="2 seconds", control_folder=f"{folder}/ck/foretide")
    writer = pairs.writeStream.format("parquet").option("path", f"{folder}/pairs").trigger(availableNow=True)
    writer.option("checkpointLocation", f"{folder}/ck").start().awaitTermination(WAIT_SECONDS)
    left, right = frames
    near = f"k = j AND t_right BETWEEN t_left - {WITHIN} AND t_left + {WITHIN}"
    expected = left.crossJoin(right).where(near).count()
    return spark.read.schema(pairs.schema).parquet(f"{folder}/pairs").count() == expected > 0


def refusals():
    """What starting a session in real-time mode says."""
    try:
        ft.session("local[2]", mode="real-time")
    except EnvironmentNotReadyError as error:
        return str(error)
    return None


def main():
    folder = Path(tempfile.mkdtemp(prefix="foretide-versions-"))
    refused = refusals() if lacking(version_of(pyspark.__version__)) else None
    spark = ft.session("local[2]")
    told = {"spark": pyspark.__version__, "refused": refused, **routed(spark, folder / "edge")}
    told["join_is_exact"] = joined(spark, folder / "join")
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
