"""The application that a campaign disturbs: `python -m foretide.soak.application FOLDER`.

It takes one file a batch. It goes on from its checkpoint whenever it is started, and ends once all files are committed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import foretide as ft
from foretide.runtime.driver_supervisor import CRASHED
from foretide.soak.forms import pipeline_of
from foretide.soak.layout import NAME, Layout, Setup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_EXECUTORS = 2
KEY_SECONDS = 2.0
"""Over which the keys of a join are counted before its first plan."""

_POLL_SECONDS = 0.2
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.extraJavaOptions": _QUICK_JAVA,
    "spark.executor.extraJavaOptions": _QUICK_JAVA,
    "spark.executor.memory": "512m",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.codegen.wholeStage": "false",  # lives are short: compiling takes longer than it saves
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.task.maxFailures": "16",  # killed executors are no failure of the query
    "spark.stage.maxConsecutiveAttempts": "100",
    "spark.deploy.maxExecutorRetries": "-1",
}


class Notes:
    """Notes what happens in a file that several lives of the driver append to."""

    def __init__(self, layout: Layout) -> None:
        self._file = layout.notes

    def add(self, event: str, **values: Any) -> None:
        """Add a line at once."""
        with self._file.open("a") as file:
            file.write(json.dumps({"event": event, "at": time.time(), **values}) + "\n")

    def decision(self, decision: ft.Decision) -> None:
        """Note what the control loop does."""
        self.add("decision", id=decision.id, actions=[type(wish.action).kind for wish in decision.chosen])

    def batch(self, report: Any, failures: Any) -> None:
        """Note a batch, and what the audit found in it."""
        alarms = [failure.message for failure in failures]
        plans = [join.plan for join in report.joins.values()]
        self.add("batch", batch=report.batch, routes=report.route_version, plans=plans, alarms=alarms)


def start(spark: SparkSession, layout: Layout, notes: Notes) -> tuple[ft.Pipeline, ft.Controller]:
    """Start the pipeline, or go on from its checkpoint, and attach a control loop."""
    form = pipeline_of(Setup.read(layout).form)
    monitoring = ft.MonitorSettings(store=str(layout.store), workers_every=2.0, machines_every=0)
    settings = ft.RunSettings(trigger="100 milliseconds", revive=1000, monitoring=monitoring)
    pipeline = ft.submit(spark, form.topology(layout), ft.Parquet(str(layout.output)), str(layout.checkpoint), settings)
    pipeline.on_report(notes.batch)
    control = ft.Settings(
        control=ft.ControlSettings(period=1.0, min_executors=1, max_executors=MAX_EXECUTORS),
        guards=ft.GuardSettings(cooldown=0.0),
        evaluation=ft.EvaluationSettings(roll_back=False),
        policies={"hot_keys": ft.HotKeySettings(windows=ft.WindowSettings(window=KEY_SECONDS))},
    )
    loop = ft.control(pipeline, form.policies(), settings=control)
    loop.on_decision(notes.decision)
    return pipeline, loop


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
