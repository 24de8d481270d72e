"""Aj-Stream Algorithm 3: more for joiners that lag, within what there is, and back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.errors import ModelError
from foretide.joins.planning.scaling import Joiner, Resources, free_units, lagging, scale
from foretide.joins.settings import ScalingSettings

PLENTY = Resources(cores=100.0, memory=100 * 1024.0, joiners=10)


def test_eq_15_compares_with_the_average_latency():
    seen = [Joiner("a", 3.0, 1.0), Joiner("b", 1.0, 1.0), Joiner("c", 2.0, 1.0)]
    assert [joiner.name for joiner in lagging(seen)] == ["a"]
    assert lagging([Joiner("a", 0.0, 1.0)]) == lagging([]) == []


def test_eq_16_counts_the_shorter_resource():
    seen = [Joiner("a", 0.1, 1.0, units=2.0), Joiner("b", 0.1, 1.0, units=1.5)]
    assert free_units(seen, Resources(10.0, 4 * 1024.0, 5)) == 0.5
    assert free_units(seen, Resources(1.0, 4 * 1024.0, 5)) == 0


def test_eq_17_gives_by_the_rate_above_the_average_up_to_the_cap():
    seen = [Joiner("a", 3.0, 300.0), Joiner("b", 0.5, 150.0), Joiner("c", 0.5, 150.0)]
    assert scale(seen, PLENTY).units == pytest.approx({"a": 0.5})
    assert scale(seen, PLENTY, ScalingSettings(max_units_per_step=0.25)).units == pytest.approx({"a": 0.25})


def test_joiners_with_few_rows_give_back_what_they_can_spare():
    seen = [Joiner("a", 3.0, 300.0, 2.0), Joiner("b", 0.5, 50.0, 2.0, 0.1, 0.1), Joiner("c", 0.5, 50.0, 2.0, 0.7, 0.1)]
    units = scale(seen, PLENTY).units
    assert units["b"] == pytest.approx(-(1 - 3 * 50 / 400))
    assert units["c"] == pytest.approx(-(2 - 2 * 0.7 / 0.8))


def test_never_more_is_asked_for_than_is_free():
    seen = [Joiner("a", 3.0, 300.0), Joiner("b", 0.5, 50.0), Joiner("c", 0.5, 50.0)]
    assert scale(seen, Resources(3.2, 99 * 1024.0, 9)).units["a"] == pytest.approx(0.2)
    answer = scale(seen, Resources(3.0, 99 * 1024.0, 9))
    assert answer.units.get("a", 0.0) == answer.joiners == 0
    assert answer.reason == "a lags, but nothing is left to hand out"


def test_one_more_joiner_only_once_a_machine_offers_no_more():
    settings = ScalingSettings(max_units=2.0)
    small = [Joiner("a", 3.0, 300.0, 1.5), Joiner("b", 0.5, 50.0), Joiner("c", 0.5, 50.0)]
    assert scale(small, PLENTY, settings).units["a"] == pytest.approx(0.5)
    large = [Joiner("a", 3.0, 300.0, 2.0), *small[1:]]
    assert scale(large, PLENTY, settings).joiners == 1
    assert scale(large, Resources(100.0, 1e6, 3), settings).joiners == 0
    assert scale(large, Resources(4.5, 1e6, 9), settings).joiners == 0


def test_joiners_that_are_all_busy_get_a_unit_each():
    seen = [Joiner(name, 1.0, 100.0, cpu=0.95) for name in "abc"]
    answer = scale(seen, PLENTY)
    assert answer.units == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert answer.reason.startswith("a, b, c are busy")


def test_a_joiner_that_lags_with_few_rows_keeps_what_it_has():
    seen = [Joiner("a", 3.0, 50.0, 2.0, 0.1, 0.1), Joiner("b", 0.5, 100.0), Joiner("c", 0.5, 100.0)]
    answer = scale(seen, PLENTY)
    assert answer.units == {}
    assert "no help" in answer.reason


def test_idle_joiners_are_given_back_before_their_units():
    idle = [Joiner(name, 0.1, 10.0, units=1.5, cpu=0.1, memory=0.2) for name in "ab"]
    assert scale(idle, PLENTY).joiners == -1
    last = scale(idle, PLENTY, ScalingSettings(min_joiners=2))
    assert last.joiners == 0
    assert last.units == pytest.approx({"a": -0.5, "b": -0.5})


def test_nothing_changes_in_between():
    answer = scale([Joiner("a", 0.1, 10.0), Joiner("b", 0.1, 12.0)], PLENTY)
    assert (answer.units, answer.joiners) == ({}, 0)
    assert scale([], PLENTY).joiners == 0


shares = st.floats(0.0, 1.0)
joiners = st.lists(
    st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 1e6), st.floats(1.0, 4.0), shares, shares), min_size=1, max_size=8
)


@given(joiners, st.floats(0.0, 40.0), st.integers(1, 10))
def test_whatever_is_measured_resources_are_never_exceeded(measured, cores, most):
    seen = [Joiner(f"j{number}", *figures) for number, figures in enumerate(measured)]
    total = Resources(cores, 1e6, most)
    answer = scale(seen, total)
    more = math.fsum(units for units in answer.units.values() if units > 0) + max(answer.joiners, 0)
    assert more <= free_units(seen, total) + 1e-9
    assert answer.joiners <= max(0, most - len(seen))
    for joiner in seen:
        after = joiner.units + answer.units.get(joiner.name, 0.0)
        assert 1 - 1e-9 <= after <= 4 + 1e-9
        assert answer.units.get(joiner.name, 0.0) <= 1


def test_figures_that_make_no_sense_are_refused():
    with pytest.raises(ModelError, match="joiner 'a': latency is -1"):
        Joiner("a", -1.0, 1.0)
    with pytest.raises(ModelError, match="units is 0"):
        Joiner("a", 1.0, 1.0, units=0.0)
