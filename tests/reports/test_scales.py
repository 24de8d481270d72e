"""Scales hold every value, and ticks are round numbers along them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.reports.scales import Scale, elapsed, thinned, ticks, time_ticks, values_scale

SIZES = st.floats(1e-3, 1e9)


@given(st.lists(SIZES, min_size=1, max_size=20), st.none() | SIZES)
def test_every_value_has_a_place_and_few_ticks_span_the_scale(values, typical):
    scale = values_scale(values, 100.0, 0.0, typical)
    assert scale.low <= min(values) * (1 + 1e-9)
    assert scale.high >= max(values) * (1 - 1e-9)
    marks = ticks(scale)
    assert marks[0] == pytest.approx(scale.low)
    assert marks[-1] == pytest.approx(scale.high)
    assert 2 <= len(marks) <= 15


def test_a_scale_is_logarithmic_where_a_value_is_far_above_the_typical_one():
    assert not values_scale([1.0, 10.0], 0, 1, 1.0).log
    assert values_scale([1.0, 100.0], 0, 1, 1.0).log
    assert not values_scale([1.0, 100.0], 0, 1).log


def test_nothing_measured_has_a_scale_too():
    assert ticks(values_scale([], 0, 1))[0] == 0.0
    assert values_scale([0.0], 0, 1, None).place(0.0) == 0.0


def test_values_outside_are_put_at_the_edge():
    assert Scale(0.0, 10.0, 0.0, 100.0).place(20.0) == 100.0
    assert Scale(5.0, 5.0, 0.0, 100.0).place(5.0) == 0.0


@given(st.floats(0.1, 1e7))
def test_times_are_labelled_at_most_nine_times_and_within_the_run(seconds):
    found = time_ticks(seconds)
    assert 1 <= len(found) <= 9
    assert all(0 <= at <= seconds for at, _ in found)
    assert len({label for _, label in found}) == len(found)


def test_times_are_told_in_the_unit_of_the_whole_run():
    assert [elapsed(7200, of) for of in (100, 9000, 90_000, 900_000)] == ["7,200 s", "120 min", "2 h", "0.0833 d"]


@given(st.lists(st.tuples(st.floats(0, 1e6), SIZES), max_size=200), st.integers(1, 50), st.booleans())
def test_thinning_keeps_the_highest_value_and_the_order(points, most, highest):
    points = tuple(sorted(points))
    found = thinned(points, most, highest=highest)
    assert len(found) <= most or found == points
    assert list(found) == sorted(found, key=lambda point: point[0])
    if highest and points:
        assert max(value for _, value in found) == max(value for _, value in points)
