"""What is done about a query that hangs, dies, or is to be restarted: values in, values out."""

from dataclasses import replace

import pytest

from foretide.control.actions.registry import Restart
from foretide.errors import BatchTimeoutError
from foretide.runtime.pipeline.supervisor import (
    GiveUp,
    Observation,
    ReplayBatch,
    ReportSlow,
    Revive,
    SupervisorState,
    decide,
)
from foretide.settings.run import RunSettings

BUSY, IDLE = Observation(0.0, 0, busy=True), Observation(0.0, 0)
ENDED = Observation(0.0, 0, active=False, busy=True)
DEAD = Observation(0.0, 0, active=False, error="out of memory")
RESTART = Restart("more tasks", pools={"work": 4})


class Watched:
    """A supervisor's decisions over time."""

    def __init__(self, **settings):
        self.settings, self.state = RunSettings(**settings), SupervisorState()

    def see(self, *moments):
        """What is done at each moment: (observation, last batch, time)."""
        return [self.decide(replace(seen, last_batch=last_batch, now=now)) for seen, last_batch, now in moments]

    def decide(self, seen):
        self.state, action = decide("app", self.settings, self.state, seen)
        return action


def timed(timeout=10.0, tries=3):
    return Watched(batch_timeout=timeout, tries=tries)


def hang(watched, batch, begin):
    """The batch runs into its time-out."""
    return watched.see((BUSY, batch - 1, begin), (BUSY, batch - 1, begin + 0.1), (BUSY, batch - 1, begin + 11))[-1]


# ---- time-outs


def test_a_batch_is_replayed_once_it_has_been_under_way_for_longer_than_the_timeout():
    found = timed().see((BUSY, -1, 100.0), (BUSY, -1, 110.0), (BUSY, -1, 110.1))
    assert found == [None, None, ReplayBatch(10.0)]


def test_time_counts_from_the_batch_and_not_from_the_start():
    found = timed().see((BUSY, 0, 0.0), (BUSY, 0, 9.0), (BUSY, 1, 11.0), (BUSY, 1, 20.0), (BUSY, 1, 21.5))
    assert found == [None, None, None, None, ReplayBatch(10.0)]


def test_a_query_that_waits_for_rows_does_not_expire():
    assert timed().see((BUSY, 3, 0.0), (BUSY, 3, 1.0), (IDLE, 3, 5.0), (IDLE, 3, 500.0)) == [None] * 4


def test_time_starts_again_after_a_pause():
    found = timed().see((BUSY, 3, 0.0), (IDLE, 3, 5.0), (BUSY, 3, 20.0), (BUSY, 3, 30.0), (BUSY, 3, 31.0))
    assert found == [None, None, None, None, ReplayBatch(10.0)]


def test_a_query_that_has_ended_does_not_expire():
    assert timed().see((BUSY, 3, 0.0), (ENDED, 3, 500.0)) == [None, None]


@pytest.mark.parametrize("timeout", [None, 0.0])
def test_without_a_timeout_and_known_batches_nothing_expires_but_a_slow_batch_is_reported_once(timeout):
    found = timed(timeout=timeout).see((BUSY, 0, 0.0), (BUSY, 0, 300.0), (BUSY, 0, 301.0), (BUSY, 0, 1e9))
    assert found == [None, None, ReportSlow(1, 301.0), None]


USUAL = (2.0, 1.0, 1.0, 3.0, 1.0, 8.0)
"""Seconds of the last batches."""


def usual(**settings):
    return Watched(**settings), replace(BUSY, durations=USUAL)


def test_by_default_a_batch_is_slow_after_a_while_and_hung_after_ten_times_the_longest():
    watched, busy = usual()
    found = watched.see((busy, 5, 0.0), (busy, 5, 30.0), (busy, 5, 31.0), (busy, 5, 80.0), (busy, 5, 81.0))
    assert found == [None, None, ReportSlow(6, 31.0), None, ReplayBatch(80.0)]


def test_by_default_the_limit_of_a_batch_doubles_with_each_try_and_then_it_is_given_up():
    watched, busy = usual(tries=3)
    assert watched.see((busy, 5, 0.0), (busy, 5, 81.0))[-1] == ReplayBatch(80.0)
    assert watched.see((busy, 5, 100.0), (busy, 5, 260.0), (busy, 5, 261.0))[1:] == [None, ReplayBatch(160.0)]
    given_up = watched.see((busy, 5, 300.0), (busy, 5, 620.0), (busy, 5, 621.0))[-1]
    assert isinstance(given_up, GiveUp)
    assert (given_up.error.batch, given_up.error.timeout, given_up.error.tries) == (6, 80.0, 3)


def test_by_default_another_batch_starts_from_the_usual_limit():
    watched, busy = usual()
    watched.see((busy, 5, 0.0), (busy, 5, 81.0))
    assert watched.see((busy, 6, 100.0), (busy, 6, 150.0), (busy, 6, 181.0))[-1] == ReplayBatch(80.0)


