"""Whole steps from samples at any times."""

from hypothesis import given
from hypothesis import strategies as st

from foretide.forecasting.history import LEARNT
from foretide.forecasting.series import TimeSteps, mean_of, resampled

TIMES = st.lists(st.tuples(st.floats(0.0, 9.0), st.floats(0, 1e6)), min_size=1, max_size=60)


def grouped(samples, step):
    """The mean of each step, by grouping all samples at once."""
    steps = {}
    for at, value in samples:
        steps.setdefault(int(at // step), []).append(value)
    whole = range(min(steps), max(steps) + 1)
    return [sum(steps[each]) / len(steps[each]) if each in steps else None for each in whole]


@given(TIMES, st.sampled_from([0.5, 1.0, 3.0]))
def test_steps_in_pieces_are_those_of_the_whole(gaps, step):
    times = [sum(gap for gap, _ in gaps[: place + 1]) for place in range(len(gaps))]
    samples = list(zip(times, (value for _, value in gaps), strict=True))
    expected = grouped(samples, step)
    steps = TimeSteps(step)
    assert [mean_of(each) for at, value in samples for each in steps.add(at, value)] == expected[:-1]
    assert steps.last is None or steps.last == int(times[-1] // step) - 1
    assert [mean_of(each) for each in steps.pass_time(times[-1] + 2 * step)] == expected[-1:]
    assert list(resampled("load", samples, step).values) == expected


def test_a_step_is_whole_when_its_time_is_over_and_late_samples_are_ignored():
    steps = TimeSteps(1.0, close_early=True)
    steps.add(0.9, 4.0)
    assert steps.pass_time(1.2) == []
    assert steps.pass_time(1.3) == [[4.0]]
    assert steps.add(0.95, 9.0) == []
    assert steps.add(3.0, 5.0) == []
    assert steps.add(4.0, 6.0) == [None, None, [5.0]]


def test_a_step_can_be_closed_once_the_next_sample_is_expected_after_its_end():
    steps, patient = TimeSteps(1.0, close_early=True), TimeSteps(1.0)
    for at in (0.1, 0.6, 1.1, 1.6, 2.1):
        before = steps.last
        steps.add(at, at)
        patient.add(at, at)
        closed = steps.pass_time(at)
        assert [mean_of(each) for each in closed] == ([] if at in {0.1, 1.1, 2.1} else [at - 0.25])  # one more is due
        assert steps.last == (before if not closed else int(at))
        assert patient.pass_time(at) == []


def test_a_clock_that_jumps_costs_a_gap_of_bounded_length_and_no_more():
    steps = TimeSteps(1.0, max_gap=600)
    steps.add(0.5, 1.0)
    assert len(steps.add(1e9, 2.0)) == 1 + 600
    assert steps.add(100.0, 3.0) == []  # set back
    assert steps.add(101.0, 4.0) == [[3.0]]
    assert steps.add(float("nan"), 5.0) == []


def test_a_silence_of_years_between_two_samples_is_cut():
    series = resampled("load", [(0.0, 1.0), (1.7e9, 2.0)], 5.0)
    assert len(series.values) == LEARNT + 2
    assert (series.values[0], series.values[-1]) == (1.0, 2.0)
