"""A real-time query of one's own with an edge and `ft.control`, as JSON: `own_query_story.py FOLDER SERVERS MASTER`.

Tuples are sent and received in the middle of one batch, while the split of the edge changes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.routing.table import parse_ratio
from foretide.spark.jars import KAFKA_CONNECTOR, jars_of
from foretide.spark.kafka_broker import create_topics
from foretide.spark.realtime.edges import key_of
from foretide.spark.realtime.routes import route_property

POOL, SPLITS, TUPLES = 3, 6, 50
SETTINGS = {"spark.ui.enabled": "false", "spark.executor.memory": "700m", "spark.sql.shuffle.partitions": "2"}


class Ends:
    """The two ends of the query: what was sent, and which task each tuple went to."""

    def __init__(self, servers, name):
        from confluent_kafka import Consumer, Producer

        self.name, self.sent, self.received = name, 0, []
        self.producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self.consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "auto.offset.reset": "earliest"})
        self.consumer.subscribe([f"{name}-out"])

    def tasks(self, count=TUPLES, seconds=90.0):
        """Send tuples, wait for them, and return the tasks that they went to."""
        wanted = set(range(self.sent, self.sent + count))
        self.sent += count
        for each in wanted:
            self.producer.produce(f"{self.name}-in", str(each).encode())
        assert self.producer.flush(60) == 0
        found, end = {}, time.monotonic() + seconds
        while found.keys() < wanted and time.monotonic() < end:
            message = self.consumer.poll(0.02)
            if message is not None and not message.error():
                each, task = map(int, message.value().split(b","))
                self.received.append(each)
                found[each] = task
        return sorted({found.get(each, -1) for each in wanted})

    def seconds_until(self, task):
        """Send a tuple at a time until they go to a task, and no other."""
        began = time.monotonic()
        while self.tasks(1) != [task] or self.tasks(5) != [task]:
            if time.monotonic() > began + 60:
                return None
        return time.monotonic() - began


def start(spark, servers, name, folder):
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = read.option("subscribe", f"{name}-in").option("startingOffsets", "earliest").load()
    control = {"control_folder": f"{folder}/control", "mode": "real-time"}
    numbers = rows.selectExpr("cast(cast(value as string) as long) id")
    worked = numbers.transform(ft.edge("work", ft.Dynamic(), replicas=2, pool=POOL, **control))
    placed = worked.selectExpr("id", "spark_partition_id() task").transform(ft.edge("last", ft.Global(), **control))
    writer = placed.selectExpr("concat_ws(',', id, task) value").writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", f"{name}-out").queryName("own")
    return (
        writer.option("checkpointLocation", f"{folder}/ck").outputMode("update").trigger(realTime="10 minutes").start()
    )


def ratio(task):
    return ":".join("1" if each == task else "0" for each in range(POOL))


def split(folder, task):
    return folder.change_routes(lambda table: table.split("work", parse_ratio("work", ratio(task))))


def refused(query, folder):
    """What is said of a control folder that is not the one of the query's edges."""
    folder.change_routes(lambda table: table.declare("work", POOL))
    try:
        ft.control(query, settings=ft.Settings(), control_folder=folder.location)
    except ft.errors.ControlError as error:
        return str(error)
    return None


def seconds_to_follow(folder, ends, task):
    split(folder, task)
    return ends.seconds_until(task)


def ours():
    """Threads that belong to a control loop and its way to the executors."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("foretide"))


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return bool(condition())


def main(path, servers, master):
    told, name, folder = {}, f"own-{uuid.uuid4().hex[:8]}", ControlFolder(f"{path}/control")
    create_topics(servers, [f"{name}-in", f"{name}-out"], 2)
    jars = ",".join(map(str, jars_of(KAFKA_CONNECTOR)))
    spark = ft.session(master, "own-query", {**SETTINGS, "spark.jars": jars}, mode="real-time")
    threads, ends = ours(), Ends(servers, name)
    query = start(spark, servers, name, path)
    told["at first"] = ends.tasks()
    split(folder, 2)
    told["without a loop"] = ends.tasks()
    told["refused"] = refused(query, ControlFolder(f"{path}/other"))
    controller = ft.control(query, ["bypass"], settings=ft.Settings(), control_folder=folder.location)
    followed = controller.reader._query
    told["agent"], told["problem"] = type(followed._agent).__name__, followed._agent.problem
    told["with a loop"] = ends.tasks()
    told["seconds"] = [seconds_to_follow(folder, ends, each % POOL) for each in range(SPLITS)]
    told["version"] = wait_for(lambda: controller.reader.observer.observed().route_version == folder.routes().version)
    reports, expected = followed.follower.reports, ends.sent - 2 * TUPLES  # those since the loop was attached
    told["counted"] = wait_for(lambda: sum(report.input_rows for report in list(reports)) == expected)
    tasks = zip(*(report.edges["work"].per_task for report in list(reports)), strict=True)
    told["per task"] = [sum(tuples) for tuples in tasks]
    observed, setup = controller.reader.observer.observed(), controller.reader.read().setup
    told["placed"] = sum(worker in observed.executors for worker in observed.placements["work"])
    told["setup"] = [setup.mode, [[part.name, part.edge, part.spout] for part in setup.operators], list(setup.flows)]
    samples = followed.follower.monitor.snapshot()
    told["known"] = {
        metric: samples.value(metric, "work") is not None
        for metric in ("arrival_rate", "service_time_ms", "selectivity")
    }
    told["alarms"] = [alarm.message for alarm in followed.follower.audit_log.failures]
    told["batches"] = len(query.recentProgress)
    told["lost"], told["doubled"] = ends.sent - len(set(ends.received)), len(ends.received) - len(set(ends.received))
    query.stop()
    told["closed"] = wait_for(lambda: ours() == threads) and not spark.streams.active
    told["left"] = sorted(set(ours()) - set(threads))
    route = spark._jvm.java.lang.System.getProperty(route_property(key_of(folder), "work"))
    told["route left"] = route or None
    told["ended"] = folder.status.control().ended
    ends.consumer.close()
    spark.stop()
    return told


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])), flush=True)
