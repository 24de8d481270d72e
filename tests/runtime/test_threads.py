"""The helper for worker threads: turns, failures, hung turns, and the end."""

import threading
import time

import pytest

from foretide.runtime.threads import Worker, guarded
from helpers import wait_for


def test_the_constructor_starts_nothing_and_stopping_what_never_started_is_harmless():
    before = threading.active_count()
    worker = Worker("w", lambda: None, 0.01)
    assert threading.active_count() == before
    assert worker.stop()
    assert not worker.alive


def test_turns_are_taken_once_per_period_until_it_is_stopped():
    turns = []
    worker = Worker("w", lambda: turns.append(1), 0.01).start()
    wait_for(lambda: len(turns) >= 3)
    assert worker.stop()
    taken = len(turns)
    time.sleep(0.05)
    assert len(turns) == taken


def test_without_a_period_a_turn_is_taken_only_when_woken():
    turn = threading.Event()
    worker = Worker("w", turn.set, None).start()
    assert not turn.wait(0.05)
    worker.wake()
    assert turn.wait(20)
    worker.stop()


def test_a_turn_that_raises_becomes_a_problem_until_one_succeeds(caplog):
    fails, seen = threading.Event(), []
    fails.set()

    def turn():
        if fails.is_set():
            raise OSError("no disk")

    worker = Worker("w", turn, 0.01, what="writing", after_turn=lambda: seen.append((worker.problem, worker.failures)))
    worker.start()
    wait_for(lambda: len(seen) >= 3)
    assert seen[:3] == [("writing failed: OSError: no disk", number) for number in (1, 2, 3)]
    fails.clear()
    wait_for(lambda: seen[-1] == (None, 0))
    worker.stop()
    assert "writing failed; the query runs on" in caplog.text


def test_the_end_is_called_in_the_thread_even_if_a_turn_stopped_it():
    ended = []

    def turn():
        worker.stop()

    worker = Worker("w", turn, 0.01, close=lambda: ended.append(threading.current_thread().name))
    worker.start()
    assert worker.join(20)
    assert ended == ["w"]


def test_a_turn_that_hangs_is_abandoned_and_a_new_thread_takes_over():
    hang, hung, acted = threading.Event(), threading.Event(), []

    def turn():
        if not hung.is_set():
            hung.set()
            hang.wait(30)
        acted.append(worker.abandoned)

    worker = Worker("w", turn, 0.01, what="a turn", hung_after_seconds=0.05).start()
    assert not worker.check()
    assert hung.wait(20)
    wait_for(worker.check)
    assert worker.replaced == 1
    wait_for(lambda: acted)
    assert acted[0] is False
    hang.set()
    wait_for(lambda: True in acted)
    assert worker.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_replaced_and_a_stopped_one_is_not():
    deaths = [SystemExit()]
    alive = threading.Event()

    def turn():
        if deaths:
            raise deaths.pop()
        alive.set()

    worker = Worker("w", turn, 0.01).start()
    wait_for(lambda: not worker.alive)
    assert worker.check()
    assert alive.wait(20)
    worker.stop()
    assert not worker.check()


def test_a_guarded_call_returns_its_error_as_a_sentence():
    assert guarded(lambda: None, "it") is None
    assert guarded(lambda: 1 / 0, "it") == "it failed: ZeroDivisionError: division by zero"
