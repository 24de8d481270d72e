"""Routes pushed to real executors in the middle of a real-time batch, by a control topic and by jobs. Prints JSON."""

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import functions as F

import foretide as ft
from foretide.spark.executors import Executors
from foretide.spark.jars import KAFKA_CONNECTOR, add_library
from foretide.spark.kafka_broker import Broker, create_topics
from foretide.spark.realtime.agent import open_agent
from foretide.spark.realtime.jvm import Jvm
from foretide.spark.realtime.push_job import JobAgent
from foretide.spark.realtime.routes import live_task, route_property, route_text

KEY, EDGE, COUNTS, SLOTS, POOL = "story", "in->work", "foretide.test.counts", 64, 2
SPLITS, TUPLES = 20, 50
SETTINGS = {"spark.ui.enabled": "false", "spark.executor.memory": "700m"}


class Running:
    """A real-time query with one live-routed edge, Kafka to Kafka, and the two ends of it."""

    def __init__(self, folder, address, master="local-cluster[2,9,700]"):
        from confluent_kafka import Consumer, Producer

        create_topics(address, ["in", "out"], 2)
        self.spark = ft.session(master, "agent-story", SETTINGS, mode="real-time")
        self.slots = [row.slot for row in self.spark.range(20_000).select(slot("id").alias("slot")).collect()]
        self.query = self._start(folder, address)
        self.agent = open_agent(self.spark, KEY, address, {}, f"{folder}/agent")
        self.agent.start()
        self.producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
        self.consumer = Consumer({"bootstrap.servers": address, "group.id": "story", "auto.offset.reset": "earliest"})
        self.consumer.subscribe(["out"])
        self.sent, self.received = 0, []

    def _start(self, folder, address):
        add_library(self.spark, KAFKA_CONNECTOR)
        read = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
        rows = read.option("subscribe", "in").option("startingOffsets", "earliest").load()
        rows = rows.select(F.col("value").cast("string").cast("long").alias("id"))
        task = live_task(self.spark, KEY, EDGE, slot("id"), None, POOL)
        rows = rows.withColumn("_ft_task", task).repartitionById(POOL, "_ft_task")
        rows = rows.where("spark_partition_id() >= 0 or xxhash64(id) = 0")
        count = Jvm(self.spark).counter_add(COUNTS, F.spark_partition_id(), F.lit(1).cast("long"))
        value = F.concat_ws(",", "id", F.spark_partition_id(), F.coalesce(count, F.lit(0)))
        writer = rows.select(value.alias("value")).writeStream.format("kafka").option("topic", "out")
        writer = writer.option("kafka.bootstrap.servers", address).option("checkpointLocation", f"{folder}/checkpoint")
        return writer.outputMode("update").trigger(realTime="300 seconds").start()

    def tasks(self, count):
        """Send tuples, wait for them, and return where each went."""
        first, self.sent = self.sent, self.sent + count
        for each in range(first, self.sent):
            self.producer.produce("in", str(each).encode())
        self.producer.flush(60)
        end, found = time.monotonic() + 60, {}
        while len(found) < count and time.monotonic() < end:
            message = self.consumer.poll(0.1)
            if message is not None and not message.error():
                each, task, _ = map(int, message.value().split(b","))
                self.received.append(each)
                found[each] = task
        return found

    def follow(self, agent, ring):
        """Push a route; whether both executors have acknowledged it, and how many tuples went elsewhere afterwards."""
        done = agent.set_properties({route_property(KEY, EDGE): route_text(ring)}, 30)
        wrong = [each for each, task in self.tasks(TUPLES).items() if task != ring[self.slots[each]]]
        return done, len(wrong)

    def counted(self, agent):
        """The tuples that each task has counted, over all executors."""
        texts = [read[COUNTS] for read in agent.read_counters([COUNTS, "none"], 30).values()]
        return [sum(column) for column in zip(*map(json.loads, texts), strict=True)], len(texts)


def slot(column):
    return F.pmod(F.xxhash64(column), F.lit(SLOTS)).cast("int")


def ring(number):
    """A different split for each number: from all to the first task to all to the second."""
    return [int(place * SPLITS >= (SPLITS - number % (SPLITS + 1)) * SLOTS) for place in range(SLOTS)]


def quarantined(story, jobs):
    """A route by a job while an executor with running tasks is given no new ones."""
    executors = Executors(story.spark.sparkContext)
    executors.take_out("1")
    done, wrong = jobs.set_properties({route_property(KEY, EDGE): route_text(ring(5))}, 30), jobs.problem
    executors.let_in("1")
    executors.close()
    return [sorted(done.executors), sorted(done.missing), wrong]


@contextmanager
def running(folder):
    with Broker(Path(folder) / "kafka") as broker:
        story = Running(folder, broker.address)
        yield story
        story.agent.close()
        story.query.stop()
        story.consumer.close()


def main(folder):
    with running(folder) as story:
        agent, report = story.agent, {}
        report["problem"] = agent.problem
        report["before"] = sum(task != story.slots[each] % POOL for each, task in story.tasks(TUPLES).items())
        report["created"] = sorted(agent.create_counters({COUNTS: POOL}, 30).executors)
        counted_from = story.sent
        pushes = [story.follow(agent, ring(number)) for number in range(SPLITS)]
        report["by_topic"] = [
            sum(done.by_all and len(done.executors) == 2 for done, _ in pushes),
            sum(w for _, w in pushes),
        ]
        report["split"] = [sum(ring(number)) for number in range(SPLITS)]
        report["counted"] = story.counted(agent)
        report["expected"] = story.sent - counted_from
        jobs = JobAgent(story.spark)
        pushes = [story.follow(jobs, ring(number)) for number in (3, 17)]
        report["by_job"] = [
            sum(done.by_all and len(done.executors) == 2 for done, _ in pushes),
            sum(w for _, w in pushes),
        ]
        report["counted_by_job"] = story.counted(jobs)
        report["quarantined"] = quarantined(story, jobs)
        next(each for each in story.spark.streams.active if each.name == f"foretide-agent-{KEY}").stop()
        done, wrong = story.follow(agent, ring(9))  # nobody reads the topic any more
        report["ended"] = [done.by_all, wrong]
        while agent.problem is not None:
            time.sleep(0.5)
            agent.read_counters([COUNTS])
        done, wrong = story.follow(agent, ring(11))
        report["again"] = [done.by_all, wrong]
        report["batches"] = len(story.query.recentProgress)
        report["lost"] = story.sent - len(set(story.received))
        report["doubled"] = len(story.received) - len(set(story.received))
    story.spark.stop()
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1])
