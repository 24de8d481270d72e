"""Policies on real executors, one after the other, with the default guards and roll-back. Prints JSON."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import functions as F

import foretide as ft
from foretide.control.actions.registry import SetAdmission, SetReplicas, SetSplit
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.policies.admission import AdmissionSettings
from foretide.workloads.keyed import Keyed

WAIT_SECONDS = 180.0
POOL = 4
LOPSIDED = (97.0, 1.0, 1.0, 1.0)
CALM_BATCHES = 30
"""Enough for batches of their usual length in the window before the decision."""


@dataclass(frozen=True)
class Lopsided:
    """Wishes once, after some batches, for a split that makes nearly all tuples wait for one task."""

    name: str = "lopsided"

    def start(self):
        return 0

    def wish(self, state, world):
        if state == CALM_BATCHES:
            return state + 1, [Wish(self.name, SetSplit("work", LOPSIDED), "a mistake")]
        return state + 1, []


def waiting(frame):
    """Work that waits: 3 ms a row, and no processor."""
    wait = F.expr("coalesce(reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', 3000000L), '')")
    waited = F.concat(F.col("row").cast("string"), wait)  # followed by "null", as the method returns nothing
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


def rolls_back(spark, folder):
    settings = ft.Settings(evaluation=EvaluationSettings(window=8.0))
    curve = ft.Curve.constant(400.0)
    pipeline, controller = start(spark, folder, "lopsided", [Lopsided()], curve, settings, replicas=POOL)
    until(lambda: len(actions(controller, SetSplit)) >= 2, pipeline, controller, "the roll-back")
    return {"counts": list(pipeline.control_folder.routes().edges["work"].counts), **ended(pipeline, controller)}


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


STORIES = {
    "replicas": lambda *where: follows_a_step(*where, "replicas"),
    "reactive": lambda *where: follows_a_step(*where, "reactive"),
    "admission": tunes_admission,
    "lopsided": rolls_back,
    "two": both_follow,
}


def main(folder, names):
    options = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    spark = ft.session("local-cluster[2,2,1024]", "story", options)
    told = {}
    for name in names or STORIES:
        begin = time.monotonic()
        told[name] = STORIES[name](spark, folder)
        print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
