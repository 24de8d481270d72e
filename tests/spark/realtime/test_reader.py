"""Reports of a real-time query: by hand from counters, and of a real query from Kafka to Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import foretide as ft
from foretide.errors import MonitoringError
from foretide.metrics.audit import audit
from foretide.metrics.batch import BatchReport, Lag, Returned
from foretide.metrics.from_batch import BatchContext, stream_samples
from foretide.metrics.task_meters import STRIDE, Place, property_of
from foretide.spark.realtime.lag import TopicReader
from foretide.spark.realtime.operators import MeteredOperator, metered_operators
from foretide.spark.realtime.reader import RealTimeReader
from foretide.topology.shape import first_edges
from helpers import environment

STORY = Path(__file__).with_name("meters_story.py")


class Query:
    """A query that runs until it is told to end."""

    isActive, status, lastProgress = True, {"isTriggerActive": True}, None  # noqa: N815 - Spark's names

    @staticmethod
    def exception():
        return None


class Executors:
    """Counters of the operators `in` and `parse` of two tasks each, on some executors."""

    def __init__(self, *names):
        self.rows = {name: {"in": [0] * 3 * STRIDE, "parse": [0] * 3 * STRIDE} for name in names}
        self.down = False

    def did(self, executor, operator, task, tuples, emitted, busy_ms=0):
        row, at = self.rows[executor][operator], task * STRIDE
        row[at + Place.TUPLES] += tuples
        row[at + Place.TIMED] += emitted
        row[at + Place.BUSY] += int(busy_ms * 1e6)
        row[at + Place.HISTOGRAM + 20] += emitted
        row[at + Place.LATENCY] += emitted * 20_000

    def took(self, executor, operator, task, tuples, gap_seconds):
        """Tuples taken at even distances; the counters keep the square of each gap in units of 1,000 ns^2."""
        row, at = self.rows[executor][operator], task * STRIDE
        row[at + Place.TUPLES] += tuples
        row[at + Place.ENTERED] += int(tuples * gap_seconds * 1e9)
        row[at + Place.GAP_SQUARES] += int(tuples * (gap_seconds * 1e9) ** 2 / 1000)

    def read(self, keys):
        if self.down:
            raise MonitoringError("nobody answers")
        assert list(keys) == [property_of("k", name, 2) for name in next(iter(self.rows.values()))]
        return {
            executor: {property_of("k", name, 2): str(row) for name, row in rows.items()}
            for executor, rows in self.rows.items()
        }


@pytest.fixture
def topology():
    parse = ft.Bolt("parse", lambda df: df, [ft.From("in")], pool=2)
    return ft.Topology("t", [ft.Spout("in", ft.KafkaSource("host:1", "in", "id long"))], [parse])


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def reader_of(topology, executors, query=None, **options):
    clock = Clock()
    operators = metered_operators(topology, {"in": 2, "parse": 2})
    options = {"route_version": lambda: 4, "clock": clock, **options}
    return RealTimeReader(query or Query(), operators, "k", executors.read, **options), clock


def test_a_report_of_every_period_has_what_happened_since_the_last(topology):
    executors = Executors("1", "2")
    reader, clock = reader_of(topology, executors, first_batch=7)
    assert reader.reports() == []
    executors.did("1", "in", 0, 10, 10)
    executors.did("1", "parse", 0, 4, 4, busy_ms=8)
    executors.did("2", "parse", 1, 3, 1, busy_ms=1)
    clock.now += 1
    (report,) = reader.reports()
    assert (report.batch, report.finished, report.duration, report.route_version) == (7, 1001.0, 1.0, 4)
    assert report.input_rows == 10
    flow = report.edges["parse"]
    assert (flow.written, flow.read, flow.per_task, flow.busy_ms) == (10, 7, (4, 3), (8, 3))
    assert report.in_flight == {"parse": 3}
    assert audit(report, first_edges(topology)) == []
    runs = {(run.operator, run.task): run for run in report.tasks}
    assert [runs["parse", 1].worker, runs["parse", 1].feeds, runs["in", 0].feeds] == ["2", None, "parse"]
    assert runs["parse", 0].run_ms == pytest.approx(8)
    assert report.python["parse"].timed == 5
    assert report.event_times["in"].mean == pytest.approx(1001.0 - 0.02)
    assert reader.reports() == []
    executors.did("2", "parse", 0, 3, 3, busy_ms=1)  # the task has moved
    clock.now += 1
    (report,) = reader.reports()
    assert (report.batch, report.input_rows, report.in_flight) == (8, 0, {"parse": 0})
    assert {(run.operator, run.task, run.worker, run.rows_in) for run in report.tasks} == {
        ("in", 0, "1", 0),
        ("parse", 0, "2", 3),
        ("parse", 1, "2", 0),
    }


def test_tuples_count_as_uncommitted_until_a_batch_of_spark_ends(topology, monkeypatch):
    executors = Executors("1")
    reader, clock = reader_of(topology, executors)
    for _ in range(2):
        executors.did("1", "in", 0, 10, 10)
        clock.now += 1
        reader.reports()
    assert (reader.uncommitted, reader.committed_at) == (20, 1000.0)
    monkeypatch.setattr(reader, "_new_progress", lambda: BatchReport(0, 0.0, 60.0, 20, None, None))
    clock.now += 1
    reader.reports()
    assert (reader.uncommitted, reader.committed_at) == (0, 1003.0)


def test_what_comes_in_after_a_batch_of_spark_has_ended_tells_nothing_about_arrivals(topology, monkeypatch):
    executors = Executors("1")
    executors.took("1", "in", 0, 1, 1.0)
    reader, clock = reader_of(topology, executors)
    reader.prepare()
    clock.now += 2
    reader.reports()
    monkeypatch.setattr(reader, "_new_progress", lambda: BatchReport(0, 0.0, 60.0, 20, None, None))
    executors.took("1", "in", 0, 100, 0.001)
    clock.now += 1
    assert reader.reports()[0].arrival_scv == {}
    monkeypatch.setattr(reader, "_new_progress", lambda: None)
    executors.took("1", "in", 0, 50, 0.001)
    clock.now += 1
    assert reader.reports()[0].arrival_scv == {}
    executors.took("1", "in", 0, 50, 0.02)
    clock.now += 1
    assert reader.reports()[0].arrival_scv == {"in": pytest.approx(0.0, abs=1e-6)}


def test_what_could_not_be_read_is_in_the_next_report(topology):
    executors = Executors("1")
    reader, clock = reader_of(topology, executors)
    executors.did("1", "in", 0, 10, 10)
    executors.down = True
    clock.now += 1
    assert reader.reports() == []
    assert reader.unavailable == "nobody answers"
    executors.down, kept = False, executors.rows["1"]["parse"]
    executors.rows["1"]["parse"] = [1, 2]
    assert reader.reports() == []
    assert "counters cannot be read" in reader.unavailable
    executors.rows["1"]["parse"] = kept
    clock.now += 1
    (report,) = reader.reports()
    assert (report.batch, report.duration, report.input_rows, reader.unavailable) == (0, 2.0, 10, None)


def test_counters_of_an_earlier_run_are_not_counted_again(topology):
    executors = Executors("1")
    executors.did("1", "in", 0, 10, 10)
    keys = [property_of("k", name, 2) for name in ("in", "parse")]
    reader, clock = reader_of(topology, executors, baseline=executors.read(keys))
    reader.prepare()
    executors.did("1", "in", 0, 2, 2)
    clock.now += 1
    assert reader.reports()[0].input_rows == 2


def test_what_a_query_did_before_it_ended_is_reported_once(topology):
    executors, query = Executors("1"), Query()
    reader, clock = reader_of(topology, executors, query)
    executors.did("1", "in", 0, 5, 5)
    clock.now += 0.1
    assert not reader.waiting
    query.isActive = False
    assert reader.waiting
    assert [report.input_rows for report in reader.reports()] == [5]
    assert not reader.waiting
    assert reader.reports() == []
    assert not reader.state().active


def test_a_reading_that_shows_an_exit_too_late_makes_no_negative_number_of_tuples(topology):
    executors = Executors("1")
    reader, clock = reader_of(topology, executors)
    executors.did("1", "parse", 0, 3, 3)
    clock.now += 1
    assert reader.reports()[0].in_flight == {"parse": 0}
    executors.did("1", "in", 0, 5, 5)
    clock.now += 1
    assert reader.reports()[0].in_flight == {"parse": 2}


def test_latency_at_the_sink_has_tuples_that_reach_it_from_another_branch(topology):
    executors = Executors("1")
    executors.rows["1"]["parse.sink"] = [0] * 3 * STRIDE
    reader, clock = reader_of(topology, executors, sinks={"parse.sink": 2})
    executors.did("1", "parse", 0, 1, 1)  # 20 ms
    executors.did("1", "parse.sink", 0, 3, 3)
    executors.rows["1"]["parse.sink"][Place.LATENCY] += 3 * 40_000
    clock.now += 1
    (report,) = reader.reports()
    assert report.event_times["in"].mean == pytest.approx(clock.now - (0.02 + 3 * 0.06) / 4)
    assert {run.operator for run in report.tasks} == {"parse"}


class TopicOfTest:
    """A topic whose lag is always as large as what was counted."""

    def __init__(self, name, *, feedback=False):
        self.reader = TopicReader(name, "parse", 2, name, "host:1", {}, feedback=feedback)
        self.calls, self.counted, self.written = [], 0, 7

    def connect(self):
        self.calls.append("connect")

    def look(self):
        self.calls.append("look")

    def close(self):
        self.calls.append("close")

    def count(self, read):
        self.counted += sum(read.values())

    def lag(self):
        return Lag(self.counted, {"0": self.counted})


def test_a_report_has_the_lag_of_each_spout_and_what_came_back_and_no_sources_of_spark(topology):
    offsets = {"startOffset": '{"in": {"0": 0}}', "endOffset": '{"in": {"0": 60}}', "latestOffset": '{"in": {"0": 60}}'}
    source = SimpleNamespace(**offsets, numInputRows=60, description="KafkaV2[Subscribe[in]]")
    query = Query()
    query.lastProgress = SimpleNamespace(
        batchId=0, durationMs={"addBatch": 1}, timestamp="2026-01-01T00:00:00Z", numInputRows=60, sources=[source],
        observedMetrics={}, stateOperators=[], eventTime={},
    )  # fmt: skip
    for topic in (TopicOfTest("in"), TopicOfTest("parse -> parse", feedback=True)):
        executors = Executors("1")
        reader, clock = reader_of(topology, executors, query, topics=[topic])
        reader.prepare()
        executors.did("1", "in", 0, 10, 10)
        executors.did("1", "parse", 1, 4, 4)
        clock.now += 1
        (report,) = reader.reports()
        assert (report.input_rows, report.sources) == (10, ())
        assert audit(report, first_edges(topology)) == []
        if topic.reader.feedback:
            assert (report.lag, report.returned) == ({}, {"parse -> parse": Returned(4, 7, 4)})
        else:
            assert (report.lag, report.returned) == ({"in": Lag(4, {"0": 4})}, {})
            samples = {(s.metric, s.subject): s.value for s in stream_samples(report, BatchContext(1.0, "t"))}
            assert samples["lag", "in"] == samples["partition_lag", "in/0"] == samples["total_lag", "t"] == 4
        reader.close()
        assert topic.calls == ["connect", "look", "close"]


def test_operators_are_connected_as_in_the_topology():
    bolts = [
        ft.Bolt("parse", lambda df: df, [ft.From("in")], pool=3),
        ft.Bolt("count", lambda df: df, [ft.From("parse", ft.Fields("id"))]),
    ]
    topology = ft.Topology("t", [ft.Spout("in", ft.KafkaSource("host:1", "in", "id long"))], bolts)
    assert metered_operators(topology, {"in": 2, "parse": 3, "count": 4}, crossing={"count"}) == (
        MeteredOperator("in", 2, feeds="parse", spout=True, sends_all=True),
        MeteredOperator("parse", 3, edge="parse", feeds="count", sends_all=True),
        MeteredOperator("count", 4, sink=True, crossing=True),
    )


def test_operators_that_hand_tuples_to_python_take_them_ahead():
    python = ft.PerTuple(lambda row: iter([row]), "id long")
    bolts = [
        ft.Bolt("parse", lambda df: df, [ft.From("in")], pool=3),
        ft.Bolt("near", python, [ft.From("parse", ft.LocalOrShuffle())]),
        ft.Bolt("out", lambda df: df, [ft.From("near")], pool=3),
    ]
    topology = ft.Topology("t", [ft.Spout("in", ft.KafkaSource("host:1", "in", "id long"))], bolts)
    found = metered_operators(topology, {"in": 2, "parse": 3, "near": 3, "out": 3}, chained={"near"})
    assert {each.name: each.takes_ahead for each in found} == {"in": False, "parse": True, "near": True, "out": False}


@pytest.mark.spark
@pytest.mark.apart
def test_the_reports_of_a_real_time_query_say_what_happened(tmp_path):
    command = [sys.executable, str(STORY), str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    story = json.loads(done.stdout.splitlines()[-1])
    assert story["error"] is None
    assert story["input"] == 5_000, story
    assert story["edges"] == {"quick": [5_000, 5_000], "slow": [5_000, 5_000]}
    assert story["rows"] == {"in": 5_000, "quick": 5_000, "slow": 5_000}
    assert story["in_flight"] == {"quick": 0, "slow": 0}
    assert story["failures"] == []
    assert story["idle"] == 0
    assert story["batches"] == list(range(len(story["batches"])))
    assert story["timed"] == {"in": 5_000, "quick": 5_000, "slow": 5_000}
    assert story["best"]["slow"] > 3 * story["best"]["quick"]
    assert story["scv"] >= 0
    assert {"latency_mean_ms", "latency_p50_ms", "latency_p99_ms", "service_scv", "in_flight"} <= set(story["metrics"])
    assert "in" in story["arrival_scv"]
    assert story["workers"] == ["driver"]
