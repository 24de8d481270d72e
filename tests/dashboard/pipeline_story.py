"""A slow pipeline under control: what the browser's tests look at. Ends when its input does.

Usage: pipeline_story.py FOLDER
"""

import sys
import threading

from pyspark.sql import functions as F

import foretide as ft
from foretide.workloads.keyed import Keyed

RATE = 60.0
MANY = 1_000_000


def main(folder):
    spark = ft.session("local[2]", "watched", {"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("OFF")
    source = ft.Replay(Keyed(seed=3, keys=50), ft.Curve.constant(RATE, MANY / RATE), paced=True)
    topology = ft.Topology("watched", [ft.Spout("numbers", source)], [
        ft.Bolt("work", lambda df: df.where("value >= 0"), [ft.From("numbers", ft.Dynamic(by=("row",)))], pool=2),
        ft.Bolt("hash", lambda df: df.withColumn("hash", F.sha2(F.col("key").cast("string"), 256)), [ft.From("work")]),
    ])  # fmt: skip
    settings = ft.RunSettings(trigger="1 second", revive=20)  # its source needs its worker within 10 s
    pipeline = ft.submit(spark, topology, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint", settings)
    ft.control(pipeline, target=ft.Latency(p99="60s"))
    print(pipeline.control_folder.location, flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    while pipeline.running and not ended.wait(0.2):
        pass
    pipeline.stop()
    spark.stop()
    pipeline.raise_failure()


if __name__ == "__main__":
    main(sys.argv[1])
