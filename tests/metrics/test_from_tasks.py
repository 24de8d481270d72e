"""The paper's Table I and Spark's counters, by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.metrics.batch import TaskRun
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.from_batch import slowness_samples, worker_samples
from foretide.metrics.metric import Level, Sample

RUN = TaskRun(
    operator="count",
    task=0,
    edge="count",
    feeds="merge",
    passing=False,
    worker="1",
    host="here",
    waited_ms=10.0,
    run_ms=100.0,
    cpu_ms=60.0,
    deserialize_ms=4.0,
    gc_ms=2.0,
    fetch_wait_ms=20.0,
    write_ms=30.0,
    rows_in=50,
    rows_out=25,
    bytes_read=1000,
    bytes_written=500,
    spilled_bytes=64,
)
TO_SINK = replace(RUN, rows_in=150, run_ms=250.0, write_ms=0.0, fetch_wait_ms=0.0, waited_ms=70.0, bytes_written=0)
IDLE = replace(
    RUN, rows_in=0, run_ms=7.0, write_ms=1.0, fetch_wait_ms=0.0, waited_ms=500.0, bytes_read=0, bytes_written=8
)


def of(worker, *runs, seconds=5.0):
    return {each.metric: each.value for each in worker_samples(runs, seconds, at=9.0) if each.subject == worker}


def test_table_one_by_hand():
    figures = of("1", RUN, TO_SINK, IDLE)
    assert figures["worker_tuple_execution_time_ms"] == 1.5  # ((100 - 20 - 30) + (250 - 0 - 0)) / (50 + 150)
    assert figures["worker_inbound_tuples_per_second"] == 40  # (50 + 150 + 0) / 5
    # 50 tuples waited 10 + 20 ms and 150 waited 70 ms: (50 * 30 + 150 * 70) / 200. No tuple waited for the idle task.
    assert figures["worker_inbound_queuing_time_ms"] == 60
    assert figures["worker_outbound_batch_sending_time_ms"] == 15.5  # (30 + 1) / 2: two tasks left something to read
    assert figures["worker_outbound_batches_per_second"] == 0.4  # 2 / 5


def test_sparks_counters_by_hand():
    figures = of("1", RUN, TO_SINK, replace(IDLE, failed=True))
    assert figures["worker_task_run_ms_per_second"] == pytest.approx(71.4)  # (100 + 250 + 7) / 5
    assert figures["worker_task_cpu_ms_per_second"] == 36  # 3 * 60 / 5
    assert figures["worker_task_deserialize_ms_per_second"] == 2.4  # 3 * 4 / 5
    assert figures["worker_task_gc_ms_per_second"] == 1.2  # 3 * 2 / 5
    assert figures["worker_fetch_wait_ms_per_second"] == 4  # 20 / 5
    assert figures["worker_shuffle_read_bytes_per_second"] == 400  # 2 * 1000 / 5
    assert figures["worker_shuffle_write_bytes_per_second"] == pytest.approx(101.6)  # (500 + 8) / 5
    assert figures["worker_shuffle_write_ms_per_second"] == pytest.approx(6.2)  # (30 + 1) / 5
    assert figures["worker_spilled_bytes_per_second"] == pytest.approx(38.4)  # 3 * 64 / 5
    assert figures["worker_tasks_per_second"] == 0.6  # 3 / 5
    assert figures["worker_failed_tasks_per_second"] == 0.2  # 1 / 5


def test_every_worker_has_figures_of_its_own():
    runs = [RUN, replace(RUN, worker="2", rows_in=500), replace(RUN, worker="2", rows_in=0)]
    assert of("1", *runs)["worker_inbound_tuples_per_second"] == 10  # 50 / 5
    assert of("2", *runs)["worker_inbound_tuples_per_second"] == 100  # 500 / 5
    assert of("1", *runs) == of("1", RUN)
    assert of("3", *runs) == {}


def test_slowness_holds_a_worker_against_the_same_work_and_short_times_say_little():
    runs = [RUN, replace(RUN, worker="2", rows_in=500), replace(RUN, worker="2", rows_in=0)]
    slow = {sample.subject: sample.value for sample in slowness_samples(runs, at=9.0)}
    # 550 tuples took 100 ms: 50 of them should take 9.09 ms, and took 50; 500 should take 90.9, and took 50
    assert slow["1"] == pytest.approx((50 + 200) / (9.0909 + 200), rel=1e-4)
    assert slow["2"] == pytest.approx((50 + 200) / (90.909 + 200), rel=1e-4)
    longer = [replace(run, run_ms=run.run_ms * 1000) for run in runs]
    assert {sample.subject: sample.value for sample in slowness_samples(longer, at=9.0)}["1"] > 5


def test_without_tuples_or_output_their_means_are_not_known():
    figures = of("1", replace(IDLE, bytes_written=0))
    assert "worker_tuple_execution_time_ms" not in figures
    assert "worker_inbound_queuing_time_ms" not in figures
    assert "worker_outbound_batch_sending_time_ms" not in figures
    assert figures["worker_inbound_tuples_per_second"] == 0
    assert figures["worker_outbound_batches_per_second"] == 0


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_over_no_time_nothing_is_known(seconds):
    assert worker_samples([RUN], seconds, at=9.0) == []


def test_no_tasks_no_samples():
    assert worker_samples([], 5.0, at=9.0) == []


def test_samples_carry_the_time_they_are_of():
    assert Sample("worker_tasks_per_second", "1", 9.0, 0.2) in worker_samples([RUN], 5.0, at=9.0)


MILLISECONDS = st.floats(0, 1e6)
COUNTS = st.integers(0, 10**6)
RUNS = st.builds(
    TaskRun,
    operator=st.none(),
    task=st.none(),
    edge=st.none(),
    feeds=st.none(),
    passing=st.booleans(),
    worker=st.sampled_from(["1", "2", "driver"]),
    host=st.just("here"),
    **dict.fromkeys(
        ["waited_ms", "run_ms", "cpu_ms", "deserialize_ms", "gc_ms", "fetch_wait_ms", "write_ms"], MILLISECONDS
    ),
    **dict.fromkeys(["rows_in", "rows_out", "bytes_read", "bytes_written", "spilled_bytes"], COUNTS),
    failed=st.booleans(),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(RUNS, max_size=8), st.floats(0.001, 100))
def test_whatever_ran_samples_are_finite_of_the_catalogue_and_once_each(runs, seconds):
    samples = worker_samples(runs, seconds, at=9.0)
    assert {sample.subject for sample in samples} == {run.worker for run in runs}
    assert len({(sample.metric, sample.subject) for sample in samples}) == len(samples)
    for sample in samples:
        assert CATALOGUE[sample.metric].level is Level.WORKER
        assert math.isfinite(sample.value)
        assert sample.value >= 0
