"""The metrics of workers and machines: enough of them, named once, each with its meaning."""

from __future__ import annotations

import re

import pytest

from foretide.metrics.catalogue import CATALOGUE, at_level
from foretide.metrics.machine_metrics import CORE, MACHINE
from foretide.metrics.metric import Level
from foretide.metrics.worker_metrics import JVM, PROCESS, SPARK_TASKS, TABLE_ONE, WORKER


def test_workers_have_at_least_24_features_machines_57_and_both_more_than_70():
    assert len({metric.name for metric in WORKER}) >= 24
    assert len({metric.name for metric in MACHINE}) >= 57
    assert len({metric.name for metric in (*WORKER, *MACHINE)}) > 70


def test_the_machines_57_are_there_without_the_features_of_single_cores():
    assert len({metric.name for metric in MACHINE} - {metric.name for metric in CORE}) >= 57


def test_no_name_is_taken_twice():
    names = [metric.name for metric in (*WORKER, *MACHINE)]
    assert len(names) == len(set(names))
    assert len(at_level(Level.WORKER)) == len(WORKER)
    assert len(at_level(Level.MACHINE)) == len(MACHINE)
    assert set(names) <= CATALOGUE.keys()


def test_the_papers_table_one_is_there_for_every_worker():
    assert [metric.name for metric in TABLE_ONE] == [
        "worker_tuple_execution_time_ms",
        "worker_inbound_tuples_per_second",
        "worker_inbound_queuing_time_ms",
        "worker_outbound_batch_sending_time_ms",
        "worker_outbound_batches_per_second",
        "worker_heap_bytes",
        "worker_non_heap_bytes",
    ]
    assert set(WORKER) == {*TABLE_ONE, *SPARK_TASKS, *PROCESS, *JVM}


@pytest.mark.parametrize("metric", [*WORKER, *MACHINE], ids=lambda metric: metric.name)
def test_a_name_says_its_level_and_unit_and_has_a_sentence(metric):
    assert re.fullmatch(rf"{metric.level}_[a-z0-9_]+", metric.name)
    assert re.fullmatch(r"[A-Z].*[^.]\.", metric.meaning)
    assert metric.name.endswith("_per_second") == metric.unit.endswith("/s")
    assert metric.name.endswith("_percent") == (metric.unit == "percent")
    assert metric.name.endswith("_bytes") == (metric.unit == "bytes")
    assert metric.name.endswith("_ms") == (metric.unit == "ms")
