"""The variation of arrivals, told by tasks with queues of their own that count a tuple when they take it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretide.metrics.arrival_variation import MEMORY_SECONDS, ArrivalVariation
from foretide.metrics.task_meters import Work
from queues import gaps_of, taken_at

PERIOD, RATE = 0.5, 200.0


def works(taken, work, period):
    """What a task counts in each period: the tuples that it takes and the gap before each, and the work on them."""
    found, last = [], 0
    for end in np.arange(period, taken[-1], period):
        place = int(np.searchsorted(taken, end))
        new = slice(last, place)
        gaps, done = np.diff(taken[max(0, last - 1) : place]), work[new]
        if last and place > last:
            sums = {"seconds": float(done.sum()), "squares": float((done**2).sum())}
            found.append(
                Work(place - last, timed=place - last, gaps=gaps.size, gap_seconds=float(gaps.sum()),
                     gap_squares=float((gaps**2).sum()), **sums)
            )  # fmt: skip
        else:
            found.append(Work())
        last = place
    return found


def told(arrivals, service, tasks, busy, *, takes_ahead=False, seconds=240):
    """The mean of what is told twice a second after the first reports, for tasks that are so busy."""
    rng = np.random.default_rng(7)
    count = round(RATE * seconds)
    came = np.cumsum(gaps_of(arrivals, count, rng)) / RATE
    work = gaps_of(service, count, rng) * busy * tasks / RATE
    task = rng.integers(0, tasks, count)
    queues = [(came[task == each], work[task == each]) for each in range(tasks)]
    counted = [works(own if takes_ahead else taken_at(own, took), took, PERIOD) for own, took in queues]
    variation, found = ArrivalVariation(takes_ahead), []
    for reports in zip(*counted, strict=False):
        variation.add({("1", place): work for place, work in enumerate(reports)}, PERIOD)
        found.append(variation.scv)
    return float(np.mean(found[80:]))


@pytest.mark.parametrize("tasks", [1, 2, 4, 8])
@pytest.mark.parametrize("service", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("busy", [0.1, 0.5, 0.7])
def test_poisson_arrivals_are_told_as_such_however_busy_the_tasks_are(tasks, service, busy):
    assert told(1.0, service, tasks, busy) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize(("arrivals", "busy"), [(0.0, 0.3), (0.25, 0.5), (4.0, 0.5)])
def test_other_arrivals_are_told_nearly(arrivals, busy):
    assert told(arrivals, 1.0, 2, busy) == pytest.approx(arrivals, rel=0.25, abs=0.25)


def test_tasks_that_take_ahead_show_the_gaps_of_arrivals_themselves():
    assert told(1.0, 0.0, 4, 0.7, takes_ahead=True) == pytest.approx(1.0, abs=0.2)


def test_saturated_tasks_tell_something_finite():
    variation = ArrivalVariation()
    full = Work(200, timed=200, seconds=1.0, squares=0.01, gaps=200, gap_seconds=1.0, gap_squares=0.01)
    variation.add({("1", 0): full}, PERIOD)
    assert 0 <= variation.scv < 10


def test_what_is_older_fades_and_few_arrivals_tell_nothing():
    variation = ArrivalVariation(takes_ahead=True)
    variation.add({("1", 0): Work(19, gaps=19, gap_seconds=1.0, gap_squares=1.0)}, PERIOD)
    assert variation.scv is None
    even = Work(1000, gaps=1000, gap_seconds=1.0, gap_squares=0.001)
    variation.add({("1", 0): even}, MEMORY_SECONDS * 20)
    assert variation.scv == pytest.approx(0.0, abs=0.01)
    variation.add({}, MEMORY_SECONDS * 20)
    assert variation.scv is None


@given(st.floats(0, 9), st.integers(30, 1000))
def test_tasks_of_which_no_work_is_known_tell_what_they_show(scv, gaps):
    shown = Work(gaps, gaps=gaps, gap_seconds=1.0, gap_squares=(1 + scv) / gaps)
    variation = ArrivalVariation()
    variation.add({("1", 0): shown}, PERIOD)
    assert variation.scv == pytest.approx(scv * (1 + (1 + scv) / gaps))
