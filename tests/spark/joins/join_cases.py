"""Random streams for joins, run through Spark's own join and through ours, batch by batch the same."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.joins.plan import JoinPlan, KeyGrid
from foretide.runtime.join_plans import JoinPlanPublisher
from foretide.spark.joins.cells import hard_end_failure
from foretide.spark.progress.reader import read_report

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
SCHEMA = "side string, case int, k string, n int, t long, id string"
PARTITIONS = 3
INTERPRETED = {
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.codegen.wholeStage": "false",  # small batches: to compile them takes longer than to run them
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class Shape:
    """How a stream looks: many small cases side by side, each with keys of its own."""

    before: float = 3.0
    after: float = 3.0
    how: str = "inner"
    cases: int = 60
    batches: int = 5
    rows: int = 500
    step: float = 4.0
    late: float = 12.0
    delay: str = "6 seconds"
    nulls: float = 0.05
    skew: float = 1.3
    on: tuple = field(default=("case", "k"))

    @property
    def bound(self):
        return (self.before, self.after)


def batches_of(shape, seed):
    """Rows of each batch. Event time goes on by a step a batch; some rows are early, some late, some far too late."""
    rng = np.random.default_rng(seed)
    made = [_rows(shape, rng, number) for number in range(shape.batches)]
    end = BEGIN + int((shape.batches + 40) * shape.step) * SECOND
    last = [{"side": side, "case": -1, "k": "key0", "n": 0, "t": end, "id": f"end{side}"} for side in "LR"]
    return [*made, last]


def _rows(shape, rng, number):
    rows = []
    for place in range(shape.rows):
        key = int(min(rng.zipf(shape.skew), 9))
        spread = rng.choice([shape.step, shape.late], p=[0.9, 0.1])
        time = BEGIN + int((number * shape.step + shape.late - rng.random() * spread) * SECOND)
        row = {"side": "LR"[int(rng.integers(2))], "case": int(rng.integers(shape.cases)), "n": key % 3, "t": time}
        row |= {"id": f"{number}-{place}"} | ({} if rng.random() < shape.nulls else {"k": f"key{key}"})
        rows.append(row)
    return rows


def put(folder, number, rows):
    """A file appears all at once, and files are read in the order of their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stamp = 1_700_000_000 + number
    os.utime(hidden, (stamp, stamp))
    hidden.rename(folder / f"{number:04}.json")


def sides(spark, folder, shape):
    """Both sides of one stream, so that a batch has the same file for both."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).option("maxFileAge", "36500d")
    both = reader.json(str(folder)).withColumn("time", F.timestamp_micros("t"))
    left, right = (both.where(F.col("side") == side).withWatermark("time", shape.delay) for side in "LR")
    keys = list(shape.on)
    return (
        left.select(*keys, F.col("id").alias("left_id"), F.col("time").alias("left_time")),
        right.select(*keys, F.col("id").alias("right_id"), F.col("time").alias("right_time")),
    )


def plain(left, right, shape):
    """Spark's own join."""
    bound = F.expr(
        f"right_time >= left_time - INTERVAL '{int(shape.before * SECOND)}' MICROSECOND AND "
        f"right_time <= left_time + INTERVAL '{int(shape.after * SECOND)}' MICROSECOND"
    )
    equal = [F.col(f"l.{key}") == F.col(f"r.{key}") for key in shape.on]
    condition = bound
    for each in equal:
        condition = condition & each
    joined = left.alias("l").join(right.alias("r"), condition, shape.how)
    rest = ("left_id", "left_time", "right_id", "right_time")
    return joined.select(*(F.col(f"l.{key}") for key in shape.on), *rest)


def start(frame, folder, each=lambda rows, batch: None):
    """Start a query over all that is there, one file a batch; its rows go to a list. Batches call `each`."""
    result = []

    def take(batch_rows, batch):
        rows = [tuple(row) for row in batch_rows.collect()]
        each(rows, batch)
        result.extend(rows)  # the last step, so that it stays behind if the batch fails

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(), result


def expected(spark, folder, shape):
    """The rows of Spark's own join over the same batches."""
    query, rows = start(plain(*sides(spark, folder / "input", shape), shape), folder / "plain")
    query.awaitTermination()
    return Counter(rows)


def random_plan(rng, keys, shape):
    """Grids of random shapes on random partitions for some of the keys that were seen."""
    chosen = [key for key in keys if rng.random() < 0.5]
    columns = 1 if shape.how == "left" else 3
    return JoinPlan({key: random_grid(rng, columns) for key in chosen})


def random_grid(rng, columns):
    width = int(rng.integers(1, columns + 1))
    rows = range(int(rng.integers(1, 4)))
    return KeyGrid(tuple(tuple(int(p) for p in rng.integers(PARTITIONS, size=width)) for _ in rows))


class Driver:
    """Drives a joined stream, its publisher included, and changes the plan between batches at random."""

    def __init__(self, spark, folder, shape, seed, streams=None):
        self.folder, self.shape = folder, shape
        self.rng = np.random.default_rng(seed)
        left, right = streams or sides(spark, folder / "input", shape)
        self.control = ControlFolder(str(folder / "control"))
        self.frame = ft.join(
            left,
            right,
            list(shape.on),
            shape.bound,
            shape.how,
            control_folder=self.control.location,
            partitions=PARTITIONS,
        )
        self.publisher = JoinPlanPublisher(self.control, "join")
        self.results = []
        self.keys = []
        self.query = None
        self._reported = -1

    def start(self):
        self.query = None
        self.query, rows = start(self.frame, self.folder, lambda *_: self.between())
        self.results.append(rows)

    def finish(self):
        """Run to the end of what is there; a batch that fails at a hard end is tried again once that was moved."""
        for _ in range(30):
            self.start()
            try:
                self.query.awaitTermination()
            except StreamingQueryException as error:
                self.report()
                self.publisher.retry(hard_end_failure(str(error)).reached)
            else:
                self.report()
                return
        pytest.fail("the hard end was moved again and again, and no batch got through")

    def between(self):
        """All batches before this one have reported, and this one has read its plan."""
        while self.query is None:
            time.sleep(0.01)
        self.report()
        self.change()

    def report(self):
        """Report all new batches to the publisher."""
        fresh = [p for p in self.query.recentProgress if p.batchId > self._reported and "addBatch" in p.durationMs]
        for report in map(read_report, fresh):
            self._reported = report.batch
            self.publisher.see(report)
            both = (report.joins["join"].left, report.joins["join"].right)
            self.keys = sorted({key for side in both if side for key in side.keys})

    @property
    def rows(self):
        return Counter(row for rows in self.results for row in rows)

    def change(self):
        if can_change(self.publisher):
            self.publisher.adopt(random_plan(self.rng, self.keys, self.shape))


def can_change(publisher):
    """Whether a change may begin: none is under way, and the pace of event time is known."""
    return publisher.obstacle is None and publisher.plans()[1] is None


def put_all(folder, shape, seed):
    batches = batches_of(shape, seed)
    for number, rows in enumerate(batches):
        put(Path(folder), number, rows)
    return batches
