"""A topology in both modes with a broker that asks for a password, as JSON: `kafka_security_story.py FOLDER SERVERS`.

The password comes from the environment, as its command line is for everybody to read.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import foretide as ft
from foretide.errors import ForetideError
from foretide.spark.kafka_broker import create_topics, list_topics
from foretide.spark.kafka_client import client_settings

MASTER = "local-cluster[1,12,1024]"
USER, PASSWORD = "me", os.environ.get("STORY_PASSWORD", "")


def security(password):
    """What Spark, and the driver's own client, are told."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{login} username="{USER}" password="{password}";',
    }


class Feed:
    """Sends a number and a word with each turn."""

    def __init__(self, servers, topic):
        from confluent_kafka import Producer

        self.producer, self.topic, self.sent = Producer(client_settings(servers, security(PASSWORD))), topic, 0

    def turn(self):
        self.producer.produce(self.topic, json.dumps({"id": self.sent, "word": f"w{self.sent}"}).encode())
        self.sent += 1
        assert self.producer.flush(60) == 0


def submit(spark, servers, mode, password, checkpoint):
    options = security(password)
    source = ft.KafkaSource(servers, f"{mode}-in", "id long, word string", start="earliest", options=options)
    upper = ft.Bolt("upper", lambda df: df.selectExpr("id", "upper(word) word"), [ft.From("in", ft.Dynamic())], pool=2)
    topology = ft.Topology(mode, [ft.Spout("in", source)], [upper])
    sink = ft.KafkaSink(servers, f"{mode}-{{stream}}", options=options)
    measured = ft.MonitorSettings(workers_every=0, machines_every=0)
    settings = ft.RunSettings(guarantee="at-least-once", trigger="500 milliseconds", monitoring=measured)
    settings = settings.in_mode("real-time") if mode == "real-time" else settings
    return ft.submit(spark, topology, sink, checkpoint, settings), (topology, sink, settings)


def wait_for(condition, pipeline, feed=None, seconds=240.0):
    """Wait, and feed the pipeline meanwhile."""
    end = time.monotonic() + seconds
    while not condition():
        pipeline.raise_failure()
        if time.monotonic() > end:
            raise TimeoutError(f"it did not come true in time: {pipeline.monitor.problems}")
        if feed is not None:
            feed.turn()
        time.sleep(0.1)


def run(spark, servers, mode, folder):
    """Run the topology, and what the driver's own client found out."""
    create_topics(servers, [f"{mode}-{name}" for name in ("in", "upper", "dead_letters")], 2, security(PASSWORD))
    pipeline, values = submit(spark, servers, mode, PASSWORD, str(folder / mode))
    metric = "partition_lag" if mode == "real-time" else "partition_latency_mean_ms"
    feed = Feed(servers, f"{mode}-in")
    wait_for(lambda: (metric, "in/0") in pipeline.monitor.snapshot().figures, pipeline, feed)
    wait_for(lambda: sum(report.input_rows for report in list(pipeline.reports)) >= feed.sent, pipeline)
    shown = repr((pipeline, *values))
    told = {"restarts": pipeline.restarts, "alarms": [alarm.message for alarm in pipeline.alarms]}
    pipeline.stop()
    ids = sorted(row.id for row in pipeline.output("upper").collect())
    return {**told, "complete": ids == list(range(feed.sent)), "shown": shown}


def refused(spark, servers, folder):
    """What a wrong password leads to."""
    try:
        submit(spark, servers, "real-time", f"not-{PASSWORD}", str(folder / "refused"))
    except ForetideError as error:
        return str(error)
    return None


def main(folder, servers):
    spark = ft.session(MASTER, "story", {"spark.sql.shuffle.partitions": "2"}, mode="real-time")
    told = {mode: run(spark, servers, mode, folder) for mode in ("micro-batch", "real-time")}
    told["refused"] = refused(spark, servers, folder)
    told["topics"] = sorted(list_topics(servers, security(PASSWORD)))
    spark.stop()
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
