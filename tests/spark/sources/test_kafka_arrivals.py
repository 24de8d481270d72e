"""Arrivals by questions such as 'which offset is the first one not older than this', against sorting all records."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.spark.sources.kafka_arrivals import Ranges, counts_in_windows, find_arrivals, variation
from foretide.spark.sources.registry import source_range

NOW = 1_700_000_100_000


class Log:
    """Partitions of records with ascending timestamps; what is asked is counted."""

    def __init__(self, *partitions):
        self.partitions = [sorted(int(each) for each in stamps) for stamps in partitions]
        self.asked = 0

    def find(self, instant):
        self.asked += 1
        found = {number: bisect_left(stamps, instant) for number, stamps in enumerate(self.partitions)}
        return {number: at if at < len(self.partitions[number]) else None for number, at in found.items()}

    def batch(self):
        taken = {number: len(stamps) for number, stamps in enumerate(self.partitions) if stamps}
        return Ranges(dict.fromkeys(taken, 0), taken)


@given(st.lists(st.integers(1, 60_000), min_size=1, max_size=300), st.integers(1, 4))
def test_quantiles_are_those_of_all_records_to_a_few_percent(ages, partitions):
    log = Log(*([NOW - age for age in ages[number::partitions]] for number in range(partitions)))
    found = find_arrivals(log.find, log.batch(), NOW)
    stamps = np.sort([NOW - age for age in ages])
    for share in (0.01, 0.05, 0.5):
        exact = stamps[min(len(stamps) - 1, max(0, int(np.ceil(share * len(stamps))) - 1))]
        at = found.at(np.array([share]))[0] * 1000
        assert abs(at - exact) <= 2 + 0.1 * (NOW - exact), share


def test_few_questions_are_enough_once_the_span_is_known():
    log = Log(np.linspace(NOW - 900, NOW - 100, 500), np.linspace(NOW - 900, NOW - 100, 100))
    span = find_arrivals(log.find, log.batch(), NOW).span_ms
    log.asked = 0
    found = find_arrivals(log.find, log.batch(), NOW, span)
    assert log.asked <= 24
    assert found.at(np.array([0.5]))[0] * 1000 == pytest.approx(NOW - 500, abs=25)
    assert found.at(np.array([0.5]), 1)[0] * 1000 == pytest.approx(NOW - 500, abs=25)


def test_what_the_broker_does_not_tell_is_unknown():
    log = Log([NOW - 5] * 10)
    assert find_arrivals(lambda _: None, log.batch(), NOW) is None
    ahead = Log([NOW + 60_000] * 10)
    assert find_arrivals(ahead.find, ahead.batch(), NOW) is None


def test_a_time_out_leaves_what_was_found_by_then():
    log = Log(np.linspace(NOW - 900, NOW - 100, 500))
    found = find_arrivals(lambda instant: log.find(instant) if log.asked < 3 else None, log.batch(), NOW)
    assert log.asked == 3
    assert NOW - 1000 < found.at(np.array([0.5]))[0] * 1000 < NOW


@pytest.mark.parametrize(("shape", "low", "high"), [(1, 0.8, 1.2), (10_000, 0.0, 0.05), (4, 0.18, 0.36)])
def test_the_variation_of_arrivals_is_that_of_the_gaps(shape, low, high):
    """Gaps of gamma distributions have a squared variation coefficient of 1 / shape."""
    random = np.random.default_rng(7)
    batches = []
    for _ in range(50):
        log = Log(NOW - 10 - np.cumsum(random.gamma(shape, 5 / shape, 400)))
        batches.append(counts_in_windows(log.find, log.batch(), find_arrivals(log.find, log.batch(), NOW)))
    assert low <= variation(batches) <= high


def test_too_few_records_tell_no_variation():
    log = Log([NOW - 50, NOW - 20])
    assert counts_in_windows(log.find, log.batch(), find_arrivals(log.find, log.batch(), NOW)) is None
    assert variation([[1, 2, 3, 4]]) is None


def test_offsets_tell_spout_and_lag_by_partition():
    spouts = {"clicks": "in"}
    start, end = {"clicks": {"0": 5, "1": 0}}, {"clicks": {"0": 9, "1": 3}}
    taken = source_range(start, end, {"clicks": {"0": 20, "1": 3}}, 7, spout_of=spouts)
    assert (taken.spout, taken.rows, taken.backlog) == ("in", 7, 11)
    assert taken.partition_lag == {"0": 11, "1": 0}


def test_rows_are_what_spark_counted_where_offsets_have_gaps():
    """Markers of transactions have offsets; a task that was run again is counted twice."""
    start, end = {"clicks": {"0": 5}}, {"clicks": {"0": 9}}
    assert source_range(start, end, {}, 3).rows == 3
    assert source_range(start, end, {}, 8).rows == 4
    first = source_range({}, end, {}, 9)
    assert (first.rows, first.backlog, first.spout) == (9, None, None)
