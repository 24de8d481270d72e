"""The writer beside a pipeline: it never waits, never fails, and says what is wrong. Stores and servers are real."""

import math
import shutil
import sqlite3
import threading
from contextlib import ExitStack, closing
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event

from foretide.control.history import RecordedWorld
from foretide.control.world.setup import Setup
from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.store.backlog import Backlog
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord
from foretide.store.upkeep import WriterSettings
from foretide.store.writer import StoreWriter
from helpers import wait_for

QUICK = WriterSettings(first_pause=0.05, max_pause=0.2)
SETUP = RecordedWorld(1.0, Setup("p", ()))
ALARM = AlarmRecord(10.0, "store", "high", "", "the disk is full", "monitor")


class Clock:
    """Time that a test moves by hand."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def sample(at, value=1.0, subject="worker-1"):
    return Sample("cpu", subject, at, value)


def no_store():
    raise StoreError("the server is gone")


def opening(location):
    return partial(MetricStore.open, location)


@pytest.fixture
def make_writer():
    """Makes writers whose turns a test takes itself."""
    with ExitStack() as made:
        yield lambda *arguments, **clocks: made.enter_context(StoreWriter(*arguments, **clocks))


def times(location, pipeline="p"):
    with MetricStore.open(location) as store:
        return [one.at for one in store.read(pipeline)]


@given(
    st.integers(1, 5),
    st.lists(st.lists(st.integers(), max_size=7) | st.tuples(st.integers(1, 5), st.booleans()), max_size=12),
)
def test_a_backlog_keeps_order_settles_all_and_drops_only_the_oldest(capacity, actions):
    backlog, written, given_in = Backlog(capacity), [], []
    for action in actions:
        if isinstance(action, list):
            backlog.put(action)
            given_in += action
        else:
            count, works = action
            taken = backlog.take(count)
            if works:
                written += taken
                backlog.settled += len(taken)
            else:
                backlog.give_back(taken)
        assert len(backlog) <= capacity
        assert backlog.pending == len(backlog)
        assert backlog.received == len(given_in) == len(written) + backlog.dropped + len(backlog)
    rest = backlog.take(capacity)
    assert rest == given_in[len(given_in) - len(rest) :]


def test_what_is_put_is_in_the_store_after_a_flush(location):
    with StoreWriter(opening(location), "p").start() as writer:
        writer.put([sample(1.0), sample(2.0)])
        writer.put_alarms([ALARM])
        assert writer.flush(60)
        assert (writer.pending, writer.dropped, writer.refused, writer.problem) == (0, 0, 0, None)
        with MetricStore.open(location) as reader:
            assert reader.read("p") == [sample(1.0), sample(2.0)]
            assert reader.alarms("p") == [ALARM]


def test_closing_writes_what_still_waits(location):
    writer = StoreWriter(opening(location), "p", WriterSettings(batch=7)).start()
    writer.put([sample(float(at)) for at in range(50)])
    assert writer.close(60)
    assert times(location) == [float(at) for at in range(50)]
    writer.put([sample(99.0)])
    assert (writer.dropped, writer.pending) == (1, 0)
    assert writer.close()


def test_a_turn_writes_no_more_than_a_batch_and_asks_for_another_at_once(tmp_path, make_writer):
    writer = make_writer(opening(tmp_path / "m.db"), "p", WriterSettings(batch=2))
    writer.put([sample(1.0), sample(2.0), sample(3.0)])
    assert writer.turn() == 0.0
    assert times(tmp_path / "m.db") == [1.0, 2.0]
    assert writer.turn() is None
    assert times(tmp_path / "m.db") == [1.0, 2.0, 3.0]


def test_a_failing_store_is_left_alone_ever_longer_and_then_found_again(tmp_path, make_writer):
    works = threading.Event()
    store = opening(tmp_path / "m.db")
    settings = WriterSettings(first_pause=1.0, max_pause=5.0)
    writer = make_writer(lambda: store() if works.is_set() else no_store(), "p", settings)
    writer.put([sample(1.0)])
    assert [writer.turn() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert writer.problem == "the server is gone"
    assert (writer.pending, writer.dropped) == (1, 0)
    works.set()
    assert writer.turn() is None
    assert (writer.problem, writer.pending) == (None, 0)
    works.clear()
    writer._close_store()
    assert writer.turn() == 1.0


def test_when_nothing_can_be_written_the_oldest_go_and_are_counted(tmp_path, make_writer):
    writer = make_writer(no_store, "p", WriterSettings(capacity=10, alarm_capacity=1, batch=4))
    for at in range(25):
        writer.put([sample(float(at))])
        writer.turn()
    writer.put_alarms([ALARM, ALARM])
    assert (writer.dropped, writer.pending) == (16, 11)
    writer._open_store = opening(tmp_path / "m.db")
    while writer.turn() == 0.0:
        pass
    assert times(tmp_path / "m.db") == [float(at) for at in range(15, 25)]


def test_whatever_goes_wrong_in_the_store_the_thread_lives_on(tmp_path):
    failures = iter([ZeroDivisionError("a mistake of ours")])

    def fails_once():
        for failure in failures:
            raise failure
        return MetricStore.open(tmp_path / "m.db")

    with StoreWriter(fails_once, "p", QUICK).start() as writer:
        wait_for(lambda: writer.problem == "ZeroDivisionError: a mistake of ours" or writer._store is not None)
        writer.put([sample(1.0)])
        assert writer.flush(60)
    assert times(tmp_path / "m.db") == [1.0]


def test_samples_that_no_store_can_keep_are_counted_and_do_not_hold_up_the_others(location):
    with StoreWriter(opening(location), "p").start() as writer:
        writer.put([sample(1.0), sample(2.0, math.nan), sample(3.0, subject="nul\0"), sample(4.0)])
        writer.put([sample(math.inf)])
        assert writer.flush(60)
        assert (writer.refused, writer.dropped, writer.problem) == (3, 0, None)
    assert times(location) == [1.0, 4.0]


def test_closing_gives_up_after_one_last_try_and_says_so():
    writer = StoreWriter(no_store, "p").start()
    writer.put([sample(1.0)])
    assert not writer.flush(0.01)
    assert not writer.close(60)
    assert (writer.dropped, writer.pending) == (1, 0)


def test_a_writer_that_was_never_started_can_be_closed():
    writer = StoreWriter(no_store, "p")
    writer.put([sample(1.0)])
    assert not writer.close()
    assert writer.dropped == 1


def test_a_store_that_hangs_holds_up_neither_putting_nor_closing(tmp_path):
    go_on, hangs = threading.Event(), threading.Event()

    def hanging():
        hangs.set()
        go_on.wait(60)
        return MetricStore.open(tmp_path / "m.db")

    writer = StoreWriter(hanging, "p", WriterSettings(capacity=5)).start()
    assert hangs.wait(60)
    for at in range(20):
        writer.put([sample(float(at))])
    assert writer.dropped == 15
    assert not writer.flush(0.01)
    assert not writer.close(0.01)
    go_on.set()
    writer._thread.join(60)
    assert times(tmp_path / "m.db") == [15.0, 16.0, 17.0, 18.0, 19.0]


def test_a_full_disk_is_told_and_writing_goes_on_when_there_is_room(tmp_path):
    pages = {"limit": 60}

    def limited():
        """SQLite gives the same error at this limit as on a full disk."""
        store = MetricStore.open(tmp_path / "m.db")
        event.listen(
            store._engine,
            "checkout",
            lambda connection, *_: connection.execute(f"PRAGMA max_page_count = {pages['limit']}"),
        )
        return store

    with StoreWriter(limited, "p", QUICK).start() as writer:
        put = 0
        while writer.problem is None:
            writer.put([sample(float(put + at)) for at in range(1000)])
            put += 1000
            writer.flush(0.5)
        assert "database or disk is full (free some space" in writer.problem
        written = times(tmp_path / "m.db")
        assert 0 < len(written) < put
        pages["limit"] = 1_000_000
        assert writer.flush(60)
        assert writer.problem is None
        assert writer.dropped == 0
    assert times(tmp_path / "m.db") == [float(at) for at in range(put)]


def test_a_locked_store_is_told_and_writing_goes_on_when_it_is_free(tmp_path):
    MetricStore.open(tmp_path / "m.db").close()
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with StoreWriter(opening(f"sqlite:///{tmp_path / 'm.db'}?timeout=0.05"), "p", QUICK).start() as writer:
            writer.put([sample(1.0)])
            wait_for(lambda: writer.problem is not None)
            assert "database is locked (another program holds it" in writer.problem
            other.execute("ROLLBACK")
            assert writer.flush(60)
            assert writer.problem is None
    assert times(tmp_path / "m.db") == [1.0]


@pytest.mark.parametrize("how", ["deleted", "deleted with its folder", "replaced by another store"])
def test_a_store_that_is_deleted_is_made_again_with_all_that_was_not_written_yet_and_it_is_told(tmp_path, how, caplog):
    path, steady = tmp_path / "folder" / "m.db", Clock()
    with StoreWriter(opening(path), "p", steady_clock=steady) as writer:
        writer.put([sample(1.0)])
        writer.put_setup(SETUP)
        assert writer.turn() is None
        assert writer.notice is None
        if how == "deleted with its folder":
            shutil.rmtree(path.parent)
        else:
            for file in path.parent.glob("m.db*"):
                file.unlink()
        if how == "replaced by another store":
            MetricStore.open(path).close()
        writer.put([sample(2.0), sample(3.0)])
        assert writer.turn() is None
        assert (writer.problem, writer.pending, writer.dropped) == (None, 0, 0)
        assert writer.notice.startswith("the metrics store was deleted while it was in use")
        assert writer.notice in caplog.text
        steady.now = 3601.0
        assert writer.notice is None
    with MetricStore.open(path) as store:
        assert [one.at for one in store.read("p")] == [2.0, 3.0]
        assert [alarm.rule for alarm in store.alarms("p")] == ["store-deleted"]
        assert store.setups("p") == [SETUP]


def test_a_process_that_changes_its_folder_goes_on_in_the_same_store(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with StoreWriter(opening("m.db"), "p") as writer:
        writer.put([sample(1.0)])
        writer.turn()
        monkeypatch.chdir(tmp_path / "elsewhere")
        writer.put([sample(2.0)])
        writer.turn()
        assert (writer.problem, writer.notice) == (None, None)
    assert times(tmp_path / "m.db") == [1.0, 2.0]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_while_a_store_cannot_be_made_again_records_wait_and_it_is_told(tmp_path):
    path = tmp_path / "folder" / "m.db"
    with StoreWriter(opening(path), "p", WriterSettings(capacity=3)) as writer:
        writer.put([sample(1.0)])
        writer.turn()
        shutil.rmtree(path.parent)
        path.parent.write_text("a file where the folder was")
        for at in range(2, 7):
            writer.put([sample(float(at))])
            assert writer.turn() > 0
        assert "cannot open the store" in writer.problem
        assert (writer.dropped, len(writer._samples)) == (2, 3)
        path.parent.unlink()
        while writer.turn() == 0.0:
            pass
        assert writer.problem is None
    assert times(path) == [4.0, 5.0, 6.0]


def test_a_server_that_goes_away_and_comes_back_loses_nothing(postgres):
    location = postgres.fresh_url()
    with StoreWriter(opening(location), "p", QUICK).start() as writer:
        writer.put([sample(1.0)])
        assert writer.flush(60)
        postgres.stop()
        try:
            writer.put([sample(2.0)])
            wait_for(lambda: writer.problem is not None)
            writer.put([sample(3.0)])
            assert writer.pending == 2
        finally:
            postgres.start()
        assert writer.flush(60)
        assert (writer.problem, writer.dropped) == (None, 0)
    assert times(location) == [1.0, 2.0, 3.0]


def test_old_samples_are_forgotten_in_rounds(tmp_path, make_writer):
    clock, steady = Clock(1000.0), Clock()
    settings = WriterSettings(retention_seconds=100.0, prune_every=60.0)
    writer = make_writer(opening(tmp_path / "m.db"), "p", settings, clock=clock, steady_clock=steady)
    writer.put([sample(899.0), sample(900.0), sample(1000.0)])
    assert writer.turn() == 60.0
    assert times(tmp_path / "m.db") == [900.0, 1000.0]
    clock.now, steady.now = 1050.0, 50.0
    assert writer.turn() == 10.0
    assert times(tmp_path / "m.db") == [900.0, 1000.0]
    clock.now, steady.now = 1060.0, 60.0
    assert writer.turn() == 60.0
    assert times(tmp_path / "m.db") == [1000.0]


def test_between_two_rounds_of_much_forgetting_what_waits_is_written(tmp_path, make_writer, monkeypatch):
    monkeypatch.setattr("foretide.store.upkeep.PRUNED_AT_ONCE", 10)
    settings = WriterSettings(retention_seconds=100.0)
    writer = make_writer(opening(tmp_path / "m.db"), "p", settings, clock=Clock(1000.0), steady_clock=Clock())
    writer.put([sample(float(at)) for at in range(25)])
    assert writer.turn() == 0.0
    writer.put([sample(950.0)])
    assert writer.turn() == 0.0
    assert times(tmp_path / "m.db") == [20.0, 21.0, 22.0, 23.0, 24.0, 950.0]
    assert writer.turn() == 600.0
    assert times(tmp_path / "m.db") == [950.0]


def test_a_clock_that_jumps_back_loses_nothing_and_forgets_nothing_new(tmp_path, make_writer):
    clock, steady = Clock(1000.0), Clock()
    settings = WriterSettings(retention_seconds=100.0, prune_every=60.0)
    writer = make_writer(opening(tmp_path / "m.db"), "p", settings, clock=clock, steady_clock=steady)
    writer.put([sample(990.0), sample(1000.0)])
    writer.turn()
    clock.now, steady.now = 500.0, 60.0
    writer.put([sample(500.0)])
    assert writer.turn() == 60.0
    assert times(tmp_path / "m.db") == [500.0, 990.0, 1000.0]
    assert (writer.dropped, writer.problem) == (0, None)


@pytest.mark.parametrize(
    "wrong", [{"capacity": 0}, {"batch": 0}, {"retention_seconds": 0}, {"retention_seconds": -1}, {"prune_every": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(StoreError, match="must be greater than 0"):
        WriterSettings(**wrong)
