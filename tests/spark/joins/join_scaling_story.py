"""A join that is too much for one executor gets another one, by Algorithm 3. Prints JSON.

`python join_scaling_story.py FOLDER cpu` lets it be too much by its work, and then give it back; with `memory` it is by
what its state takes, whatever else the machine does.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import foretide as ft
from foretide.control.actions.registry import SetExecutors
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.control.policies.hot_keys import HotKeys, HotKeySettings
from foretide.joins.settings import ScalingSettings, WindowSettings
from foretide.spark.executors import Executors

SCHEMA = "key long, t timestamp, v long"
SECONDS, MOST_FILES, PATIENCE = 10, 40, 300
EPOCH = 1_700_000_000
BOUND = "rt >= lt - INTERVAL 2 SECONDS AND rt <= lt + INTERVAL 2 SECONDS"


def put(folder, number, rows):
    """A file for each side, half of its rows with one key, in one step."""
    rng = np.random.default_rng(number)
    for side in "lr":
        keys = np.where(rng.random(rows) < 0.5, 0, rng.integers(1, 100, rows))
        times = (EPOCH + number * SECONDS) * 1_000_000 + np.sort(rng.integers(0, SECONDS * 1_000_000, rows))
        values = number * 1_000_000 + np.arange(rows)
        table = pa.table({"key": keys, "t": pa.array(times, pa.timestamp("us", "UTC")), "v": values})
        hidden = folder / side / f".{number:04d}"
        pq.write_table(table, hidden)
        hidden.rename(folder / side / f"{number:04d}.parquet")


def named(frame, side):
    return frame.select(*(F.col(name).alias(f"{side}{name}") for name in ("key", "t", "v")))


def checksum(frame):
    return list(frame.agg(F.count("*"), F.expr("sum(xxhash64(lv, rv) % 1000003)")).first())


def kept(joined):
    return joined.where("(lv * 31 + rv) % 1000 = 0").select("lv", "rv")


@dataclass(frozen=True)
class Kind:
    """Rows of a file on each side, what counts as busy, and how often CPU is measured; 0 for memory alone."""

    rows: int
    scaling: ScalingSettings
    workers_every: float


KINDS = {
    "cpu": Kind(3_000, ScalingSettings(busy=0.2, idle=0.1), 1.0),  # other tests take cores as well
    "memory": Kind(600, ScalingSettings(memory_unit=0.01, busy=0.5, idle=0.0), 0.0),
}


@dataclass
class Noted:
    """The policy, and the most bytes of state that it has been told of."""

    rule: HotKeys
    name: str = "hot_keys"
    state_bytes: int = 0

    def start(self):
        return self.rule.start()

    def wish(self, state, world):
        self.state_bytes = max(self.state_bytes, sum(view.state_bytes for view in world.joins.values()))
        return self.rule.wish(state, world)


class Story:
    """One executor at first; what happens from then on is up to the policy."""

    def __init__(self, spark, folder, kind):
        self.spark, self.folder, self.kind, self.files = spark, folder, kind, 0
        self.end = time.monotonic() + PATIENCE
        for side in "lr":
            (folder / side).mkdir()
        self.feed()
        self.levers = Executors.of_active()
        self.levers.resize(1)
        self.wait(lambda: len(self.levers.executors()) == 1)
        control = str(folder / "control")
        joined = ft.join(self.stream("l"), self.stream("r"), [("lkey", "rkey")], "2 seconds", control_folder=control)
        writer = kept(joined).writeStream.format("parquet").option("path", str(folder / "out"))
        self.query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        hot_keys = HotKeySettings(scale=True, windows=WindowSettings(3600.0), scaling=kind.scaling)
        self.policy = Noted(HotKeys(hot_keys))
        settings = ft.Settings(
            policies={"hot_keys": hot_keys},
            guards=GuardSettings(cooldown=0, cooldown_down=0, down_window=0, settle_batches=0),
            evaluation=EvaluationSettings(roll_back=False),
            monitoring=ft.MonitorSettings(store="", workers_every=kind.workers_every, machines_every=0),
        )
        self.controller = ft.control(
            self.query, [self.policy], settings=settings, max_executors=2, control_folder=control
        )

    def feed(self):
        put(self.folder, self.files, self.kind.rows)
        self.files += 1

    def stream(self, side):
        read = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return named(read.parquet(str(self.folder / side)), side).withWatermark(f"{side}t", "2 seconds")

    def wait(self, condition, meanwhile=lambda: None):
        while not condition() and time.monotonic() < self.end:
            meanwhile()
            time.sleep(0.2)

    def keep_busy(self):
        """One file ahead of the query, so that it never waits."""
        done = -1 if self.query.lastProgress is None else self.query.lastProgress.batchId
        if self.files < min(done + 4, MOST_FILES):
            self.feed()

    def executors(self):
        return len(self.levers.executors())

    def run(self):
        counts = [self.executors()]
        self.wait(lambda: self.executors() == 2, self.keep_busy)
        counts.append(self.executors())
        self.query.processAllAvailable()
        if self.kind.workers_every:
            self.wait(lambda: self.executors() == 1)
            counts.append(self.executors())
        self.query.processAllAvailable()
        failure = self.query.exception()
        self.query.stop()
        self.controller.stop()
        left, right = (named(self.spark.read.schema(SCHEMA).parquet(str(self.folder / side)), side) for side in "lr")
        wishes = [wish for each in self.controller.decisions for wish in each.chosen]
        return {
            "executors": counts,
            "asked": [wish.action.count for wish in wishes if isinstance(wish.action, SetExecutors)],
            "state_bytes": self.policy.state_bytes,
            "reasons": [wish.reason for wish in wishes],
            "joined": checksum(self.spark.read.schema("lv long, rv long").parquet(str(self.folder / "out"))),
            "by_spark": checksum(kept(left.join(right, F.expr(f"lkey = rkey AND {BOUND}")))),
            "failure": None if failure is None else str(failure),
        }


def main(folder, kind):
    options = {"spark.sql.shuffle.partitions": "4", "spark.executor.memory": "512m"}
    spark = ft.session("local-cluster[2,1,1024]", "scaling", options)
    print(json.dumps(Story(spark, Path(folder), KINDS[kind]).run()))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
