"""The control loop on a real-time pipeline with two executors, told as JSON: `python control_story.py FOLDER SERVERS`.

DRS adds replicas to an overloaded bolt; a slow executor gets a smaller share of the stream; replicas follow the load.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import foretide as ft
from foretide.kafka.children import Collector, Feed
from foretide.kafka.latency import Account
from foretide.probes.workers import find_executors
from foretide.spark.kafka_broker import create_topics
from foretide.workloads.requests import RequestLines

RATE, SECONDS = 150.0, 240.0
MILLISECONDS = 8
_PARK = "'java.util.concurrent.locks.LockSupport', 'parkNanos'"


def work(rows):
    """Wait for each tuple, as for a service: one task can do 125 tuples a second."""
    nanoseconds = f"bigint({MILLISECONDS}e6 * (0.5 + pmod(xxhash64(row), 1000) / 1000))"
    return rows.where(f"coalesce(length(java_method({_PARK}, {nanoseconds})), 0) >= 0").select("row", "due")


def topology(source):
    bolt = ft.Bolt("work", work, [ft.From("requests", ft.Dynamic(by=("row",)))], pool=6, replicas=1)
    return ft.Topology("controlled", [ft.Spout("requests", source)], [bolt])


@contextlib.contextmanager
def slowed(pid):
    """Let a process run a tenth of the time."""
    stop = threading.Event()

    def toggle():
        while not stop.is_set():
            os.kill(pid, signal.SIGSTOP)
            stop.wait(0.09)
            os.kill(pid, signal.SIGCONT)
            stop.wait(0.01)

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        os.kill(pid, signal.SIGCONT)


def wait_for(condition, what, seconds=100.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen")
        time.sleep(0.1)
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)
    return found


class Story:
    def __init__(self, spark, pipeline):
        self.spark, self.pipeline, self.decisions = spark, pipeline, []

    def attach(self, policies=None):
        self.loop = ft.control(self.pipeline, policies, ft.Latency(p99="200ms"))
        self.loop.on_decision(self.decisions.append)

    @property
    def observed(self):
        return self.loop.reader.observer.observed()

    def processors(self):
        """An overloaded bolt gets replicas by the model."""
        wait_for(lambda: (self.observed.replicas("work") or 0) >= 2, "more replicas in force")
        reasons = [wish.reason for decision in self.decisions for wish in decision.chosen]
        return {"replicas": self.observed.replicas("work"), "reason": next(iter(reasons), "")}

    def bypass(self):
        """A slow executor's tasks get less."""
        places = wait_for(lambda: self.observed.placements.get("work"), "known placements")
        workers = {worker for worker in places if worker is not None}
        pids = {each.executor_id: each.pid for each in find_executors(self.spark.sparkContext.applicationId)}
        active = [places[task] for task, weight in enumerate(self.observed.routes["work"]) if weight > 0]
        victim = next(worker for worker in sorted(workers) if worker in active)
        before = self.share_of(victim)
        with slowed(pids[victim]):
            wait_for(lambda: self.share_of(victim) < before / 2, "a smaller share of the slow executor")
            after = self.share_of(victim)
        return {"before": before, "after": after, "victim": victim}

    def share_of(self, worker):
        weights, places = self.observed.routes["work"], self.observed.placements["work"]
        return sum(weight for weight, place in zip(weights, places, strict=True) if place == worker) / sum(weights)

    def replicas(self):
        """PA-SPS: replicas follow load and backlog."""
        self.loop.stop()
        version = self.pipeline.activate("work", 1).version
        assert self.pipeline.await_routes(version, 20.0)
        self.attach(["replicas"])
        return wait_for(
            lambda: (self.observed.replicas("work") or 0) >= 2 and self.observed.replicas("work"), "replicas"
        )


def main(folder, servers):
    told = {}
    create_topics(servers, ["requests", "done-work", "done-dead_letters"], 2)
    spark = ft.session("local-cluster[2,10,1024]", "story", {"spark.sql.shuffle.partitions": "2"}, mode="real-time")
    source = ft.KafkaSource(servers, "requests", "row long, due long, line string", start="earliest")
    sink = ft.KafkaSink(servers, "done-{stream}")
    pipeline = ft.submit(spark, topology(source), sink, str(folder / "checkpoint"), mode="real-time")
    story = Story(spark, pipeline)
    curve = ft.Curve.constant(RATE, SECONDS)
    with Collector(servers, "done-work") as collector, Feed(servers, "requests", RequestLines(3), curve) as feed:
        collector.start()
        feed.start()
        story.attach()
        told["policies"] = [policy.name for policy in story.loop.control.policies]
        told["processors"] = story.processors()
        told["mode"] = story.loop.reader.read().setup.mode
        told["bypass"] = story.bypass()
        told["by_load"] = story.replicas()
        sent = feed.stop()
        wait_for(
            lambda: (collector.live() or sent) is not sent and collector.live().received >= sent.due.size, "the end"
        )
        time.sleep(2.0)
        account = Account.of(sent, collector.stop())
    told["account"] = [account.lost, account.doubled]
    told["restarts"] = pipeline.restarts
    pipeline.stop()
    spark.stop()
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
