import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.workloads.randomness import (
    headed_cumulative,
    pick,
    shares_cumulative,
    uniform,
    words,
    zipf_cumulative,
)


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**60), st.integers(0, 50), st.integers(0, 50))
def test_a_row_has_its_words_in_whatever_range_it_is_asked_for(seed, first, skip, count):
    whole = words(seed, "s", first, first + skip + count)
    part = words(seed, "s", first + skip, first + skip + count)
    assert part.tolist() == whole[skip:].tolist()


def test_words_stay_what_they_are():
    assert words(1, "speed", 0, 2).tolist() == [14074143452449907085, 7550343697588533118]


def test_seeds_and_streams_are_independent():
    one = uniform(1, "a", 0, 100_000)
    for other in (uniform(2, "a", 0, 100_000), uniform(1, "b", 0, 100_000)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.01


def test_uniform_numbers_fill_the_unit_interval_evenly():
    numbers = uniform(3, "a", 0, 100_000)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    np.testing.assert_allclose(counts, 10_000, rtol=0.04)


def test_zipf_weighs_ranks_by_their_power():
    weights = np.diff(zipf_cumulative(1000, 1.1), prepend=0.0)
    np.testing.assert_allclose(weights / weights[0], np.arange(1, 1001) ** -1.1)


def test_headed_gives_the_head_its_share_and_the_rest_to_zipf():
    weights = np.diff(headed_cumulative(0.3, 3, 1.0), prepend=0.0)
    np.testing.assert_allclose(weights, [0.3, *(0.7 * np.array([6, 3, 2]) / 11)])
    assert headed_cumulative(0.3, 0, 1.0).tolist() == [1.0]


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(0, 50), st.floats(0, 10))
def test_every_number_below_one_picks_an_entry(head, size, exponent):
    cumulative = headed_cumulative(head, size, exponent)
    picked = pick(cumulative, np.array([0.0, 0.5, 1 - 2**-53]))
    assert ((picked >= 0) & (picked <= size)).all()


@pytest.mark.parametrize(("head", "expected"), [(0.0, False), (1.0, True)])
def test_shares_of_nothing_and_everything_are_exact(head, expected):
    picked = pick(headed_cumulative(head, 10, 1.0), uniform(1, "a", 0, 10_000))
    assert ((picked == 0) == expected).all()


def test_shares_may_have_any_unit():
    assert shares_cumulative(1, 2, 1).tolist() == [0.25, 0.75, 1.0]


def test_distributions_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        zipf_cumulative(10, 1.0)[0] = 0
