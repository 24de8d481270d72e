"""One of two executors becomes slow in the middle of a batch: what the loop does before that batch has ended. JSON."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[2]))
import foretide as ft
from foretide.control.actions.registry import Quarantine
from foretide.probes.workers import find_executors
from foretide.spark.executors import Executors
from foretide.spark.rest import SparkRest
from foretide.spark.running_tasks import RunningTasks
from slowing import slowed

SLOW = "0"
ROWS, KEYS = 240, 120
START_MS = 1_700_000_000_000
WAIT_SECONDS = 240.0


def numbers(spark):
    """The numbers from 0 on, so many a batch, a second of event time later in each; without Python."""
    options = {"rowsPerBatch": ROWS, "numPartitions": 2, "startTimestamp": START_MS, "advanceMillisPerBatch": 1000}
    return spark.readStream.format("rate-micro-batch").options(**options).load()


def digest(frame):
    """Work that waits: 5 ms a row."""
    wait = F.expr("coalesce(reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', 5000000L), '')")
    return frame.withColumn("digest", F.substring(F.concat(F.sha2(F.col("value").cast("string"), 256), wait), 1, 64))


def count(frame):
    """Windows with two rows of each key; the work is behind the state."""
    late = frame.withWatermark("timestamp", "0 seconds") if frame.isStreaming else frame
    groups = late.groupBy(F.window("timestamp", "1 second"), (F.col("value") % KEYS).alias("key"))
    counted = groups.agg(F.count("*").alias("n"), F.max("value").alias("value"))
    return digest(counted.select(F.col("window.start").alias("start"), "key", "n", "value"))


def topology(kind):
    if kind == "stateless":
        bolt = ft.Bolt("work", digest, [ft.From("numbers", ft.Dynamic(by=("value",)))], pool=4)
    else:
        bolt = ft.Bolt("work", count, [ft.From("numbers")])
    return ft.Topology("late", [ft.Spout("numbers", ft.Stream(numbers))], [bolt])


def plain(spark, kind, rows):
    """The same by plain Spark over all rows at once, without waiting."""
    at = F.timestamp_millis(F.lit(START_MS) + (F.col("id") / ROWS).cast("long") * 1000)
    frame = spark.range(rows).select(at.alias("timestamp"), F.col("id").alias("value"))
    expected = frame if kind == "stateless" else count(frame).drop("digest")
    return expected.withColumn("digest", F.sha2(F.col("value").cast("string"), 256))


def until(true, pipeline, what):
    end = time.monotonic() + WAIT_SECONDS
    while not (found := true()):
        pipeline.raise_failure()
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not happen: {[round(each.duration, 1) for each in pipeline.reports]}")
        time.sleep(0.05)
    return found


def copies_that_won(spark):
    rest = SparkRest.of(spark.sparkContext)
    stages = [each for each in rest.get("stages?status=complete") if each["numKilledTasks"]]
    tasks = [rest.get(f"stages/{each['stageId']}/{each['attemptId']}/taskList") for each in stages]
    return sum(task["speculative"] and task["status"] == "SUCCESS" for each in tasks for task in each)


def tell(spark, folder, kind):
    monitoring = ft.MonitorSettings(machines_every=0)
    pipeline = ft.submit(
        spark,
        topology(kind),
        ft.Parquet(f"{folder}/out"),
        f"{folder}/checkpoint",
        ft.RunSettings(monitoring=monitoring),
    )
    controller = ft.control(pipeline, ["bypass"], settings=ft.Settings())
    copied = []
    pipeline.follower.monitor.on_samples(
        lambda samples: copied.extend(each.value for each in samples if each.metric == "worker_copied_tasks")
    )
    until(lambda: sum(report.input_rows > 0 for report in list(pipeline.reports)) >= 14, pipeline, "fourteen batches")
    tasks = RunningTasks.of(spark.sparkContext)

    def begun():
        """A task of the stage with the work, which reads a shuffle, is at work on the executor."""
        attempts = tasks.attempts(str(pipeline.query.runId), even=False)
        return any(each.worker == SLOW and not each.finished and each.size and each.age > 0.05 for each in attempts)

    until(begun, pipeline, "a task on the executor")
    (pid,) = [each.pid for each in find_executors(spark.sparkContext.applicationId) if each.executor_id == SLOW]
    with slowed(pid, 0.396, 0.003):  # in 3 ms of 399
        before, slowed_at = len(pipeline.reports), time.time()
        acted = until(lambda: [each for each in controller.decisions if each.chosen], pipeline, "a decision")
        until(lambda: len(pipeline.reports) >= before + 4, pipeline, "four batches more")
        observed = until(
            lambda: Quarantine(SLOW).in_force(controller.reader.observer.observed()), pipeline, "the quarantine"
        )
    pipeline.stop()
    pipeline.raise_failure()
    return told(spark, kind, pipeline, controller, acted, slowed_at, copied) | {"observed": observed}


def told(spark, kind, pipeline, controller, acted, slowed_at, copied):
    reports = list(pipeline.reports)
    at = acted[0].at
    within = [each for each in reports if each.finished - each.duration < at < each.finished]
    output = pipeline.output("work").drop("timestamp") if kind == "stateless" else pipeline.output("work")
    expected = plain(spark, kind, (reports[-1].batch + 2) * ROWS).select(output.columns)
    if kind == "stateless":
        expected = expected.where(F.col("value") <= output.agg(F.max("value")).first()[0])
    else:
        expected = expected.where(F.col("start") <= output.agg(F.max("start")).first()[0])
    return {
        "chosen": [[wish.policy, wish.action.kind, wish.action.worker] for wish in acted[0].chosen],
        "reason": acted[0].chosen[0].reason,
        "within": [each.batch for each in within],
        "slowed_in": [each.batch for each in reports if each.finished - each.duration < slowed_at < each.finished],
        "copied": sum(copied),
        "won": copies_that_won(spark),
        "rows": output.count(),
        "missing": expected.exceptAll(output).count(),
        "surplus": output.exceptAll(expected).count(),
        "problems": controller.problems,
        "restarts": pipeline.restarts,
        "audit": [str(failure) for failure in pipeline.alarms],
        "durations": [round(each.duration, 2) for each in reports],
        "decided_after": at - slowed_at,
    }


def main(folder):
    options = {"spark.sql.shuffle.partitions": "4", "spark.executor.memory": "512m"}
    spark = ft.session("local-cluster[2,1,1024]", "late", options)
    spark.sparkContext.setLogLevel("OFF")
    found = {}
    for kind in ("stateless", "stateful"):
        found[kind] = tell(spark, Path(folder) / kind, kind)
        Executors(spark.sparkContext).let_in(SLOW)
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
