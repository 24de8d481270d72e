"""Rates between readings: right when all is well, silent when in doubt."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.metrics.metric import Gauge, Level, Mean, Metric, Rate, Reading, Sample, Share, samples


def metric(name):
    return Metric(name, "count", Level.MACHINE, "For the test.")


RULES = (
    Gauge(metric("gauge"), "a", 10),
    Rate(metric("rate"), "b", 100),
    Share(metric("share"), "b", "c", 1000),
    Mean(metric("mean"), "c", "b"),
)


def values(before, after):
    return {sample.metric: sample.value for sample in samples(RULES, "x", before, after)}


def test_a_gauge_is_scaled_a_rate_is_per_second_and_shares_and_means_are_growth_by_growth():
    before = Reading(1000.0, 50.0, {"a": 1, "b": 7.0, "c": 2})
    after = Reading(1004.0, 54.0, {"a": 3, "b": 9.0, "c": 10})
    assert samples(RULES, "x", before, after) == [
        Sample("gauge", "x", 1004.0, 30.0),
        Sample("rate", "x", 1004.0, 50.0),
        Sample("share", "x", 1004.0, 250.0),
        Sample("mean", "x", 1004.0, 4.0),
    ]


def test_a_first_reading_gives_gauges_alone():
    assert values(None, Reading(0, 0, {"a": 3, "b": 9, "c": 10})) == {"gauge": 30.0}


@pytest.mark.parametrize("clock", [50.0, 49.0, -1e9])
def test_a_clock_that_stands_or_jumps_back_gives_gauges_alone(clock):
    before, after = Reading(0, 50.0, {"a": 1, "b": 1, "c": 1}), Reading(0, clock, {"a": 3, "b": 9, "c": 10})
    assert values(before, after) == {"gauge": 30.0}


def test_rates_do_not_follow_a_time_of_day_that_was_set_back():
    before, after = Reading(5000.0, 50.0, {"b": 1}), Reading(1400.0, 52.0, {"b": 5})
    assert samples(RULES, "x", before, after) == [Sample("rate", "x", 1400.0, 200.0)]


def test_a_counter_that_fell_gives_no_sample_and_leaves_the_others():
    before, after = Reading(0, 0, {"b": 2**32 - 1, "c": 1}), Reading(0, 1, {"a": 1, "b": 5, "c": 2})
    assert values(before, after) == {"gauge": 10.0}


def test_what_is_known_once_only_and_a_share_of_nothing_have_no_sample():
    assert values(Reading(0, 0, {"c": 1}), Reading(0, 1, {"b": 5, "c": 2})) == {}
    assert values(Reading(0, 0, {"b": 5, "c": 2}), Reading(0, 1, {"b": 5, "c": 2})) == {"rate": 0.0}


def test_rounding_cannot_make_a_part_more_than_the_whole():
    before, after = Reading(0, 0, {"b": 0.1, "c": 0.3}), Reading(0, 1, {"b": 0.1 + 0.2, "c": 0.5})
    assert after.values["b"] - before.values["b"] > after.values["c"] - before.values["c"]
    assert values(before, after)["share"] == 1000.0


counters = st.dictionaries(st.sampled_from("abc"), st.floats(0, 1e18))


@given(counters, counters, st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_no_sample_is_ever_negative_or_no_number(earlier, later, clock_before, clock_after):
    found = values(Reading(0, clock_before, earlier), Reading(0, clock_after, later))
    assert all(value >= 0 and math.isfinite(value) for value in found.values())
