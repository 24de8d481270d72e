"""Smoothing against values worked out by hand: alpha weighs the past."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import SettingsError
from foretide.metrics.snapshot import Fading, Window

VALUES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50)


def smoothed(smoother, *values):
    return [smoother.add(value) for value in values]


def test_alpha_weighs_the_past():
    assert smoothed(Fading(0.75), 8, 16, 0, 100) == [
        8,  # the first measurement as it is
        0.75 * 8 + 0.25 * 16,  # 10
        0.75 * 10 + 0.25 * 0,  # 7.5
        0.75 * 7.5 + 0.25 * 100,  # 30.625
    ]
    assert smoothed(Fading(0.75), 8, 16, 0, 100)[-1] == 30.625


def test_a_small_alpha_follows_faster_than_a_large_one():
    assert smoothed(Fading(0.1), 0, 10)[-1] == pytest.approx(9)  # 0.1 * 0 + 0.9 * 10
    assert smoothed(Fading(0.9), 0, 10)[-1] == pytest.approx(1)  # 0.9 * 0 + 0.1 * 10


def test_alpha_0_forgets_the_past():
    assert smoothed(Fading(0), 3, 9, -4) == [3, 9, -4]


def test_a_window_is_the_mean_of_the_last_ones_and_of_those_there_are_at_first():
    assert smoothed(Window(3), 3, 6, 9, 12, 0) == [
        3,
        4.5,  # (3 + 6) / 2
        6,  # (3 + 6 + 9) / 3
        9,  # (6 + 9 + 12) / 3
        7,  # (9 + 12 + 0) / 3
    ]


def test_a_window_of_one_is_the_measurement():
    assert smoothed(Window(1), 3, 9, -4) == [3, 9, -4]


@pytest.mark.parametrize("alpha", [-0.01, 1, 1.5, math.nan, math.inf])
def test_an_alpha_that_is_no_weight_is_refused(alpha):
    with pytest.raises(SettingsError, match=r"alpha weighs the past and lies in \[0, 1\)"):
        Fading(alpha)


@pytest.mark.parametrize("size", [0, -3])
def test_a_window_without_room_is_refused(size):
    with pytest.raises(SettingsError, match=f"at least one measurement, not {size}"):
        Window(size)


@settings(deadline=None, max_examples=50)
@given(VALUES, st.floats(0, 0.99))
def test_fading_is_the_weighted_sum_of_all_measurements(values, alpha):
    first, *later = values
    n = len(later)
    expected = alpha**n * first + sum((1 - alpha) * alpha ** (n - 1 - i) * value for i, value in enumerate(later))
    assert smoothed(Fading(alpha), *values)[-1] == pytest.approx(expected, rel=1e-6, abs=1e-3)


@settings(deadline=None, max_examples=50)
@given(VALUES, st.integers(1, 60))
def test_a_window_is_the_mean_whatever_its_size(values, size):
    last = values[-size:]
    assert smoothed(Window(size), *values)[-1] == pytest.approx(sum(last) / len(last))


@settings(deadline=None, max_examples=50)
@given(VALUES, st.sampled_from([lambda: Fading(0.6), lambda: Window(4)]))
def test_no_smoothed_value_leaves_the_range_of_the_measurements(values, make):
    for value in smoothed(make(), *values):
        assert min(values) - 1e-6 <= value <= max(values) + 1e-6


def test_two_smoothers_share_nothing():
    one, other = Window(2), Window(2)
    one.add(100)
    assert other.add(2) == 2
