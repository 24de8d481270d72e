"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from foretide.durations import Seconds, interval_text, is_duration, parse_duration
from foretide.errors import DurationError

UNITS = {
    1e-6: ("us", "microsecond", "microseconds"),
    1e-3: ("ms", "msec", "millisecond", "milliseconds"),
    1.0: ("s", "sec", "secs", "second", "seconds"),
    60.0: ("m", "min", "mins", "minute", "minutes"),
    3600.0: ("h", "hr", "hour", "hours"),
    86400.0: ("d", "day", "days"),
    604800.0: ("w", "week", "weeks"),
}
units = st.sampled_from([(factor, name) for factor, names in UNITS.items() for name in names])
amounts = st.floats(0, 1e7)
gaps = st.text(" \t", max_size=3)


@given(amounts, units, gaps, gaps, st.booleans())
def test_a_number_and_a_unit_are_so_many_seconds_however_they_are_spaced_and_cased(amount, unit, gap, around, upper):
    factor, name = unit
    text = f"{around}{amount!r}{gap}{name.upper() if upper else name}{around}"
    assert parse_duration(text) == pytest.approx(amount * factor, rel=1e-12, abs=1e-300)


@given(amounts)
def test_a_number_is_seconds_whether_as_a_number_or_as_text(amount):
    assert parse_duration(amount) == parse_duration(repr(amount)) == parse_duration(f"{amount!r} s") == amount


@given(st.lists(st.tuples(st.integers(0, 10**6), units), min_size=1, max_size=4), gaps)
def test_several_parts_add_up(parts, gap):
    text = gap.join(f"{amount}{gap}{name}" for amount, (_, name) in parts)
    assert parse_duration(text) == pytest.approx(sum(amount * factor for amount, (factor, _) in parts), rel=1e-12)


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_refused_as_none(text):
    try:
        seconds = parse_duration(text)
    except DurationError:
        return
    assert 0 <= seconds < float("inf")


@pytest.mark.parametrize(
    "wrong",
    [
        *("", " ", "soon", "s", "2 x", "-1", "-2 s", "1 s 5", "5 1 s", "1,5 s", "nan", "inf", "1e999", "2 s.", "٣ s"),
        *("9" * 1000, -1, -0.5, float("nan"), float("inf"), True, None, [], 10**400),
    ],
)
def test_what_is_no_duration_is_refused(wrong):
    with pytest.raises(DurationError, match="give seconds as a number, or text such as '2s'"):
        parse_duration(wrong)


@given(st.integers(0, 10**12))
def test_an_interval_for_spark_is_a_duration_again(micros):
    assert parse_duration(interval_text(micros / 1e6)) == micros / 1e6


def test_fields_in_seconds_take_text_where_types_are_checked_and_others_do_not():
    assert is_duration(Seconds)
    assert not is_duration(float)
    assert TypeAdapter(Seconds | None).validate_json('"2 minutes"') == 120.0
    assert TypeAdapter(Seconds).validate_json("2.5") == 2.5
    with pytest.raises(ValidationError, match="is not a duration"):
        TypeAdapter(Seconds).validate_json('"soon"')
    with pytest.raises(ValidationError):
        TypeAdapter(float).validate_json('"2 minutes"')


@pytest.mark.parametrize("value", ["1e300s", "9000000000001", "1e20h", 1e308, 10**400, "99999999999999 w"])
def test_a_duration_without_end_is_refused(value):
    with pytest.raises(DurationError, match="is too long"):
        parse_duration(value)
