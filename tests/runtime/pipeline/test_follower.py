"""Following and supervising a query, with Spark played: what is published, in which order, and how it ends."""

import threading
from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import pytest

from foretide.control.actions.registry import Restart
from foretide.control_folder.folder import ControlFolder
from foretide.errors import ActionError, FeedbackGrowthError, RestartFailedError
from foretide.metrics.batch import BatchReport, EdgeFlow, SourceRange
from foretide.runtime.pipeline.follower import Follower
from foretide.runtime.pipeline.supervisor import Supervisor
from foretide.settings.run import RunSettings
from foretide.spark.progress.reader import QueryState
from foretide.status.pipelines import list_running
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import All
from foretide.topology.sources import Rate
from helpers import wait_for

TOPOLOGY = Topology("app", [Spout("read", Rate(1))], [])


def report(batch):
    return BatchReport(batch, float(batch), 0.1, 10, None, {})


class Handle:
    """Spark's query."""

    def __init__(self):
        self.isActive, self.busy, self.error, self.last_batch = True, False, None, -1

    def stop(self):
        self.isActive = False

    def die(self, error):
        self.error = RuntimeError(error)
        self.isActive = False

    def exception(self):
        return self.error


class Reader:
    """Reports what the test puts into `finished`, one batch per call."""

    def __init__(self, handle):
        self.handle, self.finished, self.unavailable, self.closed = handle, deque(), None, False

    def state(self):
        handle = self.handle
        return QueryState(handle.isActive, handle.busy, str(handle.error) if handle.error else None, handle.last_batch)

    def prepare(self):
        pass

    def reports(self):
        return [self.finished.popleft()] if self.finished else []

    @property
    def waiting(self):
        return bool(self.finished)

    def close(self):
        self.closed = True


class Played:
    """A query that the test plays. `broken` keeps it from being started again."""

    tasks_stay, problem = False, None

    def __init__(self, **settings):
        self.topology, self.settings = TOPOLOGY, RunSettings(monitoring=None, **settings)
        self.started, self.restarts, self.changes, self.broken, self.fits = 0.0, 0, [], False, True

    def start(self):
        self.handle = Handle()
        self.reader = Reader(self.handle)

    def start_again(self):
        if self.broken:
            raise RestartFailedError("app", "no checkpoint")
        self.reader.close()
        self.start()
        self.restarts += 1

    def obstacle(self, restart):
        return None if self.fits else "there is no edge 'work'"

    def change(self, restart):
        self.changes.append(restart)

    def tasks_done(self):
        return 0


class Seen:
    """A listener that keeps what it sees."""

    def __init__(self):
        self.batches = []

    def see(self, report, failures):
        self.batches.append(report.batch)


class Guard:
    """Finds that the feedback grows in one batch."""

    def __init__(self, batch=None):
        self.batch = batch

    def see(self, report, failures):
        if report.batch == self.batch:
            raise FeedbackGrowthError("app", "a -> b", 2.0, 5, 100)


@pytest.fixture
def follow(tmp_path):
    """Follows a played query, supervised unless said otherwise."""
    followers = []

    def make(guard=None, *, supervised=True, **settings):
        query = Played(**settings)
        follower = Follower(TOPOLOGY, ControlFolder(str(tmp_path)), query, None)
        followers.append(follower)
        if supervised:
            follower.supervisor = Supervisor(query, follower, guard or Guard())
            follower.subscribe(follower.supervisor)
        seen = Seen()
        follower.subscribe(seen)
        follower.start()
        return SimpleNamespace(follower=follower, query=query, seen=seen, supervisor=follower.supervisor)

    yield make
    for follower in followers:
        follower.query.handle.stop()
        assert follower.join(20)


@pytest.mark.parametrize(("lasted", "pause"), [(0.1, 0.1), (1.0, 0.2), (60.0, 0.5)])
def test_the_driver_is_asked_less_often_where_batches_take_long(follow, lasted, pause):
    made = follow()
    made.query.reader.finished.extend(replace(report(batch), duration=lasted) for batch in range(3))
    wait_for(lambda: made.seen.batches == [0, 1, 2])
    assert made.follower._worker.period_seconds == pytest.approx(pause)


