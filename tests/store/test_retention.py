"""How long a store keeps what a pipeline recorded: each pipeline by itself, whatever its clock does."""

import logging
import math
from functools import partial

import pytest

from foretide.control.decisions.decision import Decision
from foretide.metrics.metric import Sample
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord
from foretide.store.upkeep import WriterSettings
from foretide.store.writer import StoreWriter

HOUR, DAY = 3600.0, 86_400.0
NOW = 1_750_000_000.0
WEEK = WriterSettings(retention_seconds=7 * DAY)


def hourly(first, last, subject="worker-1"):
    """A sample an hour from `first` to `last` days before now."""
    return [Sample("cpu", subject, NOW - hours * HOUR, 1.0) for hours in range(int(first * 24), int(last * 24) - 1, -1)]


def write(location, pipeline, samples, now, settings=WEEK):
    """A pipeline that starts at a time by its clock, writes, and stops."""
    with StoreWriter(partial(MetricStore.open, location), pipeline, settings, clock=lambda: now) as writer:
        writer.put(samples)
        for _ in range(3):
            writer.turn()
        assert writer.problem is None


def times(location, pipeline="p"):
    with MetricStore.open(location) as store:
        return [one.at for one in store.read(pipeline)]


def test_a_short_retention_leaves_another_pipelines_history_alone(location):
    alarm, decision = AlarmRecord(1.0, "rule", "critical", "x", "an old alarm", "audit"), Decision(1, 1.0, "long")
    with MetricStore.open(location) as store:
        store.write("long", hourly(6, 0))
        store.write_alarms("long", [alarm])
        store.write_decisions("long", [decision])
    write(location, "short", hourly(1, 0), NOW, WriterSettings(retention_seconds=60.0))
    with MetricStore.open(location) as store:
        assert store.read("long") == hourly(6, 0)
        assert store.alarms("long") == [alarm]
        assert store.decisions("long") == [decision]
        assert store.read("short") == hourly(0, 0)


def test_what_is_older_than_the_retention_is_deleted(location):
    write(location, "p", hourly(9, 0), NOW)
    assert times(location) == [one.at for one in hourly(7, 0)]


def test_a_clock_that_jumps_ahead_deletes_nothing_at_the_start_of_a_process_or_within_it(location, caplog):
    kept = hourly(6, 0)
    write(location, "p", kept, NOW)
    ahead = NOW + 10 * DAY
    with caplog.at_level(logging.WARNING, "foretide"):
        write(location, "p", [Sample("cpu", "worker-1", ahead, 1.0)], ahead)
    assert "p: nothing was recorded for 10.0 days; the pipeline was stopped, or the clock was set" in caplog.text
    later = ahead + DAY / 2
    write(location, "p", [Sample("cpu", "worker-1", later, 1.0)], later)
    assert times(location) == [*(one.at for one in kept), ahead, later]


def test_time_over_which_the_clock_jumped_does_not_count_but_recorded_time_does(location):
    write(location, "p", hourly(6, 0), NOW)
    jump = 30 * DAY
    after = [Sample("cpu", "worker-1", NOW + jump + hours * HOUR, 1.0) for hours in range(4 * 24 + 1)]
    write(location, "p", after, after[-1].at)
    assert times(location) == [one.at for one in (*hourly(3, 0), *after)]


def test_a_clock_that_was_ahead_and_was_set_right_deletes_neither_what_is_new_nor_what_was_ahead(location):
    ahead = [Sample("cpu", "worker-1", one.at + 20 * DAY, 1.0) for one in hourly(8, 0)]
    write(location, "p", ahead, ahead[-1].at, WriterSettings(retention_seconds=30 * DAY))
    write(location, "p", hourly(1, 0), NOW)
    assert times(location) == [one.at for one in (*hourly(1, 0), *ahead)]


def test_a_pipeline_that_runs_once_a_day_keeps_a_week(location):
    daily = [
        Sample("cpu", "worker-1", NOW - days * DAY + seconds, 1.0)
        for days in range(20, 0, -1)
        for seconds in (0.0, 60.0)
    ]
    write(location, "p", daily, NOW)
    assert times(location) == [one.at for one in daily if one.at >= NOW - 7 * DAY]


@pytest.mark.parametrize("now", [-math.inf, 0.0, 1e300])
def test_absurd_clocks_delete_nothing(location, now):
    with MetricStore.open(location) as store:
        store.write("p", [*hourly(6, 0), Sample("cpu", "worker-1", 1e299, 1.0)])
        before = store.recorded_before("p", now, 7 * DAY)
        assert store.delete_before("p", before) == 0
