"""What the loop does about slow executors, with the default guards and roll-back; and a query without edges.

Prints JSON. `python workers_story.py FOLDER NAME...`; with `replaced` Spark keeps no list of excluded executors.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[2]))
import foretide as ft
from foretide.control.actions.registry import Quarantine, Release, SetExecutors
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.control.policies.bypass import BypassSettings
from foretide.control.policies.prediction_error import PredictionErrorSettings
from foretide.metrics.from_batch import SLOWNESS
from foretide.probes.workers import find_executors
from foretide.settings.forecasts import ForecastSettings
from slowing import slowed

ROWS = 160
WARM_BATCHES = 8
WAIT_SECONDS = 240.0


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
    """The numbers from 0 on, so many a batch."""
    return spark.readStream.format("rate-micro-batch").options(rowsPerBatch=ROWS, numPartitions=2).load()


def waiting(frame, milliseconds=5):
    """Work that waits, without Python."""
    wait = f"coalesce(reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', {milliseconds}000000L), '')"
    waited = F.concat(F.col("value").cast("string"), F.expr(wait))  # followed by "null", as the method returns nothing
    return frame.select(F.regexp_extract(waited, "^[0-9]+", 0).cast("long").alias("value"))


class Story:
    """A query under control."""

    def __init__(self, spark, controller, followed):
        self.spark, self.controller, self.followed = spark, controller, followed

    @property
    def observed(self):
        return self.controller.reader.observer.observed()

    @property
    def reports(self):
        return list(self.followed.reports)

    def until(self, true, what):
        end = time.monotonic() + WAIT_SECONDS
        while not (found := true()):
            if time.monotonic() > end:
                made = [(each.at, each.actions, each.guards, each.problems) for each in self.controller.decisions]
                raise SystemExit(f"{what} did not happen: {self.observed}, {made}, {self.controller.problems}")
            time.sleep(0.1)
        return found

    def warm(self, batches=WARM_BATCHES):
        self.until(lambda: sum(each.input_rows > 0 for each in self.reports) >= batches, "some batches")

    def decided(self, action):
        """The decision for an action, once it is in force."""
        made = self.until(lambda: self.chosen(action), action.describe())
        self.until(lambda: action.in_force(self.observed), f"in force: {action.describe()}")
        return made[-1]

    def chosen(self, action):
        return [wish for each in self.controller.decisions for wish in each.chosen if wish.action == action]

    def works(self, worker):
        """Wait for a batch that begins from now on, and in which an executor works."""
        now = time.time()

        def worked():
            later = [each for each in self.reports if each.finished - each.duration > now]
            return any(run.worker == worker and run.rows_in for each in later for run in each.tasks or ())

        self.until(worked, f"work on executor {worker}")
        return True

    def batches(self, count):
        """Wait for so many batches that begin from now on; the executors that work in the last one."""
        now = time.time()
        self.until(lambda: sum(r.finished - r.duration > now for r in self.reports) >= count, f"{count} batches")
        return sorted({run.worker for run in self.reports[-1].tasks or () if run.rows_in})


def pipeline(spark, folder, name, policies, settings):
    bolt = ft.Bolt("work", waiting, [ft.From("numbers", ft.Dynamic(by=("value",)))], pool=4)
    topology = ft.Topology(name, [ft.Spout("numbers", ft.Stream(numbers))], [bolt])
    running = ft.submit(spark, topology, ft.Parquet(f"{folder}/{name}/out"), f"{folder}/{name}/checkpoint")
    story = Story(spark, ft.control(running, policies, settings=settings), running)
    story.warm()
    return running, story


def ended(running, story):
    running.stop()
    running.raise_failure()
    values = [each.value for each in running.output("work").collect()]
    taken = sum(report.input_rows for report in running.reports)
    return {
        "decisions": [wish.action.describe() for each in story.controller.decisions for wish in each.chosen],
        "each_once": sorted(values) == list(range(len(values))) and len(values) >= taken > 0,
        "alarms": [alarm.message for alarm in running.alarms],
        "restarts": running.restarts,
    }


def victim_of(story):
    """An executor, and its process."""
    worker = min(story.observed.executors, key=int)
    found = find_executors(story.spark.sparkContext.applicationId)
    return worker, next(each.pid for each in found if each.executor_id == worker)


def comes_back(spark, folder, name, policies, settings):
    """An executor is slow for some time: it is taken out, and let in again without anybody's help."""
    running, story = pipeline(spark, folder, name, policies, settings)
    worker, pid = victim_of(story)
    with slowed(pid):
        out = story.decided(Quarantine(worker))
        without = story.batches(2)
    back = story.decided(Release(worker))
    works = story.works(worker)
    told = {"worker": worker, "without": without, "out": out.reason, "back": back.reason, "works": works}
    return told | ended(running, story)