def test_every_batch_is_published_once_in_order_and_a_listener_that_fails_harms_no_other(follow, caplog):
    made = follow()
    made.follower._listeners.insert(0, SimpleNamespace(see=lambda *_: 1 / 0))
    made.query.reader.finished.extend(report(batch) for batch in range(3))
    wait_for(lambda: made.seen.batches == [0, 1, 2])
    assert made.follower.last_batch == 2
    assert "a listener of 'app' failed; the query runs on" in caplog.text


def test_stop_reports_what_finished_and_then_makes_the_calls_at_the_end_the_last_one_first(follow):
    made, calls = follow(), []
    made.follower.at_end(lambda: calls.append(("first", list(made.seen.batches))))
    made.follower.at_end(lambda: 1 / 0)
    made.follower.at_end(lambda: calls.append(("last", list(made.seen.batches))))
    assert [running.name for running in list_running()] == ["app"]
    made.query.reader.finished.extend(report(batch) for batch in range(3))
    made.follower.stop()
    assert calls == [("last", [0, 1, 2]), ("first", [0, 1, 2])]
    assert made.query.reader.closed
    assert not made.follower.running
    assert list_running() == []


def test_a_stop_that_another_terminal_requests_is_obeyed(follow, tmp_path):
    made = follow()
    ControlFolder(str(tmp_path)).orders.request_stop()
    assert made.follower.join(20)
    assert not made.query.handle.isActive


def test_a_query_that_does_not_answer_any_more_is_not_followed_for_ever(follow):
    made, ended = follow(), threading.Event()
    made.follower.at_end(ended.set)
    del made.query.handle.isActive
    assert made.follower.join(20)
    assert ended.is_set()
    made.query.handle.isActive = False


def test_metrics_that_cannot_be_read_are_one_failure_of_the_audit(follow):
    made = follow()
    made.query.reader.unavailable = "timed out"
    wait_for(lambda: made.follower.audit_log.failures)
    made.follower.stop()
    assert [failure.kind for failure in made.follower.audit_log.failures] == ["audit-unavailable"]


def test_batches_that_were_not_reported_or_not_audited_are_told_and_following_goes_on(follow):
    made = follow()
    made.query.reader.finished.extend([report(0), report(7), replace(report(8), unaudited=True), report(9)])
    wait_for(lambda: made.seen.batches == [0, 7, 8, 9])
    told = [(failure.kind, failure.batch) for failure in made.follower.audit_log.failures]
    assert told == [("batches-unreported", 1), ("batches-unaudited", 8)]
    assert [each.unreported for each in made.follower.reports] == [0, 6, 0, 0]


def test_after_a_restart_what_the_first_edges_should_get_is_worked_out_anew(follow):
    """A pool of 2 that each row is copied to becomes one of 3: no batch differs, neither before nor after."""

    def copied(batch, pool):
        source = SourceRange(10, spout="read", rows=10)
        return replace(report(batch), edges={"copy": EdgeFlow(10 * pool, 10 * pool)}, sources=(source,))

    def topology(pool):
        return Topology("app", TOPOLOGY.spouts, [Bolt("copy", lambda frame: frame, [From("read", All())], pool=pool)])

    made = follow()
    made.query.topology, made.query.started = topology(2), 1.0
    made.query.reader.finished.append(copied(0, 2))
    wait_for(lambda: made.seen.batches == [0])
    made.query.topology = topology(3)  # as a restart does, before the last batches are reported
    made.query.reader.finished.append(copied(1, 2))
    wait_for(lambda: made.seen.batches == [0, 1])
    made.query.started = 2.0
    made.query.reader.finished.append(copied(4, 3))  # a repartition of the state has taken batches 2 and 3
    wait_for(lambda: made.seen.batches == [0, 1, 4])
    assert list(made.follower.audit_log.failures) == []


def test_a_dead_query_is_started_again_after_all_it_committed_was_reported(follow):
    made = follow(revive=1)
    made.query.reader.finished.extend(report(batch) for batch in range(3))
    made.query.handle.die("out of memory")
    wait_for(lambda: made.query.restarts == 1)
    assert made.seen.batches == [0, 1, 2]
    assert made.follower.running


