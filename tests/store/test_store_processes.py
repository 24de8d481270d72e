"""Several processes on one store, and processes that are killed in the middle of writing."""

import sqlite3
import threading
from contextlib import closing
from itertools import count

import psycopg

from foretide.metrics.metric import Sample
from foretide.store.metric_store import MetricStore
from helpers import wait_for

SUBJECTS = 50
ROUNDS = 30


def batch(number):
    """A transaction that can be told from all others: its number is the time and the value."""
    return [Sample("cpu", f"worker-{subject}", float(number), float(number)) for subject in range(SUBJECTS)]


def write_without_end(location, first, committed):
    """Write batch after batch, and say of each when it is committed."""
    with MetricStore.open(location) as store:
        for number in count(first):
            store.write("p", batch(number))
            committed.send(number)


def write_rounds(location, pipeline):
    with MetricStore.open(location) as store:
        for number in range(ROUNDS):
            store.write(pipeline, batch(number))


def forget_rounds(location, rounds):
    with MetricStore.open(location) as store:
        for number in range(rounds):
            for pipeline in ("a", "b"):
                store.delete_before(pipeline, float(number))


def read_until_all(location, pipelines):
    """Read while others write: every batch is there as a whole or not at all, and none goes away."""
    with MetricStore.open(location) as store:
        seen = 0
        while seen < ROUNDS * len(pipelines):
            found = [store.read(pipeline) for pipeline in pipelines]
            assert all(len(samples) % SUBJECTS == 0 for samples in found)
            assert sum(map(len, found)) >= seen * SUBJECTS
            seen = sum(map(len, found)) // SUBJECTS


def received(pipe):
    """All that was said before the process died."""
    said = []
    try:
        while pipe.poll():
            said.append(pipe.recv())
    except (EOFError, OSError):
        pass
    return said


def integrity(path):
    with closing(sqlite3.connect(path)) as connection:
        return [
            row for check in ("integrity_check", "foreign_key_check") for row in connection.execute(f"PRAGMA {check}")
        ]


def test_what_was_committed_survives_kill_9_and_the_store_stays_whole(location, start_process, processes):
    said = []
    for attempt in range(6):
        ours, theirs = processes.Pipe(duplex=False)
        process = start_process(write_without_end, location, 1000 * attempt, theirs)
        theirs.close()
        said += [ours.recv() for _ in range(attempt * attempt + 1)]
        process.kill()
        process.join()
        said += received(ours)
        ours.close()
        if "://" not in location:
            assert integrity(location) == [("ok",)]
        with MetricStore.open(location) as store:
            found = store.read("p")
        numbers = {one.at for one in found}
        assert set(map(float, said)) <= numbers
        assert len(numbers) <= len(said) + attempt + 1
        assert len(found) == len(numbers) * SUBJECTS
        assert all(one.value == one.at for one in found)


def test_processes_write_and_read_one_store_at_the_same_time(location, start_process):
    pipelines = ["a", "b"]
    MetricStore.open(location).close()
    work = [start_process(write_rounds, location, pipeline) for pipeline in [*pipelines, "a"]]
    work += [start_process(read_until_all, location, pipelines) for _ in range(2)]
    for process in work:
        process.join()
    assert [process.exitcode for process in work] == [0] * len(work)
    with MetricStore.open(location) as store:
        assert [len(store.read(pipeline)) for pipeline in pipelines] == [ROUNDS * SUBJECTS] * 2


def test_one_process_may_forget_the_series_that_others_write(location, start_process):
    MetricStore.open(location).close()
    work = [start_process(write_rounds, location, pipeline) for pipeline in ("a", "b")]
    work += [start_process(forget_rounds, location, ROUNDS) for _ in range(2)]
    for process in work:
        process.join()
    assert [process.exitcode for process in work] == [0] * len(work)
    with MetricStore.open(location) as store:
        for pipeline in ("a", "b"):
            store.delete_before(pipeline, ROUNDS - 1.0)
            assert store.read(pipeline) == sorted(batch(ROUNDS - 1), key=lambda one: store_order(store, pipeline, one))


def store_order(store, pipeline, one):
    return [series.subject for series in store.series(pipeline)].index(one.subject)


def test_a_series_that_gets_a_sample_while_it_is_forgotten_stays(postgres):
    location = postgres.fresh_url()
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE FROM foretide%'"
    )
    with MetricStore.open(location) as store, psycopg.connect(location) as other, psycopg.connect(location) as watcher:
        watcher.autocommit = True
        other.execute("INSERT INTO foretide_series (id, pipeline, metric, subject) VALUES (77, 'p', 'cpu', 'worker-1')")
        other.commit()
        other.execute("INSERT INTO foretide_samples VALUES (77, 5.0, 6.0)")
        forgetting = threading.Thread(target=store.delete_before, args=("p", 1.0))
        forgetting.start()
        wait_for(lambda: watcher.execute(waits).fetchone() == (1,))
        other.commit()
        forgetting.join()
        assert store.read("p") == [Sample("cpu", "worker-1", 5.0, 6.0)]
