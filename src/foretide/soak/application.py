"""The pipeline that a campaign disturbs: `python -m foretide.soak.application FOLDER`.

It takes one file a batch: rows are parsed, one row in four is counted in windows, and one in a hundred passes a Python
bolt that refuses some. It goes on from its checkpoint whenever it is started, and ends once all files are committed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import foretide as ft
from foretide.runtime.driver_supervisor import CRASHED
from foretide.soak.layout import Layout, Setup
from foretide.soak.rows import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


NAME = "soak"
EDGES = {"parse": 4, "work": 4, "check": 3}
"""Edges whose routes can be changed, and the tasks behind each."""

WINDOW_SECONDS = 20
DELAY = "10 seconds"
CHECKED_SCHEMA = "row long, doubled long"
MAX_EXECUTORS = 2
REFUSED_EVERY = 3
_POLL_SECONDS = 0.2
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.extraJavaOptions": _QUICK_JAVA,
    "spark.executor.extraJavaOptions": _QUICK_JAVA,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.task.maxFailures": "1000",  # killed executors are no failure of the query
    "spark.stage.maxConsecutiveAttempts": "1000",
    "spark.deploy.maxExecutorRetries": "-1",
}


def parse(rows: DataFrame) -> DataFrame:
    """Each row with a mark of all its columns, in one of four streams."""
    stream = (
        F.when(F.col("payload").isNull(), "malformed")
        .when(F.col("row") % 4 == 0, "counted")
        .when(F.col("row") % 100 == 1, "checked")
        .otherwise("good")
    )
    mark = F.xxhash64("row", "key", "payload")
    return rows.select("row", "key", "at", mark.alias("mark"), stream.alias("stream"))


def count(rows: DataFrame) -> DataFrame:
    """Rows of each key in each window."""
    return counts(rows.withWatermark("at", DELAY))


def counts(rows: DataFrame) -> DataFrame:
    """The same, of rows of a stream or of files."""
    grouped = rows.groupBy(F.window("at", f"{WINDOW_SECONDS} seconds").alias("window"), "key")
    counted = grouped.agg(F.count("*").alias("times"), F.sum(F.col("mark") % 1000).alias("sum"))
    return counted.select(F.col("window.start").alias("begin"), "key", "times", "sum")


def check(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Double the number of a row; some keys are refused, so that their rows become dead letters."""
    if row["key"] % REFUSED_EVERY == 0:
        raise ValueError("this key is refused")
    yield {"row": row["row"], "doubled": 2 * row["row"]}


def topology(layout: Layout) -> ft.Topology:
    """The topology over the files of a campaign."""
    files = ft.Files(str(layout.input), SCHEMA, "parquet", max_files=1)
    return ft.Topology(
        NAME,
        [ft.Spout("rows", files)],
        [
            ft.Bolt(
                "parse",
                parse,
                [ft.From("rows", ft.Dynamic(by=("row",)))],
                pool=EDGES["parse"],
                streams=("good", "counted", "checked", "malformed"),
            ),
            ft.Bolt(
                "work",
                lambda rows: rows.select("row", "key", "mark"),
                [ft.From("parse", ft.Dynamic(by=("key", "row")), stream="good")],
                pool=EDGES["work"],
            ),
            ft.Bolt("count", count, [ft.From("parse", stream="counted")]),
            ft.Bolt(
                "check",
                ft.PerTuple(check, CHECKED_SCHEMA),
                [ft.From("parse", ft.Dynamic(by=("row",)), stream="checked")],
                pool=EDGES["check"],
                retries=0,
            ),
        ],
    )


class Notes:
    """Notes what happens in a file that several lives of the driver append to."""

    def __init__(self, layout: Layout) -> None:
        self._file = layout.notes

    def add(self, event: str, **values: Any) -> None:
        """Add a line at once."""
        with self._file.open("a") as file:
            file.write(json.dumps({"event": event, "at": time.time(), **values}) + "\n")

    def batch(self, report: Any, failures: Any) -> None:
        """Note a batch, and what the audit found in it."""
        alarms = [failure.message for failure in failures]
        self.add("batch", batch=report.batch, routes=report.route_version, rows=report.input_rows, alarms=alarms)


def start(spark: SparkSession, layout: Layout, notes: Notes) -> tuple[ft.Pipeline, ft.Controller]:
    """Start the pipeline, or go on from its checkpoint, and attach a control loop."""
    monitoring = ft.MonitorSettings(store=str(layout.store), workers_every=2.0, machines_every=0)
    settings = ft.RunSettings(trigger="100 milliseconds", revive=1000, monitoring=monitoring)
    pipeline = ft.submit(spark, topology(layout), ft.Parquet(str(layout.output)), str(layout.checkpoint), settings)
    pipeline.on_report(notes.batch)
    control = ft.Settings(control=ft.ControlSettings(period=1.0, min_executors=1, max_executors=MAX_EXECUTORS))
    return pipeline, ft.control(pipeline, settings=control)


def finished(layout: Layout) -> bool:
    """Whether all files were committed, and no more will come."""
    try:
        return layout.files_taken() >= int(layout.end_of_input.read_text())
    except (OSError, ValueError):
        return False


def run(layout: Layout) -> None:
    """Run until all is committed; raises what ended the query, if anything else did."""
    notes, setup = Notes(layout), Setup.read(layout)
    spark = ft.session(setup.master, NAME, SETTINGS | {"spark.local.dir": str(layout.folder / "spark")})
    notes.add("start", pid=os.getpid(), app=spark.sparkContext.applicationId)
    pipeline, loop = start(spark, layout, notes)
    while pipeline.running and not finished(layout):
        time.sleep(_POLL_SECONDS)
    done = finished(layout)
    pipeline.stop()
    pipeline.raise_failure()
    notes.add("end", done=done, restarts=pipeline.restarts, problems=[str(each) for each in loop.problems])
    spark.stop()
    if not done:
        raise SystemExit(CRASHED)


def main(folder: Path) -> None:
    """Note the process, and run; what fails is to be started again."""
    layout = Layout(folder)
    if layout.aborted.exists():
        raise SystemExit(1)
    layout.driver.write_text(str(os.getpid()))
    try:
        run(layout)
    except Exception:  # noqa: BLE001 - the supervisor starts it again
        traceback.print_exc()
        sys.stdout.flush()
        os._exit(CRASHED)  # whatever threads are left


if __name__ == "__main__":
    main(Path(sys.argv[1]))
