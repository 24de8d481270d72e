"""A pipeline in real-time mode on real executors, told as JSON: `python pipeline_story.py FOLDER SERVERS [MASTER]`.

Streams, branches and dead letters; routes that change in the middle of a batch; an executor that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import foretide as ft
from foretide.metrics.task_meters import parse_counters, property_of
from foretide.probes.workers import find_executors
from foretide.spark.kafka_broker import create_topics
from foretide.spark.realtime.edges import key_of

NUMBERS, SPLITS, EXECUTORS = 3000, 20, 2
MARK_SECONDS = 0.001
SCHEMA = "id long, word string"
INPUT, OUTPUT = f"in-{os.getpid()}", f"out-{os.getpid()}"  # another test may use the same broker


def parse(numbers):
    return numbers.selectExpr("id", "upper(word) word", "if(id % 10 = 0, 'tens', 'others') stream")


def mark(row):
    time.sleep(MARK_SECONDS)
    if row["id"] % 100 == 1:
        raise ValueError("a number that cannot be marked")
    yield {"id": row["id"], "marked": f"{row['word']}!"}


def topology(source):
    return ft.Topology(
        "numbers",
        [ft.Spout("numbers", source)],
        [
            ft.Bolt("parse", parse, [ft.From("numbers", ft.Dynamic())], pool=3, streams=("tens", "others")),
            ft.Bolt("mark", ft.PerTuple(mark, "id long, marked string"), [ft.From("parse", stream="others")], pool=2),
        ],
    )


def send(servers, first, last, pause=0.0):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for number in range(first, last):
        producer.produce(INPUT, json.dumps({"id": number, "word": f"w{number}"}).encode())
        if pause and number % 10 == 0:
            producer.flush()
            time.sleep(pause)
    producer.produce(INPUT, b"not json")
    assert producer.flush(60) == 0


def ids(pipeline, stream):
    return Counter(row.id for row in pipeline.output(stream).select("id").collect())


def rows_of(pipeline, operator):
    """Tuples that an operator has taken."""
    return sum(run.rows_in for report in list(pipeline.reports) for run in report.tasks if run.operator == operator)


def say(what):
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it did not come true in time")
        time.sleep(0.5)


def resplit(pipeline):
    """Split the edge again and again; how often every executor has acknowledged it."""
    ratios = ["1:1:1", "7:3:2", "0:1:1", "1:0:0"]
    for turn in range(SPLITS):
        version = pipeline.split("parse", ratios[turn % len(ratios)]).version
        if not pipeline.await_routes(version, 20.0):
            return turn
        time.sleep(0.05)
    return SPLITS


def follows_again(spark, pipeline):
    """Whether a split is in force everywhere again once a new executor has taken the place of the lost one."""
    wait_for(lambda: len(find_executors(spark.sparkContext.applicationId)) >= EXECUTORS)
    wait_for(lambda: len(pipeline._query._agent.executors()) >= EXECUTORS)
    return pipeline.await_routes(pipeline.split("parse", "2:1:1").version, 60.0)


def latencies(pipeline, counters):
    """Of how many tuples the counters know the latency, on all executors."""
    reader, key = pipeline._query.reader, key_of(pipeline.control_folder)
    name = property_of(key, counters, pipeline._query.compiled.counters[counters])
    texts = [of_executor.get(name) for of_executor in reader.last_read.values()]
    meters = [meter for text in texts if text for meter in parse_counters(text)]
    return sum(sum(meter.histogram) for meter in meters)


def measured(pipeline):
    """What the reports say about `mark`, the second bolt, and about the edges when all is done."""
    reports = list(pipeline.reports)
    marked = [report.python["mark"] for report in reports if "mark" in report.python]
    runs = [run for report in reports for run in report.tasks if run.operator == "mark"]
    return {
        "mark_seconds": sum(each.seconds for each in marked) / sum(each.timed for each in marked),
        "mark_rows": [sum(run.rows_in for run in runs), sum(run.rows_out for run in runs)],
        "counted": {run.operator: run.feeds for report in reports for run in report.tasks},
        "in_flight": reports[-1].in_flight,
        "latencies": {name: latencies(pipeline, name) for name in ("mark", "parse.sink")},
    }


def main(folder, servers, master="local-cluster[2,14,1024]"):
    told = {}
    create_topics(servers, [INPUT, f"{OUTPUT}-parse.tens", f"{OUTPUT}-mark", f"{OUTPUT}-dead_letters"], 2)
    spark = ft.session(master, "story", {"spark.sql.shuffle.partitions": "2"}, mode="real-time")
    source = ft.KafkaSource(servers, INPUT, SCHEMA, start="earliest")
    sink = ft.KafkaSink(servers, f"{OUTPUT}-{{stream}}")
    pipeline = ft.submit(spark, topology(source), sink, str(folder / "checkpoint"), mode="real-time")
    say("started")
    send(servers, 0, 100)
    wait_for(lambda: rows_of(pipeline, "numbers") >= 101 and rows_of(pipeline, "mark") >= 90)
    wait_for(lambda: any("mark" in report.python for report in list(pipeline.reports)))
    say("first tuples")
    reports = list(pipeline.reports)
    told["operators"] = sorted({run.operator for report in reports for run in report.tasks})
    told["service_times"] = sorted({name for report in reports for name in report.python})
    told["latency"] = any(report.event_times for report in reports)
    feeding = threading.Thread(target=send, args=(servers, 100, NUMBERS, 0.02))
    feeding.start()
    told["acknowledged"] = resplit(pipeline)
    say("split")
    feeding.join()
    pipeline.split("parse", "1:2:0")
    expected = NUMBERS + 2
    wait_for(lambda: rows_of(pipeline, "numbers") >= expected)
    time.sleep(3)
    say("all tuples")
    told["restarts_before"] = pipeline.restarts
    told["hosts"] = sorted({run.host for report in list(pipeline.reports) for run in report.tasks})
    told |= measured(pipeline)
    tens, marked = ids(pipeline, "parse.tens"), ids(pipeline, "mark")
    told["tens"] = sorted(tens.values()) == [1] * (NUMBERS // 10) and set(tens) == set(range(0, NUMBERS, 10))
    good = {number for number in range(NUMBERS) if number % 10 and number % 100 != 1}
    told["marked"] = set(marked) == good and set(marked.values()) == {1}
    letters = pipeline.output("dead_letters").select("dead_letter.*").collect()
    told["letters"] = dict(Counter(letter.bolt for letter in letters))
    say(f"kill, after {told}")
    victim = find_executors(spark.sparkContext.applicationId)[0]
    os.kill(victim.pid, signal.SIGKILL)
    send(servers, NUMBERS, NUMBERS + 500)
    later = {number for number in range(NUMBERS + 500) if number % 10 and number % 100 != 1}
    wait_for(lambda: set(ids(pipeline, "mark")) == later)
    say("recovered")
    told["acknowledged_by_the_new_one"] = follows_again(spark, pipeline)
    told["restarts"], told["running"] = pipeline.restarts, pipeline.running
    told["doubled"] = sum(ids(pipeline, "mark").values()) - len(later)
    told["alarms"] = [alarm.kind for alarm in pipeline.alarms]
    told["cost"] = [alarm.message for alarm in pipeline.alarms if alarm.kind == "query-restarted"]
    pipeline.stop()
    spark.stop()
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *sys.argv[2:])))
