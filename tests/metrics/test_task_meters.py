"""Counters of running tasks: what is read from them is what went in, whatever happens between two readings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import MonitoringError
from foretide.metrics.batch import BoltTimes
from foretide.metrics.from_batch import service_scv
from foretide.metrics.task_meters import (
    BUCKETS,
    FIRST_MICROSECONDS,
    PER_DECADE,
    SQUARE_NANOSECONDS,
    STRIDE,
    Place,
    TaskMeter,
    Work,
    arrival_scv,
    bounds,
    by_task,
    merged,
    parse_counters,
    property_of,
    quantile,
    size_of,
    total,
    work_between,
)

WRAP = 1 << 63


def signed(number):
    """A number as a long of Java holds it."""
    return (number + WRAP) % (2 * WRAP) - WRAP


def bucket_of(microseconds):
    above = math.floor(math.log10(max(microseconds, 1) / FIRST_MICROSECONDS) * PER_DECADE) + 1
    return min(max(above, 0), BUCKETS - 1)


class Counters:
    """A task that counts as the expressions of `foretide.spark.realtime.meters` do."""

    def __init__(self, task=0, squares=0):
        self.row = [0] * STRIDE
        self.row[Place.SQUARES] = self.row[Place.GAP_SQUARES] = squares
        self.task = task

    def enter(self, now):
        before, self.row[Place.ENTERED] = self.row[Place.ENTERED], now
        self._add(Place.TUPLES, 1)
        self._add(Place.GAP_SQUARES, round((now - before) ** 2 / SQUARE_NANOSECONDS) if before else 0)

    def leave(self, took, latency):
        self._add(Place.TIMED, 1)
        self._add(Place.BUSY, took)
        self._add(Place.SQUARES, round(took**2 / SQUARE_NANOSECONDS))
        self._add(Place.LATENCY, latency)
        self._add(Place.HISTOGRAM + bucket_of(latency), 1)

    def _add(self, place, value):
        self.row[place] = signed(self.row[place] + value)

    def read(self):
        return parse_counters(str([*self.row, *[0] * STRIDE]))[0]


tuples = st.lists(
    st.tuples(st.integers(1_000, 10**8), st.integers(300, 10**8), st.integers(1, 10**9)), min_size=1, max_size=60
)
"""Gap and work in nanoseconds, and latency in microseconds."""


def run(counters, rows, now=10**9):
    for gap, took, latency in rows:
        now += gap
        counters.enter(now)
        counters.leave(took, latency)
    return now


@given(tuples, tuples, st.integers(-WRAP, WRAP - 1))
def test_differences_are_what_happened_in_between_even_if_squares_wrap_round(first, second, squares):
    counters = Counters(squares=squares)
    now = run(counters, first)
    before = counters.read()
    run(counters, second, now)
    work = work_between(before, counters.read())
    gaps, times = [gap / 1e9 for gap, _, _ in second], [took / 1e9 for _, took, _ in second]
    assert (work.tuples, work.emitted, work.timed, work.gaps) == (len(second),) * 4
    assert work.seconds == pytest.approx(sum(times))
    assert work.squares == pytest.approx(sum(time * time for time in times), rel=0.01)
    assert work.gap_seconds == pytest.approx(sum(gaps))
    assert work.gap_squares == pytest.approx(sum(gap * gap for gap in gaps), rel=0.01)
    assert work.latency_seconds == pytest.approx(sum(latency for _, _, latency in second) / 1e6)
    assert sum(work.latencies) == len(second)


@given(tuples, tuples)
def test_counters_that_began_anew_are_counted_from_0(first, second):
    old, new = Counters(), Counters()
    run(old, first * (len(second) + 1))
    run(new, second)
    assert work_between(old.read(), new.read()) == work_between(None, new.read())
    assert work_between(None, new.read()).tuples == len(second)
    assert work_between(None, new.read()).gaps == 0  # since when the first tuple was awaited is not known


def test_a_task_that_came_back_to_an_executor_tells_no_gaps():
    counters = Counters()
    counters.enter(10**9)
    before = counters.read()
    counters.enter(60 * 10**9)
    assert work_between(before, counters.read()).gaps == 0


@given(tuples, tuples)
def test_a_task_that_moves_is_counted_on_both_executors(first, second):
    here, there = Counters(), Counters()
    run(here, first)
    before = {"1": (here.read(),)}
    run(here, second, 10**12)
    run(there, first)
    found = by_task(before, {"1": (here.read(),), "2": (there.read(),)})
    assert (found["1", 0].tuples, found["2", 0].tuples) == (len(second), len(first))
    assert total(found.values()).tuples == len(first) + len(second)
    assert sum(total(found.values()).latencies) == len(first) + len(second)
    assert by_task({"1": (here.read(),)}, {}) == {}


@given(st.lists(st.integers(1_000, 10**8), min_size=2, max_size=50))
def test_mean_and_variation_of_work_are_those_of_the_single_times(times):
    counters = Counters()
    run(counters, [(1000, took, 1) for took in times])
    work = work_between(None, counters.read())
    mean = sum(times) / len(times)
    variance = sum((time - mean) ** 2 for time in times) / (len(times) - 1)
    told = service_scv(BoltTimes(work.tuples, work.timed, work.seconds, work.squares))
    assert work.seconds / work.timed * 1e9 == pytest.approx(mean)
    assert told == pytest.approx(variance / mean**2, rel=0.01, abs=0.01)


@given(
    st.floats(0, 20),
    st.lists(st.integers(1, 50), min_size=1, max_size=8),
)
def test_the_variation_of_arrivals_is_told_by_the_gaps_of_tasks_that_split_them(scv, parts):
    """Exact where each task sees what a random split of a renewal process would show it."""
    works = []
    for part in parts:
        gaps, share = 20 * part, part / sum(parts)
        mean = 0.001 / share
        of_task = share * scv + (1 - share)
        works.append(Work(tuples=gaps, gaps=gaps, gap_seconds=gaps * mean, gap_squares=gaps * mean**2 * (of_task + 1)))
    assert arrival_scv(works) == pytest.approx(scv, abs=1e-6)
    assert arrival_scv([*works, Work()]) == arrival_scv(works)


def test_few_arrivals_tell_no_variation():
    assert arrival_scv([Work(tuples=5, gaps=5, gap_seconds=1.0, gap_squares=1.0)]) is None
    assert arrival_scv([]) is None


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_in_the_bucket_of_the_exact_one(latencies, level):
    counters = Counters()
    run(counters, [(1, 1, latency) for latency in latencies])
    told = quantile(counters.read().histogram, level)
    exact = sorted(latencies)[math.ceil(level * len(latencies) - 1e-9) - 1]
    low, high = bounds(bucket_of(exact))
    assert low * (1 - 1e-9) <= told <= high * (1 + 1e-9)


@given(st.lists(st.integers(0, 50), min_size=BUCKETS, max_size=BUCKETS))
def test_quantiles_grow_with_their_level_and_merging_with_oneself_changes_none(histogram):
    levels = [0.1, 0.5, 0.9, 0.99, 1.0]
    told = [quantile(histogram, level) for level in levels]
    if not sum(histogram):
        assert told == [None] * len(levels)
    else:
        assert told == sorted(told)
        assert [quantile(merged([histogram, histogram]), level) for level in levels] == pytest.approx(told)


@given(st.integers(1, 10**9))
def test_bounds_are_those_of_the_bucket(microseconds):
    low, high = bounds(bucket_of(microseconds))
    assert low * (1 - 1e-9) <= microseconds / 1e6 <= high * (1 + 1e-9)


def test_the_last_row_is_of_tasks_beyond_the_width_and_has_no_times():
    row = [*range(1, 11), *[1] * BUCKETS]
    assert len(row) == STRIDE
    meters = parse_counters(str([*row, *row]))
    assert [meter.task for meter in meters] == [0, None]
    assert meters[0] == TaskMeter(0, 1, 2, 3, 6, 7, 8, 9, 10, (1,) * BUCKETS)
    shared = work_between(None, meters[1])
    assert (shared.tuples, shared.emitted, shared.timed, shared.seconds, shared.gaps) == (1, 10 + BUCKETS, 0, 0.0, 0)
    assert shared.all_seconds is None
    assert size_of(1) == len(row) * 2


def test_tuples_that_led_to_none_are_taken_to_be_like_the_others():
    assert Work(tuples=10, timed=5, seconds=2.0).all_seconds == 4.0
    assert Work(tuples=4, timed=5, seconds=2.0).all_seconds == 2.0  # one that was under way at the reading before
    assert Work().all_seconds == 0.0


@pytest.mark.parametrize("text", ["", "null", "[1, 2]", "[1, x]", str([0] * STRIDE), str([0] * (2 * STRIDE + 1))])
def test_text_that_is_not_counters_is_refused(text):
    with pytest.raises(MonitoringError, match="counters cannot be read"):
        parse_counters(text)


def test_a_property_names_query_operator_and_tasks():
    assert property_of("k", "parse.emitted", 3) == "foretide.meter.k.parse.emitted.3"
