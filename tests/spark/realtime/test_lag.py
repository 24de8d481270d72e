"""The lag of a topic in the middle of a real-time batch, from counters and offsets, without Spark or a broker."""

from __future__ import annotations

import json
from types import SimpleNamespace

import foretide as ft
from foretide.metrics.batch import Lag
from foretide.spark.realtime.lag import BatchEnds, TopicLag, TopicReader, committed_offsets, topic_readers

SPOUT = TopicReader("in", "in.partitions", 2, "words", "host:1", {})


class Topic:
    """A broker and Spark's offsets, as a test says they are."""

    def __init__(self, reader=SPOUT):
        self.ends, self.began, self.ended, self.asked, self.took, self.now = {0: 0, 1: 0}, {}, None, [], 0.0, 0.0
        self.lag = TopicLag(reader, self.find_ends, lambda: self.began, self.next_end, clock=lambda: self.now)

    def find_ends(self, partitions, seconds):
        self.asked.append((list(partitions), seconds))
        self.now += self.took
        return self.ends

    def next_end(self):
        ended, self.ended = self.ended, None
        return ended

    def report(self, *read, unknown=0):
        """A second, in which so many records of each partition were read."""
        self.now += 1
        self.lag.look()
        self.lag.count({**dict(enumerate(read)), None: unknown})
        return self.lag.lag()


def test_the_lag_is_the_end_of_each_partition_less_what_was_read_since_the_beginning():
    topic = Topic()
    topic.ends = {0: 110, 1: 230}
    assert topic.report(5, 0) == Lag(None)  # nobody knows where the query began
    topic.began = {0: 100, 1: 200}
    assert topic.report(1, 10) == Lag(24, {"0": 4, "1": 20})
    topic.ends = {0: 110, 1: 205}
    assert topic.report(4, 0) == Lag(0, {"0": 0, "1": 0})  # never less than nothing
    topic.ends = None
    assert topic.report(0, 0) == Lag(None)


def test_the_end_of_a_batch_corrects_what_was_counted_wrong():
    topic = Topic()
    topic.began, topic.ends = {0: 0, 1: 0}, {0: 1000, 1: 1000}
    topic.report(100, 100)
    topic.report(0, 10)
    topic.ended = {0: 150, 1: 105}  # partition 0 has 50 offsets without a record
    assert topic.report(0, 10) == Lag(850 + 880, {"0": 850, "1": 880})  # 105 is within what the last reports counted
    topic.report(0, 0)
    topic.report(0, 0)
    topic.ended = {0: 150, 1: 115}  # five records were counted twice
    assert topic.report(0, 0) == Lag(850 + 885, {"0": 850, "1": 885})


def test_without_a_known_beginning_the_first_batch_that_ends_tells_it():
    topic = Topic()
    topic.ends = {0: 50, 1: 50}
    topic.report(7, 7)
    topic.ended = {0: 7, 1: 7}
    assert topic.report(0, 3) == Lag(43 + 43, {"0": 43, "1": 43})


def test_records_of_no_known_partition_leave_the_sum():
    topic = Topic()
    topic.began, topic.ends = {0: 0, 1: 0}, {0: 10, 1: 10}
    assert topic.report(2, 2, unknown=1) == Lag(15)


def test_asking_the_broker_takes_a_twentieth_of_the_time_at_most():
    topic = Topic()
    topic.began, topic.took = {0: 0, 1: 0}, 0.2
    lags = [topic.report(0, 0).records for _ in range(10)]
    assert len(topic.asked) == 3
    assert {seconds for _, seconds in topic.asked} == {0.2}
    assert lags.count(None) == 7


def test_what_a_loop_writes_is_known_while_the_broker_answers():
    topic = Topic(TopicReader("a -> a", "a -> a", 2, "back-a", "host:1", {}, feedback=True))
    topic.began, written = {0: 0, 1: 0}, []
    for ends in ({0: 5, 1: 5}, {0: 9, 1: 6}, None, {0: 20, 1: 20}, {0: 21, 1: 20}):
        topic.ends = ends
        topic.report(1, 0)
        written.append(topic.lag.written)
    assert written == [None, 5, None, None, 1]
    assert topic.lag.lag() == Lag(36)  # tasks say nothing about partitions


def test_the_ends_of_batches_come_from_spark_once_each():
    sources = [SimpleNamespace(endOffset=json.dumps({"words": {"0": 4, "1": 9}}))]
    query = SimpleNamespace(lastProgress=None)
    ends = BatchEnds(query, "words")
    assert ends.next() is None
    query.lastProgress = SimpleNamespace(batchId=0, durationMs={"addBatch": 1}, sources=sources)
    assert ends.next() == {0: 4, 1: 9}
    assert ends.next() is None


class Folder:
    """A checkpoint in memory."""

    def __init__(self, files):
        self.files = files

    def names(self, folder):
        return sorted({name.split("/")[1] for name in self.files if name.startswith(f"{folder}/")})

    def numbers(self, folder):
        return sorted(map(int, self.names(folder)))

    def read(self, name):
        return self.files.get(name, "")


def test_a_query_goes_on_behind_its_last_commit_or_where_its_source_begins():
    assert committed_offsets(Folder({}), "words") == {}
    first = {"sources/0/0": 'v1\n{"other":{"0":3}}', "sources/1/0": 'v1\n{"words":{"0":3,"1":4}}'}
    assert committed_offsets(Folder(first), "words") == {0: 3, 1: 4}
    batches = {f"offsets/{n}": f'v1\n{{"conf":{{}}}}\n{{"words":{{"0":{n}0}}}}' for n in (0, 1, 2)}
    assert committed_offsets(Folder({**first, **batches, "commits/0": "", "commits/1": ""}), "words") == {0: 10}


def test_the_topics_of_spouts_and_loops_are_measured_where_they_have_counters():
    spout = ft.Spout("in", ft.KafkaSource("host:1", "words", "id long"))
    bolt = ft.Bolt("a", lambda df: df, [ft.From("in"), ft.From("a", stream="again", feedback=True)],
                   streams=("again", "done"))  # fmt: skip
    topology = ft.Topology("t", [spout], [bolt])
    widths = {"in": 2, "in.partitions": 2, "a.again -> a": 3}
    found = topic_readers(topology, ft.KafkaSink("host:2", "back-{stream}"), widths)
    assert [(each.name, each.width, each.topic, each.servers, each.feedback) for each in found] == [
        ("in", 2, "words", "host:1", False),
        ("a.again -> a", 3, "back-a.again", "host:2", True),
    ]
    assert topic_readers(topology, ft.KafkaSink("host:2", "back-{stream}"), {"in": 2}) == []