def test_by_default_a_batch_whose_tasks_end_is_not_hung_however_long_it_takes():
    watched, busy = usual()
    moments = [(replace(busy, tasks_done=at), 5, 70.0 * at) for at in range(10)]
    assert set(watched.see(*moments)) <= {None, ReportSlow(6, 70.0)}


def test_a_timeout_of_the_settings_counts_from_the_beginning_of_the_batch():
    watched = timed(timeout=10.0)
    moments = [(replace(BUSY, tasks_done=at, durations=USUAL), 5, 4.0 * at) for at in range(4)]
    assert watched.see(*moments)[-1] == ReplayBatch(10.0)


def test_with_a_timeout_of_zero_nothing_is_cancelled():
    watched, busy = usual(batch_timeout=0.0)
    assert watched.see((busy, 5, 0.0), (busy, 5, 1e9), (busy, 5, 2e9)) == [None, ReportSlow(6, 1e9), None]


def test_the_last_try_of_a_batch_is_an_error_with_its_figures():
    watched = timed(timeout=2.5, tries=3)
    assert [hang(watched, 7, begin) for begin in (0, 100)] == [ReplayBatch(2.5), ReplayBatch(2.5)]
    given_up = hang(watched, 7, 200)
    assert isinstance(given_up, GiveUp)
    error = given_up.error
    assert isinstance(error, BatchTimeoutError)
    assert (error.pipeline, error.batch, error.timeout, error.tries) == ("app", 7, 2.5, 3)
    assert "batch 7 of 'app' ran past 2.5 s in each of 3 tries" in str(error)


def test_another_batch_has_all_its_tries():
    watched = timed(tries=2)
    assert [hang(watched, batch, 100 * at) for at, batch in enumerate((1, 2, 3, 2))] == [ReplayBatch(10.0)] * 4
    assert isinstance(hang(watched, 2, 400), GiveUp)


def test_with_one_try_the_first_timeout_is_the_last():
    assert isinstance(hang(timed(tries=1), 0, 0), GiveUp)


def test_the_next_try_keeps_the_count_and_starts_the_time_again():
    watched = timed(tries=2)
    assert watched.see((BUSY, 3, 0.0), (BUSY, 3, 1.0), (BUSY, 3, 12.0))[-1] == ReplayBatch(10.0)
    found = watched.see((BUSY, 3, 100.0), (BUSY, 3, 110.0), (BUSY, 3, 111.0))
    assert found[:2] == [None, None]
    assert isinstance(found[2], GiveUp)


# ---- deaths


def test_a_query_that_dies_is_revived_after_twice_the_wait_each_time_and_then_given_up():
    watched = Watched(revive=3)
    assert watched.see(*[(DEAD, 0, float(at)) for at in range(4)]) == [Revive(1.0), Revive(2.0), Revive(4.0), GiveUp()]


def test_the_wait_before_a_revival_is_bounded():
    watched = Watched(revive=20)
    assert watched.see(*[(DEAD, 0, float(at)) for at in range(20)])[-1] == Revive(60.0)


def test_without_revivals_a_dead_query_stays_dead():
    assert Watched().see((DEAD, 5, 0.0)) == [GiveUp()]


@pytest.mark.parametrize(("last_batch", "found"), [(12, Revive(2.0)), (13, Revive(1.0))])
def test_ten_batches_make_a_query_healthy_again(last_batch, found):
    watched = Watched(revive=5)
    assert watched.see((DEAD, 3, 0.0), (DEAD, last_batch, 60.0)) == [Revive(1.0), found]


def test_a_query_whose_cause_of_death_is_removed_is_started_at_once_and_that_counts_as_no_death():
    watched = Watched(revive=1)
    rescued = replace(DEAD, rescued=True)
    assert watched.see(*[(rescued, 0, float(at)) for at in range(5)]) == [Revive()] * 5
    assert watched.see((DEAD, 0, 9.0)) == [Revive(1.0)]


def test_a_query_that_ended_by_itself_is_left_alone():
    assert Watched(revive=3).see((replace(DEAD, error=None), 5, 0.0)) == [None]


# ---- restarts


def test_a_requested_restart_is_made_when_nothing_is_wrong():
    assert Watched().decide(replace(IDLE, restart=RESTART)) == RESTART


def test_a_death_or_a_timeout_comes_before_a_requested_restart():
    assert Watched(revive=1).decide(replace(DEAD, restart=RESTART)) == Revive(1.0)
    wanted = replace(BUSY, restart=RESTART)
    watched = timed()
    watched.see((BUSY, 0, 0.0), (BUSY, 0, 1.0))
    assert watched.see((wanted, 0, 20.0)) == [ReplayBatch(10.0)]


def test_the_time_of_a_batch_starts_again_after_a_restart():
    watched = timed()
    watched.see((BUSY, 0, 0.0), (BUSY, 0, 1.0), (replace(BUSY, restart=RESTART), 0, 9.0))
    assert watched.see((BUSY, 0, 15.0), (BUSY, 0, 24.0), (BUSY, 0, 26.0)) == [None, None, ReplayBatch(10.0)]
