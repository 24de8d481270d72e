"""Whole steps out of what comes at any times."""

import math

from hypothesis import given
from hypothesis import strategies as st

from foretide.forecasting.series import on_a_grid
from foretide.metrics.metric import Sample
from foretide.runtime.forecasts.load_steps import LONGEST_GAP, TimeSteps
from foretide.runtime.forecasts.worker_frames import Frames

TIMES = st.lists(st.tuples(st.floats(0.0, 9.0), st.floats(0, 1e6)), min_size=1, max_size=60)


@given(TIMES, st.sampled_from([0.5, 1.0, 3.0]))
def test_steps_in_pieces_are_those_of_the_whole(gaps, step):
    times = [sum(gap for gap, _ in gaps[: place + 1]) for place in range(len(gaps))]
    measured = list(zip(times, (value for _, value in gaps), strict=True))
    grid = TimeSteps("load", step)
    found = [value for at, load in measured for value in grid.add(at, load)]
    assert found == list(on_a_grid("load", measured, step).values[:-1])
    assert grid.last is None or grid.last == int(times[-1] // step) - 1
    assert grid.pass_time(times[-1] + 2 * step) == [on_a_grid("load", measured, step).values[-1]]


def test_a_step_is_over_when_its_time_is_and_late_figures_are_left_out():
    grid = TimeSteps("load", 1.0)
    grid.add(0.9, 4.0)
    assert grid.pass_time(1.2) == []
    assert grid.pass_time(1.3) == [4.0]
    assert grid.add(0.95, 9.0) == []
    assert grid.add(3.0, 5.0) == []
    assert grid.add(4.0, 6.0) == [None, None, 5.0]


def test_a_step_is_over_once_the_next_figure_is_expected_behind_it():
    grid = TimeSteps("load", 1.0)
    for at in (0.1, 0.6, 1.1, 1.6, 2.1):
        grid.add(at, at)
        before = grid.last
        closed = grid.pass_time(at)
        assert closed == ([] if at in {0.1, 1.1, 2.1} else [at - 0.25])  # one more is expected in its step
        assert grid.last == (before if not closed else int(at))


def test_a_clock_that_jumps_costs_a_gap_of_bounded_length_and_no_more():
    grid = TimeSteps("load", 1.0)
    grid.add(0.5, 1.0)
    assert len(grid.add(1e9, 2.0)) == 1 + LONGEST_GAP
    assert grid.add(100.0, 3.0) == []  # set back
    assert grid.add(101.0, 4.0) == [3.0]


def worker(at, value, metric="worker_slowness", name="1"):
    return Sample(metric, name, at, value)


def test_a_frame_holds_all_of_a_step_and_silence_is_a_gap():
    frames = Frames(5.0, keep=100)
    assert frames.add(worker(1.0, 1.5)) == []
    assert frames.add(Sample("machine_cpu_busy_percent", "host", 4.0, 80.0)) == []
    assert frames.add(Sample("machine_cpu_busy_percent", "host/core1", 4.0, 99.0)) == []
    for sample in (worker(4.0, math.nan), worker(4.0, -1.0), Sample("latency_p99_ms", "q", 4.0, 7.0)):
        assert frames.add(sample) == []
    first, gap = frames.add(worker(11.0, 2.0))
    assert gap is None
    assert first.workers == {"1": {"worker_slowness": 1.5}}
    assert first.machine == {"machine_cpu_busy_percent of host": 80.0}
    assert frames.last == 1
    assert frames.pass_time(16.0) == []
    (second,) = frames.pass_time(16.5)
    assert second.workers == {"1": {"worker_slowness": 2.0}}
    assert frames.add(worker(14.9, 9.0)) == []
    assert frames.add(worker(22.0, 3.0)) == [None]
    assert len(frames.whole) == 4


def test_frames_survive_a_clock_that_jumps():
    frames = Frames(5.0, keep=1000)
    frames.add(worker(1.0, 1.0))
    assert len(frames.add(worker(1e9, 1.0))) == 61
    assert len(frames.add(worker(5.0, 1.0))) == 1
    assert len(frames.add(worker(10.0, 1.0))) == 1
