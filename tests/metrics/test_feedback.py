import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.metrics.audit import LoopGain


def run(step, batches, fresh=100, patience=10):
    """When the loop was first called growing, if ever. `step` gives what comes back of what entered a batch before."""
    loop, returned = LoopGain(patience), 0
    for batch in range(batches):
        entered = returned + fresh
        loop.see(returned, entered)
        if loop.growing:
            return batch
        returned = step(entered)
    return None


def rounds(count):
    """Every tuple comes back so many times and then leaves."""
    inside = [0] * count

    def step(entered):
        fresh = entered - sum(inside)
        inside.insert(0, fresh)
        inside.pop()
        return sum(inside)

    return step


def test_a_loop_that_returns_four_fifths_is_never_growing_not_even_while_it_fills_up():
    assert run(lambda entered: int(0.8 * entered), 300) is None


@pytest.mark.parametrize("gain", [1.0, 1.2])
def test_a_loop_that_returns_all_or_more_is_growing_as_soon_as_patience_ends(gain):
    assert run(lambda entered: int(gain * entered), 300) == 10


def test_the_gain_is_what_came_back_for_each_that_had_entered():
    loop = LoopGain(patience=2)
    for returned, entered in [(0, 100), (80, 180), (144, 244)]:
        assert loop.gain is None
        loop.see(returned, entered)
    assert loop.gain == pytest.approx(0.8)


def test_only_the_last_batches_count():
    loop = LoopGain(patience=2)
    for returned, entered in [(0, 1000), (0, 100), (100, 200), (200, 300)]:
        loop.see(returned, entered)
    assert loop.gain == pytest.approx(1.0)


@pytest.mark.parametrize("count", [1, 5, 9])
def test_a_loop_of_fewer_rounds_than_patience_is_not_growing(count):
    assert run(rounds(count), 100) is None


def test_a_loop_of_as_many_rounds_as_patience_needs_more_of_it():
    assert run(rounds(10), 100) == 10
    assert run(rounds(10), 100, patience=11) is None


def test_tuples_that_circle_for_ever_without_becoming_more_are_not_growing():
    loop = LoopGain(patience=5)
    for _ in range(50):
        loop.see(100, 100)
    assert loop.gain == 1.0
    assert not loop.growing


def test_batches_without_tuples_do_not_count():
    loop = LoopGain(patience=2)
    for _ in range(20):
        loop.see(0, 0)
    assert loop.gain is None


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=30, max_size=60), st.integers(0, 95))
def test_no_load_makes_a_loop_that_loses_tuples_look_as_if_it_grew(fresh, percent):
    loop, returned = LoopGain(patience=10), 0
    for new in fresh:
        loop.see(returned, returned + new)
        assert not loop.growing
        returned = (returned + new) * percent // 100
