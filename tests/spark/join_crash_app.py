"""Run by test_join_crash.py in a process of its own, killed in the middle of a batch, and run again."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import foretide as ft
from foretide.folder.control_folder import ControlFolder
from foretide.runtime.join_keeper import JoinKeeper
from foretide.spark.join_state import checkpoint_of, highest_times
from foretide.spark.progress import read_report
from helpers import QUICK
from spark.join_cases import INTERPRETED, Shape, random_grids, sides

SHAPE = Shape(rows=200, batches=6)
SLOW = 3
"""From this batch on the process notes that it is about to commit, and waits to be killed."""


def main(folder, mode):
    spark = ft.session("local[2]", settings=QUICK | INTERPRETED)
    spark.sparkContext.setLogLevel("OFF")
    left, right = sides(spark, folder / "input", SHAPE)
    control = ControlFolder(str(folder / "control"))
    frame = ft.join(left, right, list(SHAPE.on), SHAPE.bound, control=control.location)
    rng, queries, told = np.random.default_rng(len(mode)), [], {}
    keeper = JoinKeeper(
        control, "join", lambda name, batch: highest_times(spark, checkpoint_of(queries[0]), name, batch)
    )

    def between(batch):
        while not queries:
            time.sleep(0.01)
        for progress in queries[0].recentProgress:
            report = read_report(progress)
            if report.batch not in told:
                told[report.batch] = report
                keeper.see(report)
        seen = [report.joins["join"] for report in told.values()]
        if keeper.ready:
            keeper.adopt(random_grids(rng, sorted({key for each in seen for key in each.left.keys}), SHAPE))
        note(folder, batch, keeper)
        if mode == "killed" and batch >= SLOW:
            time.sleep(600)

    queries.append(write(frame, folder / "ours", between))
    queries[0].awaitTermination()


def note(folder, batch, keeper):
    said = {"batch": batch, "changing": keeper.changing, "version": keeper.timeline.version, "problem": keeper.problem}
    with (folder / "notes").open("a") as file:
        file.write(json.dumps(said) + "\n")


def write(frame, folder, between):
    """Each batch in a folder of its own, written again if it is run again."""

    def take(rows, batch):
        rows.write.mode("overwrite").parquet(str(folder / f"out/{batch}"))
        between(batch)

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
