"""Every action on real executors, one after the other, each until Spark shows that it is in force. Prints JSON."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import functions as F

import foretide as ft
from foretide.control.actions.registry import (
    Quarantine,
    Release,
    Restart,
    SetAdmission,
    SetExecutors,
    SetReplicas,
    SetSplit,
)
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.workloads.keyed import Keyed

ACTIONS = (
    SetReplicas("work", 1),
    SetSplit("work", (1.0, 3.0)),
    SetAdmission("numbers", 400),
    Quarantine("1"),
    Release("1"),
    SetExecutors(1),
    SetExecutors(2),
    Restart("to try it", state_partitions=3, pools={"work": 3}),
)
ROWS = 300_000


@dataclass(frozen=True)
class Scripted:
    """Wishes one action after the other, the next once the last one is in force."""

    actions: tuple
    name: str = "scripted"

    def start(self):
        return 0

    def wish(self, state, world):
        if state < len(self.actions) and self.actions[state].in_force(world.observed):
            state += 1
        return state, [Wish(self.name, each, "the script says so") for each in self.actions[state : state + 1]]


def main(folder):
    options = {"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m"}
    state = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    options["spark.sql.streaming.stateStore.providerClass"] = state
    spark = ft.session("local-cluster[2,1,1024]", "story", options)
    source = ft.Replay(Keyed(seed=3, keys=50), ft.Curve.constant(1500, ROWS / 1500), flush=60.0, max_rows=2000)

    def count(frame):
        by_time = frame.withWatermark("event_time", "1 second").groupBy("key", "event_time")
        return by_time.agg(F.count("*").alias("count"), F.max("row").alias("row")).select("key", "count", "row")

    topology = ft.Topology("story", [ft.Spout("numbers", source)], [
        ft.Bolt("work", lambda df: df.where("value >= 0"), [ft.From("numbers", ft.Dynamic(by=("row",)))], pool=2),
        ft.Bolt("count", count, [ft.From("work")]),
    ])  # fmt: skip
    pipeline = ft.submit(spark, topology, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint")
    calm = GuardSettings(cooldown=0, cooldown_down=0, down_window=0, settle_batches=0)
    settings = ft.Settings(guards=calm, evaluation=EvaluationSettings(roll_back=False))
    controller = ft.control(pipeline, [Scripted(ACTIONS)], ft.Latency(p99="60s"), settings=settings)
    while pipeline.running and controller.state.policies["scripted"] < len(ACTIONS):
        time.sleep(0.2)
    done = controller.state.policies["scripted"]
    workers = workers_by_phase(pipeline, controller)
    pipeline.limit_admission("numbers", None)
    batch = pipeline.last_batch
    while pipeline.running and pipeline.last_batch < batch + 2:
        time.sleep(0.2)
    pipeline.stop()
    pipeline.raise_failure()
    taken = sum(report.input_rows for report in pipeline.reports)
    state_partitions = [report.state.partitions for report in pipeline.reports if report.state]
    written = rows_of(pipeline)
    print(json.dumps({
        "done": done,
        "workers": workers,
        "alarms": [alarm.message for alarm in pipeline.alarms],
        "restarts": pipeline.restarts,
        "state_partitions": sorted({each for each in state_partitions if each}),
        "taken": taken,
        "batches": len(pipeline.reports),
        "decisions": [each.chosen[0].action.kind for each in controller.decisions if each.chosen],
        "problems": [problem for each in controller.decisions for problem in each.problems],
        "rows": len(written),
        "lost": max(written) + 1 - len(set(written)),
        "doubled": len(written) - len(set(written)),
    }))  # fmt: skip
    spark.stop()


def workers_by_phase(pipeline, controller):
    """The executors that ran tasks in the last batch between the quarantine and the release."""
    at = {each.chosen[0].action.kind: each.at for each in controller.decisions if each.chosen}
    between = [
        report
        for report in list(pipeline.reports)
        if at["quarantine"] < report.finished <= at["release"] and report.tasks
    ]
    return {
        "batches": len(between),
        "last": sorted({run.worker for run in between[-1].tasks}) if between else None,
    }


def rows_of(pipeline):
    """The numbers of the rows that were written. Each has a time of its own, so they are written in their order."""
    groups = pipeline.output("count").collect()
    return [group["row"] for group in groups for _ in range(group["count"])]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
