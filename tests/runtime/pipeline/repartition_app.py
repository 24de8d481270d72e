"""Run by test_repartition_kills.py in a process of its own: a stateful query, killed while its state is repartitioned.

Modes: `between` is killed after Spark's repartition and before the sink is told, `inside` once Spark has begun,
`end` works off all files and writes the output's ids to `rows.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import foretide as ft
from foretide.control.actions.registry import Restart
from foretide.spark.sinks import FileSink

sys.path.insert(0, str(Path(__file__).parents[2]))
from helpers import QUICK

SETTINGS = {name: value for name, value in QUICK.items() if "hadoop" not in name} | {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.fileSink.log.compactInterval": "4",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def topology(folder):
    def load(spark):
        files = spark.readStream.schema("id long, t timestamp").option("maxFilesPerTrigger", 1)
        return files.option("maxFileAge", "36500d").json(str(folder / "in"))

    def once(df):
        return df.withWatermark("t", "1 hour").dropDuplicates(["id", "t"])

    bolts = [
        ft.Bolt("pass", lambda df: df, [ft.From("lines", ft.Dynamic(by=("id",)))], pool=2),
        ft.Bolt("once", once, [ft.From("pass")]),
    ]
    return ft.Topology("stateful", [ft.Spout("lines", ft.Stream(load))], bolts)


def die(*_):
    os.killpg(os.getpid(), signal.SIGKILL)


def die_inside(checkpoint):
    """Once Spark has written the repartition's first state, and before it commits."""
    begun = {path.name for path in (checkpoint / "commits").iterdir()}
    while True:
        offsets = {path.name for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()}
        new = [int(name) for name in offsets - begun]
        if new and any((checkpoint / "state").rglob(f"{new[0] + 1}.zip")):
            die()
        time.sleep(0.001)


def main(folder, mode):
    spark = ft.session("local[2]", settings=SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    settings = ft.RunSettings(trigger="0 seconds", monitoring=None)
    sink, checkpoint = ft.Parquet(str(folder / "out")), folder / "checkpoint"
    pipeline = ft.submit(spark, topology(folder), sink, str(checkpoint), settings)
    files = len(list((folder / "in").glob("*.json")))
    taken = 0
    while pipeline.running and taken < files:
        time.sleep(0.05)
        progress = pipeline.query.lastProgress
        taken = json.loads(progress.sources[0].endOffset)["logOffset"] + 1 if progress else 0
    if mode != "end":
        FileSink.skip_batch = die
        if mode == "inside":
            threading.Thread(target=die_inside, args=[checkpoint], daemon=True).start()
        pipeline.restart(Restart("more partitions", state_partitions=5))
        pipeline.wait()
    pipeline.stop()
    pipeline.raise_failure()
    assert not pipeline.alarms, list(pipeline.alarms)
    rows = sorted(row.id for row in pipeline.output("once").collect())
    (folder / "rows.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
