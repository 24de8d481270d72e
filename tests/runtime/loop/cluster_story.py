"""A pipeline under control on a standalone cluster: executors killed, taken out, given back and added. Prints JSON."""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import foretide as ft
from foretide.control.actions.registry import Quarantine, Release, SetExecutors, SetSplit
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.probes.workers import find_executors
from foretide.runtime.monitoring import monitor
from foretide.spark.executors import Executors

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
FEW = 500
MAX_EXECUTORS = 3
WAIT_SECONDS = 90.0


@dataclass
class Ordered:
    """Wishes for what the story is at, until it is in force."""

    action: object = None
    name: str = "ordered"

    def start(self):
        return 0

    def wish(self, state, world):
        if self.action is None or self.action.in_force(world.observed):
            return state, []
        return state, [Wish(self.name, self.action, "the story says so")]


def numbers(spark):
    """The numbers from 0 on, so many a batch; without Python, whose start on a busy machine Spark does not wait for."""
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", FEW).option("numPartitions", 2).load()


class Story:
    def __init__(self, spark, folder):
        bolt = ft.Bolt("work", lambda df: df.select("value"), [ft.From("numbers", ft.Dynamic(by=("value",)))], pool=3)
        topology = ft.Topology("story", [ft.Spout("numbers", ft.Stream(numbers))], [bolt])
        settings = ft.RunSettings(monitoring=ft.MonitorSettings(workers_every=1.0, machines_every=0))
        self.pipeline = ft.submit(spark, topology, ft.Parquet(f"{folder}/out"), f"{folder}/checkpoint", settings)
        self.policy = Ordered()
        calm = GuardSettings(cooldown=0, cooldown_down=0, down_window=0, settle_batches=0)
        control = ft.Settings(guards=calm, evaluation=EvaluationSettings(roll_back=False))
        self.controller = ft.control(
            self.pipeline, [self.policy], ft.Latency(p99="60s"), settings=control, max_executors=MAX_EXECUTORS
        )
        self.application = spark.sparkContext.applicationId

    @property
    def observed(self):
        return self.controller.reader.observer.observed()

    def wait(self, condition, what):
        end = time.monotonic() + WAIT_SECONDS
        while not (found := condition()):
            if not self.pipeline.running or time.monotonic() > end:
                self.pipeline.raise_failure()
                raise SystemExit(f"{what} did not happen: {self.observed}, {self.controller.problems}")
            time.sleep(0.1)
        return found

    def act(self, action):
        """Have the loop carry out an action, and wait until Spark shows that it is in force."""
        self.policy.action = action
        self.wait(lambda: action.in_force(self.observed), action.describe())
        self.policy.action = None

    def busy_hosts(self):
        """The hosts of the executors that ran the tasks of a batch that began from now on."""
        batch, hosts = self.pipeline.last_batch, self.observed.executors
        self.wait(lambda: self.pipeline.last_batch >= batch + 3 and self.pipeline.reports[-1].tasks, "a batch")
        runs = self.pipeline.reports[-1].tasks
        return sorted({hosts.get(run.worker, run.worker) for run in runs})

    def kill(self):
        """Kill an executor in the middle of its work."""
        before = self.observed.executors
        victim = find_executors(self.application)[0]
        os.kill(victim.pid, signal.SIGKILL)
        self.wait(lambda: victim.executor_id not in self.observed.executors, "the death of an executor")
        self.wait(lambda: len(self.observed.executors) >= len(before), "another executor")
        return sorted(set(self.observed.executors) - set(before))

    def features(self, worker):
        figures = self.pipeline.monitor.snapshot().figures
        return {metric: value for (metric, subject), (value, _) in figures.items() if subject == worker}


def main(folder, master):
    options = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": str(MAX_EXECUTORS + 1),
        "spark.executor.heartbeatInterval": "1s",
        "spark.executor.processTreeMetrics.enabled": "true",
    }
    monitor.find_executors = lambda app: [each for each in find_executors(app) if each.host == HERE]
    spark = ft.session(master, "story", options)
    executors, told = Executors.of_active(), {}
    end = time.monotonic() + WAIT_SECONDS
    while (
        len(executors.executors()) <= MAX_EXECUTORS and time.monotonic() < end
    ):  # their starts would slow the query's down
        time.sleep(0.1)
    story = Story(spark, folder)
    story.wait(lambda: len(story.observed.executors) == MAX_EXECUTORS, "giving back what is above the maximum")
    told["hosts"] = sorted(set(story.observed.executors.values()))
    story.act(SetSplit("work", (1.0, 3.0, 0.0)))
    told["split"] = story.observed.routes["work"]
    told["after_kill"] = story.kill()
    worker = min(story.observed.executors)
    story.act(Quarantine(worker))
    story.act(Release(worker))
    story.act(SetExecutors(2))
    told["fewer"] = len(story.observed.executors)
    story.act(SetExecutors(3))
    told["more"] = len(story.observed.executors)
    orders = story.pipeline.control_folder.orders
    orders.drain(ELSEWHERE)
    story.wait(lambda: story.observed.quarantined, "the drain")
    told["drained"] = story.busy_hosts()
    orders.drain(ELSEWHERE, release=True)
    story.wait(lambda: not story.observed.quarantined, "the end of the drain")
    told["released"] = story.busy_hosts()
    workers = story.observed.executors
    remote = [worker for worker, host in workers.items() if host == ELSEWHERE]
    story.wait(lambda: all("worker_gc_per_second" in story.features(each) for each in remote), "a second report")
    told["features"] = {
        host: story.features(next(w for w in workers if workers[w] == host)) for host in (HERE, ELSEWHERE)
    }
    story.pipeline.stop()
    story.pipeline.raise_failure()
    values = [row.value for row in story.pipeline.output("work").collect()]
    told["batch"], told["rows"], told["taken"] = (
        FEW,
        len(values),
        sum(report.input_rows for report in story.pipeline.reports),
    )
    told["complete"] = sorted(values) == list(range(len(values)))
    told["restarts"] = story.pipeline.restarts
    told["alarms"] = [alarm.message for alarm in story.pipeline.alarms]
    told["problems"] = [problem for each in story.controller.decisions for problem in each.problems]
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
