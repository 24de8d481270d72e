"""Executors that are added and taken out in real time, as JSON: `executors_story.py FOLDER SERVERS`.

The pipeline begins on one executor. Tuples come all the time; each of Spark's batches lasts some seconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import foretide as ft
from foretide.control.actions.registry import Quarantine, Release, SetExecutors
from foretide.control.decisions.decision import Wish
from foretide.control.decisions.effects import EvaluationSettings
from foretide.control.guards import GuardSettings
from foretide.spark.executors import Executors
from foretide.spark.kafka_broker import create_topics

MASTER, BATCH, PAUSE, WAIT_SECONDS = "local-cluster[2,12,1024]", "6 seconds", 0.05, 240.0


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


class Feed:
    """Sends a number every now and then, until it is stopped."""

    def __init__(self, servers, topic):
        from confluent_kafka import Producer

        self.producer, self.topic, self.sent = Producer({"bootstrap.servers": servers, "linger.ms": 0}), topic, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(PAUSE):
            self.producer.produce(self.topic, json.dumps({"id": self.sent}).encode())
            self.sent += 1

    def stop(self):
        self.ended.set()
        self.thread.join()
        assert self.producer.flush(60) == 0


class Story:
    def __init__(self, spark, servers, folder):
        create_topics(servers, ["moves-in", "moves-work", "moves-dead_letters"], 2)
        source = ft.KafkaSource(servers, "moves-in", "id long", metadata=(), start="earliest")
        work = ft.Bolt("work", lambda df: df.select("id"), [ft.From("in", ft.Dynamic(by=("id",)))], pool=2)
        topology = ft.Topology("moves", [ft.Spout("in", source)], [work])
        sink = ft.KafkaSink(servers, "moves-{stream}")
        settings = ft.RunSettings(batch=BATCH, monitoring=ft.MonitorSettings(machines_every=0)).in_mode("real-time")
        self.pipeline = ft.submit(spark, topology, sink, str(folder / "checkpoint"), settings)
        self.policy = Ordered()
        calm = GuardSettings(cooldown=0, cooldown_down=0, down_window=0, settle_batches=0)
        control = ft.Settings(guards=calm, evaluation=EvaluationSettings(roll_back=False))
        self.controller = ft.control(
            self.pipeline, [self.policy], ft.Latency(p99="60s"), settings=control, max_executors=2
        )

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

    def workers(self, operator="work"):
        """The executors whose tasks took the tuples of the last two reports."""
        runs = [run for report in list(self.pipeline.reports)[-2:] for run in report.tasks if run.operator == operator]
        return {run.worker for run in runs if run.rows_in}

    def splits(self, ratio):
        """Make a new split, and wait until every executor has acknowledged it; how many there are."""
        version = self.pipeline.split("work", ratio).version
        self.wait(lambda: self.pipeline.await_routes(version, 1.0), f"the split {ratio} in every executor")
        return len(self.observed.executors)


def to_one_executor():
    """Give one of the two executors back, before anything runs there."""
    executors, end = Executors.of_active(), time.monotonic() + WAIT_SECONDS
    while len(executors.executors()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    executors.resize(1)
    while len(executors.executors()) > 1 and time.monotonic() < end:
        time.sleep(0.1)
    return set(executors.executors())


def main(folder, servers):
    spark = ft.session(MASTER, "story", {"spark.sql.shuffle.partitions": "2"}, mode="real-time")
    first = to_one_executor()
    story = Story(spark, servers, folder)
    feed = Feed(servers, "moves-in")
    story.wait(lambda: story.workers() == first, "the first tuples")
    told = {"alone": story.splits("1:1")}
    story.act(SetExecutors(2))
    told["acknowledged_by_both"] = story.splits("2:1")
    (new,) = set(story.observed.executors) - first
    story.wait(lambda: new in story.workers() | story.workers("in"), "work for the new executor")
    (old,) = first
    story.act(Quarantine(old))
    story.wait(lambda: story.workers() == story.workers("in") == {new}, "a batch without the executor that is out")
    told["acknowledged_without"] = story.splits("1:2")
    story.act(Release(old))
    story.wait(lambda: old in story.workers() | story.workers("in"), "work for the executor that is in again")
    feed.stop()
    rows = story.wait(lambda: counted(story, feed.sent), "the last tuple")
    told |= {"sent": feed.sent, "once": set(rows.values()) == {1}, "restarts": story.pipeline.restarts}
    told["problems"] = [problem for each in story.controller.decisions for problem in each.problems]
    story.pipeline.stop()
    spark.stop()
    return told


def counted(story, sent):
    """How often each number came out, once all of them have."""
    rows = Counter(row.id for row in story.pipeline.output("work").collect())
    return rows if len(rows) == sent else None


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
