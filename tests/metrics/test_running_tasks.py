"""Who holds up a batch: a slow worker does, a worker with a big task does not, and on a slow machine nobody does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.metrics.batch import TaskRun
from foretide.metrics.running_tasks import RunningBatch, TaskAttempt, even_sources

BAD = 2.5
"""The ratio from which `bypass` takes one of two workers out at once."""

paces = st.floats(0.05, 5.0)
sizes = st.lists(st.floats(0.2, 20.0), min_size=2, max_size=8)


def done(task, worker, seconds, rows=1000, size=None, age=None):
    return TaskAttempt(0, task, worker, True, seconds if age is None else age, seconds, rows, size)


def running(task, worker, seconds, rows=0, size=None, stage=0):
    return TaskAttempt(stage, task, worker, False, seconds, seconds, rows, size)


def slowness(*attempts, usual=1.0, heartbeat=2.0):
    return RunningBatch(attempts, usual, heartbeat).slowness()


def test_a_worker_whose_task_takes_far_longer_than_the_same_work_elsewhere_is_slow():
    found = slowness(done(0, "1", 0.8, size=100), running(1, "0", 4.0, size=100))
    assert found["0"] == pytest.approx(4.2)
    assert found["1"] == 1.0


def test_a_task_with_ten_times_the_bytes_may_take_ten_times_as_long():
    assert slowness(done(0, "1", 0.8, size=100), running(1, "0", 8.0, size=1000))["0"] < 1.1


def test_where_sizes_are_not_known_the_rows_that_were_read_count_and_what_is_older_than_a_heartbeat():
    assert slowness(done(0, "1", 1.0, rows=1000), running(1, "0", 9.0, rows=8000))["0"] < BAD
    assert slowness(done(0, "1", 1.0, rows=1000), running(1, "0", 9.0, rows=300))["0"] > BAD
    assert slowness(done(0, "1", 0.5, rows=1000), running(1, "0", 2.0, rows=0))["0"] <= 1.0  # no heartbeat since


def test_a_small_task_is_not_slow_before_it_has_taken_as_long_as_whole_tasks_elsewhere():
    assert slowness(done(0, "1", 2.0, size=1000), running(1, "0", 2.0, size=10))["0"] == 1.0


def test_while_nobody_has_ended_a_task_the_rows_read_so_far_are_compared():
    slow = slowness(running(0, "1", 9.0, rows=9000), running(1, "0", 9.0, rows=300))
    assert slow["0"] > BAD > slow["1"]
    assert max(slowness(running(0, "1", 9.0, rows=9000), running(1, "0", 9.0, rows=8000)).values()) < BAD
    young = slowness(running(0, "1", 3.0, rows=9000), running(1, "0", 3.0, rows=0))
    assert young == {"0": 1.0, "1": 1.0}


def test_tasks_that_began_later_on_the_same_worker_and_have_ended_show_that_it_is_well():
    others = [done(task, "1", 1.0, size=100) for task in range(4)]
    heavy = running(9, "0", 10.0, size=100)
    later = [done(task, "0", 1.0, size=100, age=5.0) for task in (4, 5, 6)]
    before = [done(task, "0", 1.0, size=100, age=15.0) for task in (4, 5, 6)]
    assert slowness(*others, heavy, *later)["0"] == pytest.approx(1.0)
    assert slowness(*others, heavy, *before)["0"] > BAD


def test_all_cores_of_a_slow_worker_are_stuck_and_one_task_that_ended_before_does_not_hide_it():
    others = [done(task, "1", 1.0, size=100) for task in range(4)]
    stuck = [running(task, "0", 8.0, size=100) for task in (4, 5, 6)]
    assert slowness(*others, *stuck, done(7, "0", 1.0, size=100, age=7.5))["0"] > BAD


def test_a_task_of_milliseconds_that_takes_a_little_longer_is_nothing():
    assert slowness(done(0, "1", 0.005, size=1), running(1, "0", 0.2, size=1))["0"] < BAD


def test_a_worker_alone_in_its_stage_cannot_be_compared():
    assert slowness(done(0, "0", 0.1, size=1), running(1, "0", 60.0, size=1)) == {"0": 1.0}


def test_stages_are_judged_on_their_own_and_the_worst_counts():
    light, heavy = done(0, "1", 0.1, size=10), replace(done(0, "1", 9.0, size=10), stage=1)
    well = running(1, "0", 9.0, size=10, stage=1)
    assert slowness(light, heavy, well)["0"] == pytest.approx(1.0)
    assert slowness(light, heavy, well, running(1, "0", 9.0, size=10))["0"] > BAD


def test_every_worker_of_a_stage_has_a_sample():
    batch = RunningBatch((done(0, "1", 1.0, size=1), running(1, "0", 9.0, size=1)), 1.0, 2.0)
    samples = batch.samples(5.0)
    assert [(each.metric, each.subject, each.at) for each in samples] == [
        ("worker_running_slowness", "0", 5.0),
        ("worker_running_slowness", "1", 5.0),
    ]


@given(sizes=sizes, pace=paces, workers=st.integers(2, 4), noise=st.floats(1.0, 1.5))
def test_however_big_tasks_are_nobody_is_slow_where_all_work_at_one_pace(sizes, pace, workers, noise):
    """The last one of each worker still runs: it has taken at most the time that its size takes."""
    attempts = []
    for task, size in enumerate(sizes):
        worker, seconds = str(task % workers), size * pace * (noise if task % 2 else 1.0)
        runs = task >= len(sizes) - workers
        made = running if runs else done
        attempts.append(made(task, worker, seconds, rows=int(size * 100), size=size))
    assert max(slowness(*attempts, usual=max(sizes) * pace).values()) < BAD


@given(sizes=sizes, pace=st.floats(0.2, 5.0), factor=st.floats(4.0, 50.0))
def test_a_worker_that_becomes_slow_is_found_once_its_task_is_overdue(sizes, pace, factor):
    """All but the last one have ended elsewhere, at one pace; the last has taken `factor` times the longest time."""
    ended = [done(task, "1", size * pace, size=size) for task, size in enumerate(sizes[:-1])]
    stuck = running(99, "0", factor * max(sizes) * pace, size=sizes[-1])
    longest = max(sizes) * pace
    assert slowness(*ended, stuck)["0"] >= (factor * longest + 0.2) / (longest + 0.2) * 0.999


@given(sizes=sizes, pace=paces, noise=st.floats(1.0, 100.0))
def test_a_machine_that_makes_all_slow_in_the_same_way_makes_nobody_slow(sizes, pace, noise):
    calm = [running(task, str(task % 2), size * pace, rows=int(100 * size)) for task, size in enumerate(sizes)]
    noisy = [replace(each, seconds=each.seconds * noise, age=each.age * noise) for each in calm]
    assert max(slowness(*noisy, usual=0.1).values()) < BAD


def spout_task(task, rows, operator="lines"):
    return TaskRun(
        operator, task, None, "parse", False, "0", "h", 0, 10, 10, 0, 0, 0, 0, rows, rows, 0, 0, 0
    )  # fmt: skip


def test_sources_are_even_if_their_tasks_read_about_the_same_rows_in_every_batch():
    even = [spout_task(0, 1000), spout_task(1, 1100)]
    assert even_sources([even, even], ["lines"])
    assert not even_sources([even, [spout_task(0, 1000), spout_task(1, 4000)]], ["lines"])
    assert even_sources([[spout_task(0, 10), spout_task(1, 99, "parse")]], ["lines"])
