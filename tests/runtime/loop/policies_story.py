"""Policies on real executors, one after the other, with the default guards and roll-back. Prints JSON."""

import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import functions as F

import foretide as ft
from foretide.control.actions.registry import SetAdmission, SetExecutors, SetReplicas, SetSplit
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.control.policies.admission import AdmissionSettings
from foretide.spark.executors import Executors
from foretide.workloads.keyed import Keyed

WAIT_SECONDS = 300.0
FEED_SECONDS = 0.5
POOL = 4
LOPSIDED = (97.0, 1.0, 1.0, 1.0)
CALM_BATCHES = 4
MISTAKE_RATE, MISTAKE_MS, MISTAKE_BATCHES = 100, 15, 20
"""Rows a second, and work on a row: 1.5 times what one task can do, and little for four of them. With the mistake each
batch is then about 1.5 times as long as the one before, so three that can be judged take 20 times what was usual.
"""


@dataclass(frozen=True)
class Lopsided:
    """Wishes once, after some batches, for a split that makes nearly all tuples wait for one task."""

    name: str = "lopsided"

    def start(self):
        return {"first": None, "done": False}

    def wish(self, state, world):
        first = world.batch if state["first"] is None else state["first"]
        due = first is not None and world.batch >= first + CALM_BATCHES and not state["done"]
        wishes = [Wish(self.name, SetSplit("work", LOPSIDED), "a mistake")] if due else []
        return {"first": first, "done": state["done"] or due}, wishes


def waiting(frame, milliseconds=3):
    """Work that waits for each row, and needs no processor."""
    wait = f"coalesce(reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', {milliseconds}000000L), '')"
    waited = F.concat(F.col("row").cast("string"), F.expr(wait))  # followed by "null", as the method returns nothing
    return frame.select(F.regexp_extract(waited, "^[0-9]+", 0).cast("long").alias("row"))


def start(spark, folder, name, policies, curve, settings, replicas=1):
    source = ft.Replay(Keyed(seed=3, keys=50), curve, flush=60.0)
    grouping = ft.From("numbers", ft.Dynamic(by=("row",)))
    bolt = ft.Bolt("work", waiting, [grouping], pool=POOL, replicas=replicas)
    topology = ft.Topology(name, [ft.Spout("numbers", source)], [bolt])
    where = f"{folder}/{name}"
    pipeline = ft.submit(spark, topology, ft.Parquet(f"{where}/out"), f"{where}/checkpoint")
    return pipeline, ft.control(pipeline, policies, settings=settings)


def until(true, pipeline, controller, what):
    end = time.monotonic() + WAIT_SECONDS
    while not (found := true()):
        pipeline.raise_failure()
        if not pipeline.running or time.monotonic() > end:
            raise SystemExit(f"{what} did not happen: {controller.decisions}, {controller.problems}")
        time.sleep(0.1)
    return found


def settled(true, what, about=lambda: None):
    end = time.monotonic() + WAIT_SECONDS
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not happen: {about()}")
        time.sleep(0.1)


def actions(controller, kind):
    return [wish.action for each in controller.decisions for wish in each.chosen if isinstance(wish.action, kind)]


def ended(pipeline, controller):
    """Two batches later: what was decided, and whether each row that was read was written once."""
    batch = pipeline.last_batch
    until(lambda: pipeline.last_batch >= batch + 2, pipeline, controller, "two more batches")
    pipeline.stop()
    pipeline.raise_failure()
    rows = [each.row for each in pipeline.output("work").collect()]
    taken = sum(report.input_rows for report in pipeline.reports)
    return {
        "decisions": [wish.action.describe() for each in controller.decisions for wish in each.chosen],
        "rows": len(rows),
        "each_once": sorted(rows) == list(range(len(rows))) and len(rows) >= taken > 0,
        "alarms": [alarm.message for alarm in pipeline.alarms],
    }


def active(pipeline):
    return sum(count > 0 for count in pipeline.control_folder.routes().edges["work"].counts)


def follows_a_step(spark, folder, policy):
    """The load grows to what takes more than the one replica that is active."""
    curve = ft.Curve.steps([(15.0, 100.0), (600.0, 500.0)])
    pipeline, controller = start(spark, folder, policy, [policy], curve, ft.Settings())
    until(lambda: active(pipeline) > 1, pipeline, controller, "another replica")
    return {"replicas": active(pipeline), **ended(pipeline, controller)}


def tunes_admission(spark, folder):
    settings = ft.Settings(policies={"admission": AdmissionSettings(period=4.0)})
    curve = ft.Curve.constant(600.0)
    pipeline, controller = start(spark, folder, "admission", ["admission"], curve, settings, replicas=POOL)
    until(lambda: len(actions(controller, SetAdmission)) >= 2, pipeline, controller, "two limits")
    limits = [each.rows for each in actions(controller, SetAdmission)]
    return {"limits": limits, **ended(pipeline, controller)}


def edged(rows, where, milliseconds):
    """A plain query with an edge."""
    routed = rows.transform(ft.edge("work", ft.Dynamic(by=("row",)), pool=POOL, control_folder=f"{where}/control"))
    writer = waiting(routed, milliseconds).writeStream.format("parquet").option("path", f"{where}/out")
    return writer.option("checkpointLocation", f"{where}/checkpoint").start()


