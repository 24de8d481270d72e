"""Opening a store: addresses, versions, and what is wrong with the place."""

import os
import sqlite3
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from foretide.control.decisions.decision import Decision
from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.store.database import database_url, shown
from foretide.store.metric_store import MetricStore

ONE = Sample("cpu", "worker-1", 1.0, 2.0)


def sql(location, statement):
    engine = create_engine(database_url(location))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def open_and_write(location, name):
    with MetricStore.open(location) as store:
        store.write(name, [ONE])


def test_a_path_a_path_object_and_a_url_mean_the_same_file(tmp_path):
    path = tmp_path / "new" / "folders" / "metrics.db"
    with MetricStore.open(path) as store:
        store.write("p", [ONE])
    for location in (str(path), path, f"sqlite:///{path}"):
        with MetricStore.open(location, create=False) as store:
            assert store.read("p") == [ONE]


def test_a_path_below_home_is_found_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with MetricStore.open("~/metrics.db"):
        assert (tmp_path / "metrics.db").exists()


def test_a_sqlite_store_writes_ahead_so_that_readers_and_a_writer_do_not_meet(tmp_path):
    with MetricStore.open(tmp_path / "metrics.db"):
        pass
    with sqlite3.connect(tmp_path / "metrics.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("mysql://host/metrics", "'mysql://' is not supported; give a path"),
        ("postgresql+psycopg2://host/metrics", "'postgresql\\+psycopg2://' is not supported"),
        ("postgresql://me:secret@host:port/metrics", "which starts with 'postgresql://', is not valid"),
        ("://", "is not valid"),
        ("sqlite://", "cannot be read by other processes"),
        (":memory:", "cannot be read by other processes"),
        ("", "cannot be read by other processes"),
    ],
)
def test_addresses_that_mean_no_store_are_refused_with_what_to_do(location, says):
    with pytest.raises(StoreError, match=says) as refused:
        MetricStore.open(location)
    assert "secret" not in str(refused.value)


def test_a_password_is_never_shown():
    url = database_url("postgres://me:secret@host/metrics")
    assert shown(url) == "postgresql+psycopg://me:***@host/metrics"


def test_without_its_driver_postgresql_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'foretide\[postgres\]'"):
        MetricStore.open("postgresql://host/metrics")


def test_a_server_that_is_not_there_is_named(free_port):
    with pytest.raises(StoreError, match=f"cannot open the store .*127.0.0.1:{free_port}"):
        MetricStore.open(f"postgresql://foretide@127.0.0.1:{free_port}/postgres")


def test_a_store_that_is_not_there_is_not_made_for_a_reader(location, tmp_path):
    with pytest.raises(StoreError, match="there is no store"):
        MetricStore.open(location, create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_newer_store_is_refused_and_left_as_it_is(location):
    MetricStore.open(location).close()
    sql(location, "UPDATE foretide_schema SET version = 99")
    with pytest.raises(StoreError, match="has version 99, this release requires version 1: update Foretide"):
        MetricStore.open(location)


def test_garbage_is_no_store_and_stays(tmp_path):
    path = tmp_path / "metrics.db"
    path.write_bytes(b"no database at all" * 500)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"file is not a database.*move it away"):
        MetricStore.open(path)
    assert path.read_bytes() == before


def test_a_damaged_store_says_so_instead_of_giving_wrong_samples(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricStore.open(path) as store:
        store.write("p", [Sample("cpu", f"worker-{number}", float(number), 1.0) for number in range(5000)])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"malformed.*move it away"), MetricStore.open(path) as store:
        store.read("p")


@pytest.mark.parametrize("place", ["a folder", "below a file"])
def test_a_place_that_can_hold_no_file_is_refused(tmp_path, place):
    (tmp_path / "file").write_text("")
    path = tmp_path if place == "a folder" else tmp_path / "file" / "metrics.db"
    with pytest.raises(StoreError, match="cannot open the store"):
        MetricStore.open(path)


def test_processes_that_open_a_new_store_at_the_same_time_all_get_it(location, start_process):
    names = [f"p{number}" for number in range(4)]
    processes = [start_process(open_and_write, location, name) for name in names]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    with MetricStore.open(location) as store:
        assert store.pipelines() == names


def decide(location, number):
    with MetricStore.open(location) as store:
        store.write_decisions("p", [Decision(number, 1.0, "p", problems=("one",))])


def test_processes_that_add_tables_to_an_older_store_at_the_same_time_all_succeed(location, start_process):
    MetricStore.open(location).close()
    sql(location, "DROP TABLE foretide_decisions")
    sql(location, "DROP TABLE foretide_setups")
    processes = [start_process(decide, location, number) for number in (1, 2, 3)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    with MetricStore.open(location) as store:
        assert [decision.id for decision in store.decisions("p")] == [1, 2, 3]


@contextmanager
def somebody_else(folder):
    """Another user, who may read and not write what is in the folder."""
    for path in (folder, *folder.iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def public_folder():
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="foretide-public-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_store_can_be_read_by_somebody_who_may_not_write_it(public_folder):
    path = public_folder / "metrics.db"
    open_and_write(path, "p")
    with somebody_else(public_folder), MetricStore.open(path, create=False) as store:
        assert store.read("p") == [ONE]
        assert store.latest("p") == [ONE]
        assert (store.alarms("p"), store.decisions("p")) == ([], [])
        with pytest.raises(StoreError, match="readonly"):
            store.write("p", [ONE])
    assert [file.name for file in public_folder.iterdir()] == ["metrics.db"]


def test_what_is_written_beside_a_reader_who_may_not_write_is_seen(public_folder):
    path = public_folder / "metrics.db"
    with MetricStore.open(path) as writer:
        writer.write("p", [ONE])
        with somebody_else(public_folder), MetricStore.open(path, create=False) as store:
            assert store.read("p") == [ONE]


def test_an_older_store_without_some_tables_can_be_read(location):
    open_and_write(location, "p")
    for table in ("decisions", "setups", "steps"):
        sql(location, f"DROP TABLE foretide_{table}")
    with MetricStore.open(location, create=False) as store:
        assert (store.decisions("p"), store.setups("p"), store.last_decision_id("p")) == ([], [], 0)
        assert [one.count for one in store.read_steps("p")] == [1]


@pytest.mark.parametrize("options", ["timeout=x", "timeout=inf", "timeout=1&timeout=2", "mode=ro", "uri=true", "x=1"])
def test_options_that_mean_nothing_are_refused(tmp_path, options):
    with pytest.raises(StoreError, match=r"takes no option but .* \?timeout=5"):
        MetricStore.open(f"sqlite:///{tmp_path / 'metrics.db'}?{options}")
    assert list(tmp_path.iterdir()) == []