def bypass(spark, folder):
    chosen = BypassSettings(first_wait=5.0)
    return comes_back(spark, folder, "bypass", ["bypass"], ft.Settings(policies={"bypass": chosen}))


def prediction_error(spark, folder):
    """By what is usual for the worker, as there is no net; on the one host there is, the worker alone."""
    rule = PredictionErrorSettings(metric=SLOWNESS, threshold=0.4, hold=5.0)
    settings = ft.Settings(policies={"prediction_error": rule}, forecasts=ForecastSettings(workers=False))
    return comes_back(spark, folder, "prediction_error", ["prediction_error"], settings)


def replaced(spark, folder):
    """Without the list of excluded executors a slow one is killed, and another one comes."""
    running, story = pipeline(spark, folder, "replaced", ["bypass"], ft.Settings())
    before = set(story.observed.executors)
    worker, pid = victim_of(story)
    with slowed(pid):
        story.decided(Quarantine(worker))
        story.until(lambda: len(story.observed.executors) == len(before), "another executor")
    after = set(story.observed.executors)
    works = story.works(max(after, key=int))
    told = {"worker": worker, "gone": sorted(before - after), "new": sorted(after - before), "works": works}
    return told | {"problems": story.controller.problems} | ended(running, story)


def plain(spark, folder):
    """A StreamingQuery that knows nothing of Foretide: every action on executors, until Spark shows it in force."""
    where = f"{folder}/plain"
    writer = waiting(numbers(spark)).writeStream.format("parquet").option("path", f"{where}/out")
    query = writer.option("checkpointLocation", f"{where}/checkpoint").start()
    calm = GuardSettings(cooldown=0, cooldown_down=0, down_window=0, settle_batches=0)
    settings = ft.Settings(guards=calm, evaluation=EvaluationSettings(roll_back=False))
    policy = Ordered()
    controller = ft.control(query, [policy], settings=settings)
    story = Story(spark, controller, controller.reader._query.follower)
    story.warm(2)
    worker, phases = victim_of(story)[0], []
    for action in (Quarantine(worker), Release(worker), SetExecutors(1), SetExecutors(2)):
        policy.action = action
        story.decided(action)
        serving = story.observed.in_service
        phases.append([sorted(serving), [each for each in sorted(serving) if story.works(each)], story.batches(1)])
    query.stop()
    values = [each.value for each in spark.read.schema("value long").parquet(f"{where}/out").collect()]
    each_once = sorted(values) == list(range(len(values))) and len(values) > 0
    problems = [problem for each in controller.decisions for problem in each.problems]
    return {"worker": worker, "phases": phases, "each_once": each_once, "problems": problems}


STORIES = {"bypass": bypass, "prediction_error": prediction_error, "plain": plain, "replaced": replaced}


def main(folder, names):
    options = {"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m"}
    if "replaced" in names:
        options["spark.excludeOnFailure.application.enabled"] = "false"
    spark = ft.session("local-cluster[2,1,1024]", "story", options)
    spark.sparkContext.setLogLevel("OFF")
    told = {}
    for name in names:
        begin = time.monotonic()
        told[name] = STORIES[name](spark, folder)
        print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