def written(spark, where):
    return sorted(each.row for each in spark.read.schema("row long").parquet(f"{where}/out").collect())


def rolls_back(spark, folder):
    where = f"{folder}/lopsided"
    source = spark.readStream.format("rate").options(rowsPerSecond=MISTAKE_RATE, numPartitions=2)
    query = edged(source.load().selectExpr("value AS row"), where, MISTAKE_MS)

    def durations():
        return [each.durationMs["triggerExecution"] / 1000 for each in query.recentProgress if each.numInputRows]

    settled(lambda: len(durations()) >= CALM_BATCHES, "some batches", query.exception)
    window = MISTAKE_BATCHES * median(durations()[1:])
    settings = ft.Settings(evaluation=EvaluationSettings(window=window))
    controller = ft.control(query, [Lopsided()], settings=settings)

    def even():
        counts = controller.control_folder.routes().edges["work"].counts
        in_force = controller.reader.observer.observed().routes.get("work") == tuple(map(float, counts))
        return in_force and len(actions(controller, SetSplit)) >= 2

    settled(even, "the roll-back", lambda: (query.exception(), controller.decisions, controller.problems))
    counts, made = list(controller.control_folder.routes().edges["work"].counts), actions(controller, SetSplit)
    query.stop()
    rows = written(spark, where)
    return {
        "decisions": [action.describe() for action in made],
        "counts": counts,
        "each_once": rows == list(range(len(rows))) and len(rows) > 0,
    }


def both_follow(spark, folder):
    """Two pipelines of one application, each with a loop of its own."""
    curve = ft.Curve.steps([(15.0, 50.0), (600.0, 400.0)])
    both = [start(spark, folder, name, ["replicas"], curve, ft.Settings()) for name in ("one", "two")]
    for pipeline, controller in both:
        until(lambda each=pipeline: active(each) > 1, pipeline, controller, "another replica")
    return [
        {"replicas": len(actions(controller, SetReplicas)), **ended(pipeline, controller)}
        for pipeline, controller in both
    ]


class Feed(threading.Thread):
    """Writes files of numbers, `rate` of them a second."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.rate, self.written, self.ended = folder, 0.0, 0, threading.Event()
        folder.mkdir(parents=True)

    def run(self):
        files = 0
        while not self.ended.wait(FEED_SECONDS):
            count = max(round(self.rate * FEED_SECONDS), 1)
            hidden = self.folder / f".{files}"
            hidden.write_text("".join(f'{{"row": {self.written + each}}}\n' for each in range(count)))
            hidden.rename(self.folder / f"{files}.json")
            self.written, files = self.written + count, files + 1

    def stop(self):
        self.ended.set()
        self.join()


def asks_and_gives_back(spark, folder):
    """The policies that are the default with a target, on a plain query with an edge: load comes, and goes again."""
    where, levers = f"{folder}/processors", Executors.of_active()
    levers.resize(1)
    settled(lambda: len(levers.executors()) == 1, "one executor")
    feed = Feed(Path(where) / "in")
    rows = spark.readStream.schema("row long").json(str(feed.folder))
    query = edged(rows, where, 80)
    settings = ft.Settings(guards=GuardSettings(cooldown_down=10.0, down_window=10.0))  # by default a minute
    controller = ft.control(query, target=ft.Latency(p99="20s"), settings=settings, max_executors=2)
    counts = []

    def wait_for(true, what):
        settled(true, what, lambda: (query.exception(), controller.decisions))
        counts.append(len(levers.executors()))

    feed.rate = 10.0  # of 25 that the two cores of an executor can do
    feed.start()
    wait_for(lambda: controller.state.policies["processors"].planned > 0, "a plan")
    feed.rate = 35.0
    wait_for(lambda: len(controller.reader.observer.busy) == 2, "work on a second executor")
    feed.rate = 5.0
    wait_for(lambda: len(levers.executors()) == 1, "giving it back")
    feed.stop()
    query.processAllAvailable()
    query.stop()
    controller.stop()
    levers.close()
    chosen = [wish for each in controller.decisions for wish in each.chosen if isinstance(wish.action, SetExecutors)]
    return {
        "policies": [policy.name for policy in controller.control.policies],
        "executors": counts,
        "asked": [wish.action.count for wish in chosen],
        "by": sorted({wish.policy for wish in chosen}),
        "reasons": [wish.reason for wish in chosen],
        "each_once": written(spark, where) == list(range(feed.written)),
    }


STORIES = {
    "replicas": lambda *where: follows_a_step(*where, "replicas"),
    "reactive": lambda *where: follows_a_step(*where, "reactive"),
    "admission": tunes_admission,
    "lopsided": rolls_back,
    "two": both_follow,
    "processors": asks_and_gives_back,
}


def main(folder, names):
    options = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    spark = ft.session("local-cluster[2,2,1024]", "story", options)
    spark.sparkContext.setLogLevel("OFF")
    told = {}
    for name in names or STORIES:
        begin = time.monotonic()
        told[name] = STORIES[name](spark, folder)
        print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
