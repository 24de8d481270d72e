"""The latency of a query without a topology, from each of the ways in which arrivals can be known."""

import json

import numpy as np
import pytest

from foretide.metrics.batch import BatchReport, EventTimes, SourceRange
from foretide.runtime.monitoring.query_latency import BOUND, QueryLatency
from foretide.spark.running_query import QuerySource
from foretide.spark.sources.spark_arrivals import FILES, KAFKA, RATE, FileTimes, RateTimes, arrivals_of


def report(batch, *sources, duration=1.0, finished=None, rows=100, **others):
    ended = 1000.0 + 2 * batch if finished is None else finished
    return BatchReport(batch, ended, duration, rows, None, None, sources=sources, **others)


def rate_log(folder, created):
    folder.mkdir(parents=True)
    (folder / "0").write_text(f"v1\n{created * 1000}")
    return str(folder)


def file_log(folder, batches, compacted=()):
    """A log of Spark's file source: the time of each file, by batch."""
    folder.mkdir(parents=True)
    entries = {
        batch: [json.dumps({"path": f"f{time}", "timestamp": time * 1000, "batchId": batch}) for time in times]
        for batch, times in batches.items()
    }
    for batch, lines in entries.items():
        earlier = [line for other in entries if other < batch for line in entries[other]] if batch in compacted else []
        name = f"{batch}.compact" if batch in compacted else str(batch)
        (folder / name).write_text("\n".join(["v1", *earlier, *lines]))
    return str(folder)


def latencies(measured, each):
    return measured.latency(each, measured.figures(each))


def test_rows_of_the_rate_source_arrive_evenly(tmp_path):
    port = RateTimes(rate_log(tmp_path / "log", 900))
    taken = SourceRange(200, start={"offset": 90}, end={"offset": 100}, rows=200)
    assert port.origin(taken) == 900.0
    assert port.arrival_times(taken, np.array([0, 199])) == pytest.approx([90.025, 99.975])
    measured = QueryLatency("source", [(port, RATE)], None, 0.0)
    found = latencies(measured, report(1, SourceRange(200, start={"offset": 90}, end={"offset": 100}), rows=200))
    assert found["latency_p99_ms"] == pytest.approx(1002 - 990 - 0.1, abs=0.1)  # in seconds
    assert found["latency_mean_ms"] == pytest.approx(1002 - 995, abs=0.1)
    assert (measured.basis, measured.problem) == (RATE, None)


def test_rows_of_a_file_arrived_when_it_was_written(tmp_path):
    log = file_log(tmp_path / "log", {0: [900], 1: [990, 995], 2: [998]}, compacted={1})
    port = FileTimes(log)
    taken = SourceRange(100, start={"logOffset": 0}, end={"logOffset": 2}, rows=100)
    assert port.arrival_times(taken, np.array([0, 50, 99])).tolist() == [990.0, 995.0, 998.0]
    measured = QueryLatency("source", [(FileTimes(log), FILES)], None, 0.0)
    found = latencies(measured, report(1, SourceRange(100, start={"logOffset": 0}, end={"logOffset": 2})))
    assert found["latency_p99_ms"] == 12.0
    assert measured.figures(report(2, SourceRange(0, start={}, end={}), rows=0)) == {}


def test_event_times_go_first_if_they_are_asked_for_and_else_stand_in_for_sources(tmp_path):
    times = EventTimes(100, 996.0, {0.0: 990.0, 0.5: 996.0})
    port = RateTimes(rate_log(tmp_path / "log", 900))
    taken = SourceRange(100, start={"offset": 90}, end={"offset": 100})
    each = report(1, taken, watermark_times=times)
    asked = QueryLatency("source", [(port, RATE)], "ts", 0.0, asked=True)
    assert latencies(asked, each) == {
        "latency_mean_ms": 6.0,
        "latency_p50_ms": 6.0,
        "latency_p95_ms": 12.0,
        "latency_p99_ms": 12.0,
    }
    assert asked.basis == "event times in column 'ts'; p95 and p99 are those of the oldest row"
    known = QueryLatency("source", [(port, RATE)], "ts", 0.0)
    latencies(known, each)
    assert known.basis == RATE
    unknown = QueryLatency("source", [None], "ts", 0.0)
    assert latencies(unknown, each)["latency_p99_ms"] == 12.0


def test_without_anything_the_batches_bound_it():
    measured = QueryLatency("source", [None], None, 0.5)
    taken = SourceRange(100)
    assert latencies(measured, report(0, taken, finished=1000.0)) == {}
    found = latencies(measured, report(1, taken, finished=1002.0))  # batches began at 999 and 1001
    assert found["latency_p99_ms"] == 3.0
    assert found["latency_mean_ms"] == 2.0
    idle = latencies(measured, report(2, taken, finished=1100.0))  # began at 1099, long after: it waited for rows
    assert idle["latency_p99_ms"] == 1.5
    assert measured.problem == BOUND


def test_one_source_that_cannot_tell_is_enough_for_a_bound(tmp_path):
    port = RateTimes(rate_log(tmp_path / "log", 900))
    measured = QueryLatency("source", [(port, RATE), None], None, 0.0)
    latencies(measured, report(0, SourceRange(50), SourceRange(50)))
    assert measured.basis == "a bound by the batches"


def test_what_tells_arrivals_depends_on_the_kind_of_the_source():
    kafka = QuerySource("kafka", {"kafka.bootstrap.servers": "here:9092", "subscribe": "clicks"})
    assert arrivals_of(kafka, 0, None)[1] == KAFKA
    assert arrivals_of(QuerySource("kafka", {**kafka.options, "subscribe": "a,b"}), 0, "/ck") is None
    assert arrivals_of(QuerySource("FileSource[/in]"), 0, "/ck")[1] == FILES
    assert arrivals_of(QuerySource("rate"), 1, "/ck")[1] == RATE
    assert arrivals_of(QuerySource("socket"), 0, "/ck") is None
    assert arrivals_of(QuerySource("rate"), 0, None) is None
