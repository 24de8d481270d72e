"""A batch as samples: every metric of the stream by hand, and what holds whatever a batch was like."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.metrics.batch import BatchReport, BoltTimes, EdgeFlow, SourceRange, StateSize, TaskRun
from foretide.metrics.catalogue import CATALOGUE, EDGE, OPERATOR, QUERY, TASK
from foretide.metrics.from_batch import (
    BatchContext,
    SpoutFigures,
    service_scv,
    slowness,
    stream_samples,
    worker_samples,
)
from foretide.metrics.metric import Level

STREAM = {metric.name for metric in (*QUERY, *OPERATOR, *EDGE, *TASK)} - {"join_imbalance"}  # of joins: test_live_joins
SINCE_1970 = 1_700_000_000.0


def run(operator, task, **figures):
    plain = {
        **dict.fromkeys(["waited_ms", "run_ms", "cpu_ms", "deserialize_ms", "gc_ms", "fetch_wait_ms", "write_ms"], 0.0),
        **dict.fromkeys(["rows_in", "rows_out", "bytes_read", "bytes_written", "spilled_bytes"], 0),
        "edge": operator,
        "feeds": None,
        "passing": False,
        "worker": "driver",
        "host": "here",
    }
    return TaskRun(operator, task, **{**plain, **figures})


# lines -> parse (shared: count and store read it) -> count; 2 s between commits
LINES = [
    run("lines", 0, edge=None, feeds="parse", run_ms=100.0, write_ms=20.0, waited_ms=6.0, rows_in=300, rows_out=300),
    run("lines", 1, edge=None, feeds="parse", run_ms=200.0, write_ms=40.0, waited_ms=8.0, rows_in=300, rows_out=300),
]
PARSE = [
    run("parse", 0, feeds="parse.out", run_ms=400.0, fetch_wait_ms=10.0, write_ms=90.0, rows_in=400, rows_out=200),
    run("parse", 1, feeds="parse.out", run_ms=800.0, fetch_wait_ms=20.0, write_ms=80.0, rows_in=200, rows_out=100),
    run("parse", 2, feeds="parse.out", run_ms=50.0, waited_ms=30.0, write_ms=10.0),
]
PASSING = [
    run(
        "parse",
        0,
        edge="parse.out",
        feeds="count",
        passing=True,
        run_ms=900.0,
        write_ms=30.0,
        rows_in=300,
        rows_out=240,
    ),
    run(
        "parse", 0, edge="parse.out", feeds="store", passing=True, run_ms=60.0, write_ms=30.0, rows_in=300, rows_out=60
    ),
]
COUNT = [run("count", 0, run_ms=20.0, rows_in=240, rows_out=12)]
OTHERS = [
    run(None, None, edge=None, run_ms=1000.0, rows_in=60),
    run(None, None, edge=None, run_ms=5000.0, rows_in=999, failed=True),
    run("count", 0, run_ms=7000.0, rows_in=999, failed=True),
]
REPORT = BatchReport(
    batch=7,
    finished=SINCE_1970,
    duration=1.5,
    input_rows=600,
    route_version=3,
    edges={
        "parse": EdgeFlow(600, 600, per_task=(400, 200, 0)),
        "count": EdgeFlow(240, 240, per_task=(240,)),
        "parse.out": EdgeFlow(300, 600, readers=2),
    },
    sources=(SourceRange(600, spout="lines", rows=600, backlog=50, partition_lag={"0": 20, "1": 30}),),
    tasks=(*LINES, *PARSE, *PASSING, *COUNT, *OTHERS),
    phases={
        "triggerExecution": 1500,
        "addBatch": 1200,
        "queryPlanning": 40,
        "latestOffset": 5,
        "walCommit": 30,
        "commitOffsets": 25,
    },
    python={"parse": BoltTimes(600, 4, 0.008, 0.000_024, dead=2)},
    in_flight={"parse": 7},
    state=StateSize(10, 4096, 1),
    watermark=SINCE_1970 - 12.5,
)
AROUND = BatchContext(
    2.0,
    "app",
    {"lines": SpoutFigures(310.0, 0.9, 0.8, 600, {"0": (0.6, 1.1)})},
    {"latency_mean_ms": 0.8, "latency_p50_ms": 0.7, "latency_p95_ms": 1.2, "latency_p99_ms": 1.4},
    {"parse": "lines"},
)


def figures(report=REPORT, around=AROUND):
    samples = stream_samples(report, around)
    found = {(sample.metric, sample.subject): sample.value for sample in samples}
    assert len(found) == len(samples), "a figure was told twice"
    assert all(sample.at == report.finished for sample in samples)
    return found


BY_HAND = {
    ("batch", "app"): 7,
    ("input_rows", "app"): 600,
    ("input_rows_per_second", "app"): 300,  # 600 / 2 s between commits
    ("processed_rows_per_second", "app"): 400,  # 600 / 1.5 s of the batch
    ("sustainable_rows_per_second", "app"): 600,  # 300 a second kept the busiest task busy for 1000 of 2000 ms
    ("batch_duration_ms", "app"): 1500,
    ("add_batch_ms", "app"): 1200,
    ("query_planning_ms", "app"): 40,
    ("latest_offset_ms", "app"): 5,
    ("commit_ms", "app"): 55,  # 30 + 25
    ("latency_mean_ms", "app"): 800,
    ("latency_p50_ms", "app"): 700,
    ("latency_p95_ms", "app"): 1200,
    ("latency_p99_ms", "app"): 1400,
    ("total_lag", "app"): 50,  # 650 due, 600 taken
    ("route_version", "app"): 3,
    ("retried_tasks", "app"): 2,
    ("missed_batches", "app"): 0,
    ("state_rows", "app"): 10,
    ("state_bytes", "app"): 4096,
    ("late_rows", "app"): 1,
    ("watermark_delay_ms", "app"): 12_500,
    ("retried", "count"): 999,  # of the attempt that failed
    ("retried", "parse"): 0,
    # a spout
    ("arrival_rate", "lines"): 310,  # by its own clock, not what was taken
    ("arrival_scv", "lines"): 0.9,
    ("complete_latency_ms", "lines"): 800,
    ("lag", "lines"): 50,
    ("service_time_ms", "lines"): 0.4,  # ((100 - 20) + (200 - 40)) / 600
    ("execute_latency_ms", "lines"): 0.5,  # (100 + 200) / 600
    ("processed", "lines"): 600,
    ("inbound_waiting_ms", "lines"): 7,  # (6 + 8) / 2
    ("outbound_sending_ms", "lines"): 30,  # (20 + 40) / 2
    ("utilization", "lines"): 0.075,  # (100 + 200) / (2000 * 2)
    ("capacity", "lines"): 0.1,  # 200 / 2000
    # a bolt with three replicas, one of them idle
    ("arrival_rate", "parse"): 300,  # 600 / 2
    ("arrival_scv", "parse"): 0.9,  # it gets all of the spout's tuples and no others
    ("service_time_ms", "parse"): 2,  # as it timed itself: 8 ms / 4
    ("service_scv", "parse"): 2 / 3,  # variance (24 - 4 * 2 * 2) / 3 = 8/3 ms2, over 2 * 2 ms2
    ("processed", "parse"): 600,
    ("emitted", "parse"): 300,
    ("acked", "parse"): 600,
    ("failed", "parse"): 2,
    ("execute_latency_ms", "parse"): 2,  # (400 + 800) / 600
    ("active_tasks", "parse"): 2,
    ("utilization", "parse"): 0.3,  # (400 + 800) / (2000 * 2): the idle one does not count
    ("capacity", "parse"): 0.4,  # 800 / 2000
    ("busy_time_ms_per_second", "parse"): 300,  # (400 + 800) / (2 * 2)
    ("true_processing_rate", "parse"): 1000,  # 2 replicas * 600 tuples / 1.2 s
    ("selectivity", "parse"): 0.5,  # 300 / 600
    ("inbound_waiting_ms", "parse"): 20,  # (10 + 20 + 30) / 3
    ("outbound_sending_ms", "parse"): 80,  # (90 + 80 + 10, and 30 + 30 of the passing tasks) / 3
    # a native bolt at the end
    ("service_time_ms", "count"): 20 / 240,
    ("emitted", "count"): 12,
    ("processed", "count"): 240,
    # edges
    ("rows_written", "parse"): 600,
    ("rows_read", "parse"): 600,
    ("rows_read", "parse.out"): 600,
    ("rows_written", "parse.out"): 300,
    ("in_flight", "parse"): 7,
    ("skew", "parse"): 4 / 3,  # 400 over (400 + 200) / 2
    ("skew", "count"): 1,
    ("flow_fraction", "lines->parse"): 1,  # 600 / 600
    ("flow_fraction", "parse->count"): 0.4,  # 240 / 600
    ("flow_fraction", "parse->store"): 0.1,  # 60 / 600
    # tasks
    ("task_rows", "parse/0"): 400,
    ("task_rows", "parse/2"): 0,
    ("task_busy_ms", "parse/1"): 800,
    ("task_busy_ms", "count/0"): 20,  # not of the attempt that failed
    ("task_service_time_ms", "parse/0"): 0.75,  # (400 - 10 - 90) / 400
    ("task_service_time_ms", "parse/1"): 3.5,  # (800 - 20 - 80) / 200
    # partitions of a topic
    ("partition_lag", "lines/1"): 30,
    ("partition_latency_mean_ms", "lines/0"): 600,
    ("partition_latency_p99_ms", "lines/0"): 1100,
}


@pytest.mark.parametrize(
    ("key", "value"), BY_HAND.items(), ids=lambda part: " of ".join(part) if type(part) is tuple else ""
)
def test_a_figure_is_what_a_hand_works_out(key, value):
    assert figures()[key] == pytest.approx(value)


def test_every_metric_of_the_stream_was_worked_out_by_hand():
    assert {metric for metric, _ in BY_HAND} == STREAM


def test_a_native_bolt_has_no_variation_of_its_service_and_a_bolt_in_between_none_of_its_arrivals():
    assert ("service_scv", "count") not in figures()
    assert ("failed", "count") not in figures()
    assert ("arrival_scv", "count") not in figures()


def test_an_edge_whose_tasks_are_not_known_has_no_skew():
    assert ("skew", "parse.out") not in figures()
    nothing = replace(REPORT, edges={"parse": EdgeFlow(0, 0, per_task=(0, 0))})
    assert ("skew", "parse") not in figures(nothing)


def test_an_idle_replica_has_no_service_time():
    assert ("task_service_time_ms", "parse/2") not in figures()


def test_tasks_of_nobody_known_count_for_the_query_alone():
    unattributed = replace(REPORT, tasks=tuple(OTHERS), python={})
    found = figures(unattributed)
    assert {subject for metric, subject in found if CATALOGUE[metric].level is Level.TASK} == {"lines/0", "lines/1"}
    assert ("processed", "count") not in found  # its only attempt failed
    assert found["retried_tasks", "app"] == 2
    assert found["sustainable_rows_per_second", "app"] == 600


def test_an_operator_that_only_passes_on_has_no_work_of_its_own():
    found = figures(replace(REPORT, tasks=tuple(PASSING), python={}))
    assert not {metric for metric, subject in found if subject == "parse"} & {
        "processed",
        "capacity",
        "service_time_ms",
    }
    assert ("flow_fraction", "parse->count") not in found  # tuples sent for each of how many?


def test_without_tasks_the_spouts_own_clock_and_the_bolts_own_times_remain():
    found = figures(replace(REPORT, tasks=None))
    operators = {key: value for key, value in found.items() if CATALOGUE[key[0]].level is Level.OPERATOR}
    assert operators == {
        ("arrival_rate", "lines"): 310,
        ("arrival_scv", "lines"): 0.9,
        ("complete_latency_ms", "lines"): 800,
        ("lag", "lines"): 50,
        ("arrival_scv", "parse"): 0.9,
        ("service_time_ms", "parse"): 2,
        ("service_scv", "parse"): pytest.approx(2 / 3),
        ("failed", "parse"): 2,
    }
    assert ("retried_tasks", "app") not in found
    assert ("sustainable_rows_per_second", "app") not in found
    assert figures(replace(REPORT, tasks=()))["retried_tasks", "app"] == 0


def test_without_edges_there_are_no_edges_and_the_flow_between_operators_is_told_by_tasks():
    found = figures(replace(REPORT, edges=None, in_flight={}))
    edges = {metric for metric, _ in found if CATALOGUE[metric].level is Level.EDGE}
    assert edges == {"flow_fraction"}
    assert {metric for metric, _ in figures(replace(REPORT, edges=None, tasks=None))} & {"rows_read", "skew"} == set()


@pytest.mark.parametrize("interval", [0.0, -3.0])
def test_over_no_time_no_rate_is_known(interval):
    found = figures(around=replace(AROUND, interval=interval, spouts={}))
    rates = {"input_rows_per_second", "sustainable_rows_per_second", "arrival_rate", "utilization", "capacity"}
    assert not {metric for metric, _ in found} & {*rates, "busy_time_ms_per_second"}
    assert found["processed", "parse"] == 600
    assert found["service_time_ms", "parse"] == 2


def test_a_batch_of_no_duration_has_no_rate_of_its_own():
    assert ("processed_rows_per_second", "app") not in figures(replace(REPORT, duration=0.0))


def test_a_batch_without_input_does_not_tell_what_can_be_sustained():
    found = figures(replace(REPORT, input_rows=0))
    assert found["input_rows_per_second", "app"] == 0
    assert ("sustainable_rows_per_second", "app") not in found


def test_a_spout_whose_clock_tells_no_arrivals_is_judged_by_what_was_taken():
    around = replace(AROUND, spouts={"lines": SpoutFigures(None, None, 0.8, 600)})
    found = figures(around=around)
    assert found["arrival_rate", "lines"] == 300
    assert found["complete_latency_ms", "lines"] == 800
    assert ("arrival_scv", "lines") not in found
    assert ("arrival_scv", "parse") not in found


def test_a_lag_that_one_source_does_not_tell_is_not_known_for_all():
    blind = SourceRange(5)
    found = figures(replace(REPORT, sources=(*REPORT.sources, blind)))
    assert ("total_lag", "app") not in found
    assert found["lag", "lines"] == 50
    assert ("total_lag", "app") not in figures(replace(REPORT, sources=()))


def test_a_latency_below_0_is_no_latency():
    around = replace(AROUND, latency={"latency_mean_ms": -0.1}, spouts={"lines": SpoutFigures(1.0, 1.0, -0.1, 600)})
    assert not {metric for metric, _ in figures(around=around)} & {"latency_mean_ms", "complete_latency_ms"}


def test_what_spark_did_not_say_has_no_sample():
    bare = BatchReport(0, SINCE_1970, 1.0, 0, None, None)
    assert {metric for metric, _ in figures(bare, BatchContext(1.0, "app"))} == {
        "batch",
        "input_rows",
        "input_rows_per_second",
        "missed_batches",
        "processed_rows_per_second",
    }
    assert figures(replace(bare, phases={"walCommit": 9}), BatchContext(1.0, "app"))["commit_ms", "app"] == 9


# ---- service_scv


def test_times_of_single_tuples_vary_as_a_hand_works_out():
    # 1, 2 and 3 ms: mean 2, variance ((-1)^2 + 0 + 1^2) / 2 = 1, so 1 / 2^2
    assert service_scv(BoltTimes(30, 3, 0.006, 0.000_014)) == pytest.approx(0.25)


def test_tuples_that_all_take_the_same_do_not_vary():
    assert service_scv(BoltTimes(30, 3, 0.006, 3 * 0.002**2)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "untold",
    [
        BoltTimes(30, 3, 0.006, None),  # timed, but not one by one
        BoltTimes(10, 1, 0.006, 0.000_036),  # one tuple does not vary
        BoltTimes(10, 5, 0.0, 0.0),  # no time passed
        BoltTimes(10, 5, 1e-200, 0.0),  # hardly any time passed
        BoltTimes(9, 0, 0.0, 0.0),
    ],
)
def test_a_variation_that_cannot_be_told_is_not_known(untold):
    assert service_scv(untold) is None
    assert ("service_scv", "parse") not in figures(replace(REPORT, python={"parse": untold}))


def test_a_bolt_that_timed_no_tuple_is_judged_by_its_tasks():
    found = figures(replace(REPORT, python={"parse": BoltTimes(9, 0, 0.0, 0.0, dead=1)}))
    assert found["service_time_ms", "parse"] == pytest.approx((300 + 700) / 600)
    assert found["failed", "parse"] == 1


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(1e-6, 10), min_size=2, max_size=20))
def test_the_variation_is_that_of_the_times(times):
    n, mean = len(times), sum(times) / len(times)
    expected = sum((time - mean) ** 2 for time in times) / (n - 1) / mean**2
    sums = BoltTimes(n * 10, n, sum(times), sum(time * time for time in times))
    assert service_scv(sums) == pytest.approx(expected, rel=1e-6, abs=1e-9)


# ---- whatever a batch was like

TIMES = st.floats(0, 1e7)
COUNTS = st.integers(0, 10**7)
NAMES = st.sampled_from(["lines", "parse", "count"])
RUNS = st.builds(
    TaskRun,
    operator=st.none() | NAMES,
    task=st.none() | st.integers(0, 5),
    edge=st.none() | NAMES,
    feeds=st.none() | st.sampled_from(["parse", "count", "parse.out", "store"]),
    passing=st.booleans(),
    worker=st.just("driver"),
    host=st.just("here"),
    **dict.fromkeys(["waited_ms", "run_ms", "cpu_ms", "deserialize_ms", "gc_ms", "fetch_wait_ms", "write_ms"], TIMES),
    **dict.fromkeys(["rows_in", "rows_out", "bytes_read", "bytes_written", "spilled_bytes"], COUNTS),
    failed=st.booleans(),
)
BOLT_TIMES = st.builds(
    BoltTimes, COUNTS, COUNTS, st.just(0.0) | st.floats(1e-6, 1e6), st.none() | st.floats(0, 1e6), st.integers(0, 9)
)
REPORTS = st.builds(
    BatchReport,
    batch=COUNTS,
    finished=st.floats(0, 2e9),
    duration=st.floats(0, 1e5),
    input_rows=COUNTS,
    route_version=st.none() | COUNTS,
    edges=st.none()
    | st.dictionaries(
        NAMES,
        st.builds(EdgeFlow, COUNTS, COUNTS, st.integers(1, 3), st.none() | st.lists(COUNTS, max_size=4).map(tuple)),
    ),
    tasks=st.none() | st.lists(RUNS, max_size=6).map(tuple),
    phases=st.dictionaries(st.sampled_from(["triggerExecution", "walCommit", "other"]), COUNTS),
    python=st.dictionaries(NAMES, BOLT_TIMES),
    state=st.none() | st.builds(StateSize, COUNTS, COUNTS, COUNTS),
)
AROUNDS = st.builds(
    BatchContext,
    interval=st.just(0.0) | st.floats(-10, -0.001) | st.floats(0.001, 1e4),
    query=st.just("app"),
    spouts=st.dictionaries(
        st.just("lines"),
        st.builds(SpoutFigures, st.none() | TIMES, st.none() | TIMES, st.none() | st.floats(-1e3, 1e3), COUNTS),
    ),
    latency=st.dictionaries(st.sampled_from(["latency_mean_ms", "latency_p99_ms"]), st.floats(-1e3, 1e3)),
    sole_source=st.dictionaries(st.just("parse"), st.just("lines")),
)


@settings(deadline=None, max_examples=60)
@given(REPORTS, AROUNDS)
def test_no_sample_is_outside_the_catalogue_infinite_or_below_0(report, around):
    for sample in stream_samples(report, around):
        assert sample.metric in STREAM
        assert math.isfinite(sample.value), sample
        assert sample.value >= 0, sample
        assert sample.at == report.finished


@settings(deadline=None, max_examples=60)
@given(REPORTS, AROUNDS)
def test_the_mean_of_the_active_replicas_is_never_above_the_busiest_and_skew_never_below_1(report, around):
    found = {(sample.metric, sample.subject): sample.value for sample in stream_samples(report, around)}
    for (metric, subject), value in found.items():
        if metric == "utilization":
            assert value <= found["capacity", subject] * (1 + 1e-9)
        if metric == "skew":
            assert value >= 1 - 1e-9


@given(st.integers(-10_000, 10_000))
@settings(deadline=None, max_examples=20)
def test_only_a_watermark_may_run_ahead_of_the_clock(ahead):
    found = figures(replace(REPORT, watermark=REPORT.finished + ahead))
    assert found["watermark_delay_ms", "app"] == -1000 * ahead


def test_batches_that_spark_dropped_are_counted_at_the_batch_that_follows():
    assert figures(replace(REPORT, unreported=3, unaudited=True))["missed_batches", "app"] == 4


def test_tasks_whose_work_was_not_measured_tell_tuples_and_nothing_else():
    """An aggregation in real time: a service time of 0 would be wrong."""
    tasks = tuple(replace(run, known="tuples", run_ms=0.0) for run in REPORT.tasks if run.operator == "parse")
    found = figures(replace(REPORT, tasks=tasks, python={}, arrival_scv={"parse": 2.5}))
    told = {metric for metric, subject in found if subject.startswith("parse")}
    assert found["processed", "parse"] == 600
    assert found["arrival_scv", "parse"] == 2.5
    assert not told & {"service_time_ms", "utilization", "capacity", "inbound_waiting_ms", "task_busy_ms"}
    assert not slowness(tasks)


def test_in_real_time_waiting_and_sending_of_tasks_are_not_known():
    tasks = tuple(replace(run, known="work") for run in REPORT.tasks)
    found = figures(replace(REPORT, tasks=tasks))
    assert {("utilization", "parse"), ("task_busy_ms", "parse/1")} <= set(found)
    assert not {metric for metric, _ in found} & {"inbound_waiting_ms", "outbound_sending_ms"}
    assert {sample.metric for sample in worker_samples(tasks, 1.0, 0.0)} == {
        "worker_tuple_execution_time_ms",
        "worker_inbound_tuples_per_second",
        "worker_task_run_ms_per_second",
    }
