"""A join whose processes are killed, as `join_crashes` starts it: it notes what it does, and can be run again."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[2]))
import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.joins.placement.timeline import to_json
from foretide.probes.workers import find_executors
from foretide.runtime.join_plans import JoinPlanPublisher
from foretide.spark.joins.statistics import checkpoint_of, highest_times
from foretide.spark.progress.reader import read_report
from helpers import QUICK, wait_for
from spark.joins.join_cases import INTERPRETED, PARTITIONS, Shape, can_change, random_plan, sides

LIGHT = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Executors that start fast."""

SLOW = 3
"""In this batch a process waits for its end, with a change under way and before it commits."""

IN_FORCE, CHANGING, LAST = 6, 7, 9
"""Batches in the middle of which something is killed: an executor under a plan, one while the plan is being changed,
and the driver under the new plan."""


@dataclass(frozen=True)
class Mode:
    """What a run does: the batches in which it begins changes, joins slowly, ends an executor, or waits for its end."""

    shape: Shape
    master: str = "local[2]"
    changes: Container[int] = range(1000)
    slow: tuple[int, ...] = ()
    executors: tuple[int, ...] = ()
    waits: int | None = None


KILLED = Mode(Shape(rows=200, batches=6), waits=SLOW)
STORY = Mode(
    Shape(rows=200, batches=11),
    "local-cluster[2,1,1024]",
    changes={2, IN_FORCE},
    slow=(IN_FORCE, CHANGING, LAST),
    executors=(IN_FORCE, CHANGING),
)
MODES = {"killed": KILLED, "story": STORY}


def main(folder, mode):
    spark = ft.session(mode.master, settings=QUICK | INTERPRETED | LIGHT)
    spark.sparkContext.setLogLevel("OFF")
    Run(spark, folder, mode).finish()


class Run:
    """Joins all there is, one file a batch, and changes the plan on the way."""

    def __init__(self, spark, folder, mode):
        self.spark, self.folder, self.mode = spark, folder, mode
        shape, control = mode.shape, ControlFolder(str(folder / "control"))
        left, right = sides(spark, folder / "input", shape)
        frame = ft.join(
            left, right, list(shape.on), shape.bound, control_folder=control.location, partitions=PARTITIONS
        )
        self.publisher = JoinPlanPublisher(control, "join", self._maxima)
        self._rng, self._reports, self._started = np.random.default_rng(4), {}, threading.Event()
        writer = slowed(frame, mode.slow).writeStream.foreachBatch(self._take).trigger(availableNow=True)
        self.query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        self._started.set()

    def finish(self):
        self.query.awaitTermination()

    def _maxima(self, name, batch):
        return highest_times(self.spark, checkpoint_of(self.query), name, batch)

    def _take(self, rows, batch):
        """Write each batch to a folder of its own, again if it is run again."""
        self._started.wait()
        watcher = threading.Thread(target=self._watch, args=(batch,))
        watcher.start()
        rows.write.mode("overwrite").parquet(str(self.folder / "out" / str(batch)))
        watcher.join()
        self._step(batch)
        if batch == self.mode.waits:
            time.sleep(600)

    def _watch(self, batch):
        """Note that the join is half done, and end an executor that is at it; go on while Spark runs tasks again."""
        if batch not in self.mode.slow:
            return
        stage = wait_for(lambda: joining(self.spark))
        (self.folder / f"plan-{batch}.json").write_text(to_json(self.publisher.timeline))
        self._note(batch, joining=True)
        if batch in self.mode.executors:
            executor = end_executor(self.spark)
            self._note(batch, ended=executor, failed_tasks=wait_for(lambda: failed_tasks(self.spark, stage)))
            self._step(batch)

    def _step(self, batch):
        """Report new batches to the publisher, and begin a change if it is time."""
        for report in map(read_report, self.query.recentProgress):
            if report.batch not in self._reports:
                self._reports[report.batch] = report
                self.publisher.see(report)
        if can_change(self.publisher) and batch in self.mode.changes:
            keys = {key for report in self._reports.values() for key in report.joins["join"].left.keys}
            self.publisher.adopt(random_plan(self._rng, sorted(keys), self.mode.shape))
        self._note(batch)

    def _note(self, batch, **more):
        changing, version = self.publisher.plans()[1] is not None, self.publisher.timeline.version
        note = {"batch": batch, "changing": changing, "version": version, "problem": self.publisher.problem}
        with (self.folder / "notes").open("a") as file:
            file.write(json.dumps(note | more) + "\n")


def slowed(frame, batches):
    """The same rows, but each pair that some batches bring makes the task that joins it sleep."""
    if not batches:
        return frame
    brought = F.col("right_id").rlike(f"^({'|'.join(map(str, batches))})-")
    sleep = F.expr("reflect('java.lang.Thread', 'sleep', 50L)")
    return frame.where(F.coalesce(F.when(brought, sleep), F.lit("")) != "never")


def joining(spark):
    """The stage that has joined some partitions and not all, None if there is none.

    Only the join's has as many tasks as the join has partitions.
    """
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for each in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(each))]
    half_done = [stage for stage in stages if stage.numTasks == PARTITIONS and stage.numCompletedTasks]
    return next((stage.stageId for stage in half_done if stage.numActiveTasks), None)


def failed_tasks(spark, stage):
    return spark.sparkContext.statusTracker().getStageInfo(stage).numFailedTasks


def end_executor(spark):
    """Kill the youngest executor that runs a task; the name by which Spark knew it."""
    name = wait_for(lambda: busy_executors(spark))[-1]
    processes = {executor.executor_id: executor.pid for executor in find_executors(spark.sparkContext.applicationId)}
    os.kill(processes[name], signal.SIGKILL)
    return name


def busy_executors(spark):
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    known = [executors.apply(place) for place in range(executors.size())]
    return sorted((each.id() for each in known if each.id() != "driver" and each.activeTasks()), key=int)


if __name__ == "__main__":
    main(Path(sys.argv[1]), MODES[sys.argv[2]])
