"""A real-time query with meters, from Kafka to Kafka, in a process of its own: what its reports said, as JSON."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import functions as F

import foretide as ft
from foretide.metrics.audit import audit
from foretide.metrics.from_batch import BatchContext, service_scv, stream_samples
from foretide.metrics.task_meters import property_of
from foretide.runtime.monitoring.tuple_latency import TupleLatency
from foretide.spark.jars import KAFKA_CONNECTOR, jars_of
from foretide.spark.kafka_broker import Broker, create_topics
from foretide.spark.realtime.meters import TIMESTAMP, create_counters, driver_counters, meter_entry, meter_exit
from foretide.spark.realtime.operators import metered_operators
from foretide.spark.realtime.reader import RealTimeReader
from foretide.spark.session import session
from foretide.topology.shape import first_edges

KEY, SENT, POOL = "story", 5_000, 2
ENOUGH = 50
"""Tuples in a report whose mean counts: the best mean is that of a second in which nothing else ran or was compiled."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1s",
    "spark.shuffle.manager": "org.apache.spark.shuffle.streaming.MultiShuffleManager",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2",
}
WIDTHS = {"in": POOL, "quick": POOL, "slow": POOL}


def bolt(frame, name, rounds):
    """A bolt behind an edge: the more rounds, the longer it works."""
    split = frame.withColumn("_task", F.pmod(F.xxhash64("id"), F.lit(POOL)).cast("int")).repartitionById(POOL, "_task")
    text = F.concat_ws("-", F.sequence(F.lit(1), F.lit(rounds)), F.col("id"))
    worked = meter_entry(split.drop("_task"), name, KEY, POOL).where(F.sha2(text, 512) > " ")
    return meter_exit(worked, name, KEY, POOL)


def start(spark, broker, folder):
    """The query: in -> quick -> slow -> the topic `out`."""
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
    records = records.option("subscribe", "in").option("startingOffsets", "earliest").load()
    parsed = records.select(F.col("value").cast("string").cast("long").alias("id"),
                            F.unix_micros("timestamp").alias(TIMESTAMP))  # fmt: skip
    spout = meter_exit(meter_entry(parsed, "in", KEY, POOL), "in", KEY, POOL)
    made = bolt(bolt(spout, "quick", 5), "slow", 20_000)
    writer = made.select(F.col("id").cast("string").alias("value")).writeStream.format("kafka").outputMode("update")
    writer = writer.option("kafka.bootstrap.servers", broker.address).option("topic", "out")
    return writer.option("checkpointLocation", folder).trigger(realTime="20 seconds").start()


def send(broker, seen):
    """Send half of the tuples, and the others once a report has shown some: gaps count from the second report on."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    for number in range(SENT):
        if number == SENT // 2:
            assert seen.wait(120)
        producer.produce("in", str(number).encode(), partition=number % POOL)
        if number % 100 == 0:
            producer.flush()
            time.sleep(0.02)
    assert producer.flush(60) == 0


def follow(reader, query, seen):
    """Reports until all has arrived, and two more."""
    reports, end, idle = [], time.monotonic() + 120, 0
    while idle < 2 and time.monotonic() < end and query.isActive:
        reports += reader.reports()
        if any(report.input_rows for report in reports):
            seen.set()
        arrived = sum(report.edges["slow"].read for report in reports)
        idle = sum(report.input_rows == 0 for report in reports[-2:]) if arrived >= SENT else 0
        time.sleep(0.1)
    return reports


def told(topology, reports):
    latency, samples = TupleLatency.of(topology), []
    for report in reports:
        spouts = latency.figures(report)
        context = BatchContext(report.duration, "story", spouts, latency.latency(report, spouts))
        samples.append({sample.metric for sample in stream_samples(report, context)})
    times = {name: [report.python[name] for report in reports if name in report.python] for name in WIDTHS}
    return {
        "batches": [report.batch for report in reports],
        "input": sum(report.input_rows for report in reports),
        "idle": reports[-1].input_rows,
        "edges": {name: [sum(report.edges[name].written for report in reports),
                         sum(report.edges[name].read for report in reports)] for name in ("quick", "slow")},
        "rows": {name: sum(run.rows_in for report in reports for run in report.tasks if run.operator == name)
                 for name in WIDTHS},
        "in_flight": reports[-1].in_flight,
        "failures": [failure.message for report in reports for failure in audit(report, first_edges(topology))],
        "best": {name: min(each.seconds / each.timed for each in all_of if each.timed >= ENOUGH)
                 for name, all_of in times.items()},
        "timed": {name: sum(each.timed for each in all_of) for name, all_of in times.items()},
        "scv": service_scv(max(times["slow"], key=lambda each: each.timed)),
        "arrival_scv": sorted({name for report in reports for name in report.arrival_scv}),
        "metrics": sorted(set().union(*samples)),
        "workers": sorted({run.worker for report in reports for run in report.tasks}),
    }  # fmt: skip


def main(folder):
    jars = ",".join(str(jar) for jar in jars_of(KAFKA_CONNECTOR))
    with Broker(folder / "kafka") as broker:
        create_topics(broker.address, ["in", "out"], POOL)
        spark = session("local[8]", "story", {**SETTINGS, "spark.jars": jars})
        create_counters(spark, KEY, WIDTHS)
        source = ft.KafkaSource(broker.address, "in", "id long")
        bolts = [ft.Bolt("quick", lambda df: df, [ft.From("in")], pool=POOL),
                 ft.Bolt("slow", lambda df: df, [ft.From("quick")], pool=POOL)]  # fmt: skip
        topology = ft.Topology("story", [ft.Spout("in", source)], bolts)
        query = start(spark, broker, str(folder / "checkpoint"))
        reader = RealTimeReader(
            query,
            metered_operators(topology, WIDTHS),
            KEY,
            lambda keys: driver_counters(spark, keys),
            route_version=lambda: 1,
            period=0.5,
        )
        seen = threading.Event()
        sender = threading.Thread(target=send, args=(broker, seen))
        sender.start()
        reports = follow(reader, query, seen)
        sender.join()
        error = reader.state().error
        assert (name := property_of(KEY, "in", WIDTHS["in"])) in next(iter(driver_counters(spark, [name]).values()))
        print(json.dumps({"error": error, **told(topology, reports)}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
