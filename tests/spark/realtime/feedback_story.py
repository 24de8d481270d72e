"""Loops through Kafka topics in real-time mode, told as JSON: `python feedback_story.py FOLDER SERVERS`."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import foretide as ft
from foretide.errors import FeedbackGrowthError, TopologyError
from foretide.spark.kafka_broker import create_topics

PARTITIONS = 5
"""Beyond four, Spark's tasks do not read partitions in their order."""

SCHEMA = "id long, n long"
KEPT = "pmod(xxhash64(id, n), 10) < 6"
GROWING = "explode(array(n + 1, n + 2)) n"


def say(what):
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it did not come true in time")
        time.sleep(0.1)


def send(servers, topic, first, last, stop=None):
    """Records in uneven shares of the partitions, a malformed one in each."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for number in range(first, last):
        partition = min(number % 16 // 2, PARTITIONS - 1)
        producer.produce(topic, json.dumps({"id": number, "n": 0}).encode(), partition=partition)
        if stop is not None:
            producer.flush()
            time.sleep(0.02)
            if stop.is_set():
                return
    for partition in range(PARTITIONS):
        producer.produce(topic, b"malformed", partition=partition)
    assert producer.flush(60) == 0


def loop(servers, name, work):
    source = ft.KafkaSource(servers, f"{name}-in", SCHEMA, start="earliest", metadata=())
    inputs = [ft.From(name, ft.Shuffle(), feedback=True), ft.From("in", ft.Shuffle())]
    return ft.Topology(name, [ft.Spout("in", source)], [ft.Bolt(name, work, inputs, pool=2)])


def start(spark, servers, folder, name, work):
    sink = ft.KafkaSink(servers, "back-{stream}")
    settings = ft.RunSettings(guarantee="at-least-once", batch="8 seconds", loop_patience=8, monitoring=None)
    return ft.submit(spark, loop(servers, name, work), sink, str(folder / name), settings, mode="real-time")


def total(reports):
    read = sum(report.input_rows for report in reports)
    returned = sum(each.tuples for report in reports for each in report.returned.values())
    return read, returned


def lag(report):
    return {"records": report.lag["in"].records, **report.lag["in"].partitions}


def bounded(spark, servers, folder):
    """A loop that sends 60 % back, over the end of a batch."""
    send(servers, "keep-in", 0, 1000)
    pipeline = start(spark, servers, folder, "keep", lambda df: df.where(KEPT).selectExpr("id", "n + 1 n"))
    wait_for(lambda: total(list(pipeline.reports))[0] >= 1000 + PARTITIONS)
    say("first tuples")
    wait_for(lambda: pipeline.query.handles[0].lastProgress is not None)
    say("end of a batch")
    send(servers, "keep-in", 1000, 1500)
    wait_for(lambda: total(list(pipeline.reports))[0] >= 1500 + 2 * PARTITIONS)
    quiet = len(pipeline.reports) + 3
    wait_for(lambda: len(pipeline.reports) >= quiet)
    reports = list(pipeline.reports)
    read, returned = total(reports)
    told = {
        "read": read,
        "gain": returned / (1500 + returned),
        "lag": lag(reports[-1]),
        "waiting": reports[-1].returned["keep -> keep"].waiting,
        "written": sum(each.returned["keep -> keep"].written or 0 for each in reports),
        "returned": returned,
        "running": pipeline.running,
        "restarts": pipeline.restarts,
        "slots": pipeline.follower.query.compiled.tasks,
        "alarms": [failure.message for failure in pipeline.follower.audit_log.failures],
    }
    pipeline.stop()
    return told


def unbounded(spark, servers, folder):
    """A loop that sends two tuples back for each one."""
    stop = threading.Event()
    feeding = threading.Thread(target=send, args=(servers, "grow-in", 0, 100_000, stop))
    feeding.start()
    pipeline = start(spark, servers, folder, "grow", lambda df: df.selectExpr("id", GROWING))
    try:
        pipeline.wait(120)
    except FeedbackGrowthError as error:
        return {"feedback": error.feedback, "gain": error.gain}
    finally:
        stop.set()
        pipeline.stop()
    return {}


def misfit(spark, servers, folder):
    """A loop whose feedback has another type than its entry."""
    try:
        start(spark, servers, folder, "keep", lambda df: df.selectExpr("id", "cast(n as string) n"))
    except TopologyError as error:
        return str(error)
    return None


def main(folder, servers):
    create_topics(servers, ["keep-in", "grow-in"], PARTITIONS)
    create_topics(servers, ["back-keep", "back-grow", "back-dead_letters"], 3)
    spark = ft.session("local[20]", "story", {"spark.ui.enabled": "false"}, mode="real-time")
    told = {"misfit": misfit(spark, servers, folder / "misfit")}
    say("misfit")
    told["bounded"] = bounded(spark, servers, folder)
    say("bounded")
    told["unbounded"] = unbounded(spark, servers, folder)
    say("unbounded")
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])), flush=True)
    os._exit(0)
