import pytest

from foretide.errors import BatchTimeoutError
from foretide.runtime.pipeline.batch_timeout import BatchClock
from foretide.spark.progress.reader import QueryState

BUSY = QueryState(active=True, busy=True, error=None)
IDLE = QueryState(active=True, busy=False, error=None)
ENDED = QueryState(active=False, busy=True, error=None)


def clock(timeout=10.0, tries=3):
    return BatchClock(timeout, tries, "app")


def watch(watched, *moments):
    """What the clock says at each moment: (state, last batch, time)."""
    return [watched.expired(state, last_batch, now) for state, last_batch, now in moments]


def test_a_batch_expires_once_it_has_been_under_way_for_longer_than_the_timeout():
    assert watch(clock(), (BUSY, -1, 100.0), (BUSY, -1, 110.0), (BUSY, -1, 110.1)) == [False, False, True]


def test_time_counts_from_the_batch_and_not_from_the_start():
    told = watch(clock(), (BUSY, 0, 0.0), (BUSY, 0, 9.0), (BUSY, 1, 11.0), (BUSY, 1, 20.0), (BUSY, 1, 21.5))
    assert told == [False, False, False, False, True]


def test_a_query_that_waits_for_rows_does_not_expire():
    assert watch(clock(), (BUSY, 3, 0.0), (BUSY, 3, 1.0), (IDLE, 3, 5.0), (IDLE, 3, 500.0)) == [False] * 4


def test_time_begins_anew_after_a_pause():
    told = watch(clock(), (BUSY, 3, 0.0), (IDLE, 3, 5.0), (BUSY, 3, 20.0), (BUSY, 3, 30.0), (BUSY, 3, 31.0))
    assert told == [False, False, False, False, True]


def test_a_query_that_has_ended_does_not_expire():
    assert watch(clock(), (BUSY, 3, 0.0), (ENDED, 3, 500.0)) == [False, False]


def test_without_a_timeout_nothing_expires():
    assert watch(clock(timeout=None), (BUSY, 0, 0.0), (BUSY, 0, 1e9)) == [False, False]


def test_the_last_try_of_a_batch_is_an_error_with_its_figures():
    watched = clock(timeout=2.5, tries=3)
    watched.count_try(7)
    watched.count_try(7)
    with pytest.raises(BatchTimeoutError) as raised:
        watched.count_try(7)
    error = raised.value
    assert (error.pipeline, error.batch, error.timeout, error.tries) == ("app", 7, 2.5, 3)
    assert "batch 7 of 'app' ran past 2.5 s in each of 3 tries" in str(error)


def test_another_batch_has_all_its_tries():
    watched = clock(tries=2)
    for batch in (1, 2, 3, 2):
        watched.count_try(batch)
    with pytest.raises(BatchTimeoutError):
        watched.count_try(2)


def test_with_one_try_the_first_timeout_is_the_last():
    with pytest.raises(BatchTimeoutError):
        clock(tries=1).count_try(0)


def test_the_clock_of_the_next_try_keeps_the_count_and_starts_the_time_anew():
    first = clock(tries=2)
    watch(first, (BUSY, 3, 0.0), (BUSY, 3, 1.0))
    first.count_try(4)
    second = first.again()
    assert watch(second, (BUSY, 3, 100.0), (BUSY, 3, 110.0), (BUSY, 3, 111.0)) == [False, False, True]
    with pytest.raises(BatchTimeoutError):
        second.count_try(4)