def test_a_batch_that_hangs_is_cancelled_and_the_batches_of_the_next_try_are_published(follow):
    made = follow(batch_timeout=0.2)
    hung = made.query.handle
    hung.busy = True
    wait_for(lambda: made.query.restarts == 1)
    assert not hung.isActive
    [alarm] = made.follower.audit_log.failures
    assert (alarm.kind, alarm.batch) == ("batch-slow", 0)
    assert alarm.message == "batch 0 took longer than 0.2 s; it is cancelled and replayed"
    made.query.reader.finished.extend(report(batch) for batch in range(3))
    wait_for(lambda: made.seen.batches == [0, 1, 2])
    assert made.query.restarts == 1


def test_a_pause_between_two_batches_that_nobody_saw_is_not_waited_for(follow):
    made = follow(supervised=False)
    made.query.handle.busy = True
    waiting = threading.Thread(target=made.follower.await_pause, args=(600.0,), kwargs={"or_end": True})
    waiting.start()
    made.query.handle.last_batch += 1
    waiting.join(60)
    assert not waiting.is_alive()


def test_a_query_that_may_not_be_revived_ends_by_itself(follow):
    made = follow()
    made.query.handle.die("out of memory")
    assert made.follower.join(20)
    assert made.follower.failure is None
    assert made.query.restarts == 0


def test_a_query_whose_cause_of_death_was_removed_is_started_at_once(follow):
    made, messages = follow(), []
    made.follower.on_death(lambda message: bool(messages.append(message)))
    made.follower.on_death(lambda message: "hard end" in message)
    made.query.handle.die("past the hard end")
    wait_for(lambda: made.query.restarts == 1)
    assert messages == ["past the hard end"]


def test_a_requested_restart_changes_the_query_and_starts_it_again(follow):
    made, restart = follow(), Restart("more tasks", pools={"work": 4})
    made.supervisor.request_restart(restart)
    wait_for(lambda: made.query.restarts == 1)
    assert made.query.changes == [restart]


def test_a_restart_that_does_not_fit_is_refused_and_stops_nothing(follow):
    made, restart = follow(), Restart("more tasks", pools={"work": 4})
    made.query.fits = False
    for _ in range(2):
        with pytest.raises(ActionError, match="no edge 'work'; the query runs on"):
            made.supervisor.request_restart(restart)
    assert [failure.kind for failure in made.follower.audit_log.failures] == ["restart-refused"]
    made.query.reader.finished.append(report(0))
    wait_for(lambda: made.seen.batches == [0])
    assert (made.query.restarts, made.query.changes) == (0, [])


def test_a_change_that_fails_is_reported_and_the_query_goes_on_as_it_was(follow):
    made = follow()
    made.query.change = lambda restart: 1 / 0
    made.supervisor.request_restart(Restart("more tasks", pools={"work": 4}))
    wait_for(lambda: made.query.restarts == 1)
    assert [failure.kind for failure in made.follower.audit_log.failures] == ["restart-incomplete"]


def test_a_query_that_cannot_be_started_again_is_given_up(follow):
    made = follow()
    made.query.broken = True
    made.supervisor.request_restart(Restart("more tasks", pools={"work": 4}))
    assert made.follower.join(20)
    assert isinstance(made.follower.failure, RestartFailedError)


def test_a_feedback_loop_that_keeps_growing_ends_the_query(follow):
    made = follow(Guard(batch=1))
    made.query.reader.finished.extend(report(batch) for batch in range(2))
    assert made.follower.join(20)
    assert isinstance(made.follower.failure, FeedbackGrowthError)
    assert not made.query.handle.isActive


def test_a_start_that_fails_leaves_no_thread(tmp_path):
    query = Played()
    query.start = lambda: 1 / 0
    follower = Follower(TOPOLOGY, ControlFolder(str(tmp_path)), query, None)
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError):
        follower.start()
    assert set(threading.enumerate()) == before
    assert list_running() == []


def test_a_query_runs_on_though_no_other_process_can_find_it(follow, monkeypatch, caplog):
    monkeypatch.setenv("FORETIDE_HOME", "/dev/null/nowhere")  # cannot be written, by root either
    made = follow()
    made.query.reader.finished.append(report(0))
    wait_for(lambda: made.follower.last_batch == 0)
    assert "announcing 'app' to other processes failed; the query runs on" in caplog.text
    made.follower.stop()
    assert not made.query.handle.isActive
