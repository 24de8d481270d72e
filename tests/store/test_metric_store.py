"""What every store has to do, on SQLite and on PostgreSQL alike."""

import math
import threading
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foretide.errors import StoreError
from foretide.metrics.metric import Sample
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord, StoredSeries

PIPELINES = (f"pipeline-{number}" for number in count())
"""A name for each example, so that examples share a store and not their samples."""

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SAMPLE = st.builds(Sample, st.sampled_from(["cpu", "rows", "Ünïcode 'quoted'"]) | TEXT, TEXT, FINITE, FINITE)
SAMPLES = st.lists(SAMPLE, max_size=30)
BY_EXAMPLE = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sample(at, value=1.0, metric="cpu", subject="worker-1"):
    return Sample(metric, subject, at, value)


def key(one):
    return one.metric, one.subject, one.at


def kept(samples):
    """What has to be in a store: of one series and time, the last that was written."""
    return {key(one): one for one in samples}


ALARM = AlarmRecord(10.0, "rows-differ", "high", "words -> count", "3 rows were lost", "audit")


@BY_EXAMPLE
@given(first=SAMPLES, second=SAMPLES)
def test_what_was_written_is_read_in_the_order_of_time(store, first, second):
    pipeline = next(PIPELINES)
    store.write(pipeline, first)
    store.write(pipeline, second)
    found = store.read(pipeline)
    assert kept(found) == kept(first + second)
    assert len(found) == len(kept(found))
    assert [one.at for one in found] == sorted(one.at for one in found)


@BY_EXAMPLE
@given(samples=SAMPLES)
def test_latest_is_the_last_of_each_series_by_time(store, samples):
    pipeline = next(PIPELINES)
    store.write(pipeline, samples)
    expected = {}
    for one in sorted(kept(samples).values(), key=lambda one: one.at):
        expected[one.metric, one.subject] = one
    assert {(one.metric, one.subject): one for one in store.latest(pipeline)} == expected
    assert len(store.latest(pipeline)) == len(expected)


@BY_EXAMPLE
@given(samples=SAMPLES, since=FINITE | st.none(), until=FINITE | st.none(), limit=st.integers(0, 9) | st.none())
def test_reading_a_part_is_the_same_as_filtering_all(store, samples, since, until, limit):
    pipeline = next(PIPELINES)
    store.write(pipeline, samples)
    wanted = [
        one
        for one in store.read(pipeline)
        if one.metric in {"cpu", "rows"} and (since is None or one.at >= since) and (until is None or one.at < until)
    ]
    found = store.read(pipeline, metrics={"cpu", "rows"}, since=since, until=until, limit=limit)
    assert found == (wanted if limit is None else wanted[len(wanted) - min(limit, len(wanted)) :])


@BY_EXAMPLE
@given(samples=SAMPLES)
def test_scanning_gives_the_same_samples_subject_by_subject(store, samples):
    pipeline = next(PIPELINES)
    store.write(pipeline, samples)
    scanned = [one for chunk in store.scan(pipeline, chunk=3) for one in chunk]
    assert kept(Sample(one.metric, one.subject, one.at, one.value) for one in scanned) == kept(samples)
    assert all((one.count, one.mean, one.low, one.high) == (1, one.value, one.value, one.value) for one in scanned)
    assert len(scanned) == len(kept(samples))
    order = [series.subject for series in store.series(pipeline)]
    assert [(order.index(one.subject), one.at) for one in scanned] == sorted(
        (order.index(one.subject), one.at) for one in scanned
    )


@BY_EXAMPLE
@given(samples=SAMPLES, before=FINITE)
def test_forgetting_removes_what_is_older_and_nothing_else(store, samples, before):
    pipeline = next(PIPELINES)
    store.write(pipeline, samples)
    removed = store.delete_before(pipeline, before)
    left = {name: one for name, one in kept(samples).items() if one.at >= before}
    assert kept(store.read(pipeline)) == left
    assert removed == len(kept(samples)) - len(left)
    assert set(store.series(pipeline)) == {StoredSeries(one.metric, one.subject) for one in left.values()}


def test_subjects_can_be_chosen(store):
    store.write("p", [sample(1.0, subject="a"), sample(2.0, subject="b"), sample(3.0, subject="c")])
    assert [one.subject for one in store.read("p", subjects=["a", "c"])] == ["a", "c"]
    assert store.read("p", subjects=[]) == []


def test_latest_of_some_metrics_leaves_out_the_others(store):
    store.write("p", [sample(1.0), sample(2.0), sample(9.0, metric="rows")])
    assert store.latest("p", ["cpu"]) == [sample(2.0)]


def test_the_newest_so_many_are_still_in_the_order_of_time(store):
    store.write("p", [sample(float(at)) for at in range(5)])
    assert [one.at for one in store.read("p", limit=2)] == [3.0, 4.0]


def test_writing_the_same_again_changes_nothing_and_another_value_takes_its_place(store):
    store.write("p", [sample(1.0, 5.0)])
    store.write("p", [sample(1.0, 5.0)])
    assert store.read("p") == [sample(1.0, 5.0)]
    store.write("p", [sample(1.0, 6.0), sample(1.0, 7.0)])
    assert store.read("p") == [sample(1.0, 7.0)]


def test_after_a_clock_jumped_back_samples_keep_their_time_and_are_read_by_it(store):
    store.write("p", [sample(100.0, 1.0), sample(105.0, 2.0)])
    store.write("p", [sample(40.0, 3.0), sample(45.0, 4.0)])
    assert [(one.at, one.value) for one in store.read("p")] == [(40.0, 3.0), (45.0, 4.0), (100.0, 1.0), (105.0, 2.0)]
    assert store.latest("p") == [sample(105.0, 2.0)]


def test_pipelines_do_not_see_each_other(store):
    store.write("b", [sample(1.0, 1.0)])
    store.write("a", [sample(1.0, 2.0)])
    store.write_alarms("c", [ALARM])
    assert store.pipelines() == ["a", "b", "c"]
    assert store.read("a") == [sample(1.0, 2.0)]
    assert store.alarms("a") == []
    assert store.read("none") == store.latest("none") == store.series("none") == []


def test_series_come_in_the_order_in_which_they_were_first_seen(store):
    store.write("p", [sample(1.0, metric="z")])
    store.write("p", [sample(2.0, metric="a"), sample(2.0, metric="z")])
    assert store.series("p") == [StoredSeries("z", "worker-1"), StoredSeries("a", "worker-1")]


def test_a_store_keeps_what_it_has_when_it_is_opened_again(store, location):
    store.write("p", [sample(1.0)])
    store.close()
    with MetricStore.open(location, create=False) as again:
        assert again.read("p") == [sample(1.0)]
    store.write("p", [sample(2.0)])
    assert len(store.read("p")) == 2


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, None])
def test_what_is_no_number_is_refused_and_nothing_of_its_batch_is_kept(store, number):
    for bad in (sample(2.0, number), replace(sample(2.0), at=number)):
        with pytest.raises(StoreError, match=r"cpu.*cannot be stored.*it must be a finite number"):
            store.write("p", [sample(1.0), bad])
    assert store.read("p") == []


@pytest.mark.parametrize("name", ["nul\0", "half of a pair \ud800", "long" * 200])
def test_names_that_no_database_takes_are_refused(store, name):
    for bad in (sample(1.0, metric=name), sample(1.0, subject=name)):
        with pytest.raises(StoreError, match="cannot be stored: the name"):
            store.write("p", [bad])
    with pytest.raises(StoreError, match="the pipeline cannot be stored"):
        store.write(name, [sample(1.0)])


def test_the_longest_names_are_kept(store):
    longest = {name: "".join(chr(0x4E00 + (hash(name) + i * 7919) % 20000) for i in range(170)) for name in "pms"}
    one = sample(1.0, metric=longest["m"], subject=longest["s"])
    store.write(longest["p"], [one])
    assert store.read(longest["p"]) == [one]


def test_alarms_are_read_in_the_order_of_time_and_never_kept_twice(store):
    later = replace(ALARM, at=20.0, message="nul \0 and half of a pair \ud800")
    store.write_alarms("p", [later, ALARM])
    store.write_alarms("p", [ALARM])
    shown = replace(later, message="nul  and half of a pair ?")
    assert store.alarms("p") == [ALARM, shown]
    assert store.alarms("p", limit=1) == [shown]
    assert store.alarms("p", since=10.0, until=20.0) == [ALARM]
    store.write_alarms("p", [])
    with pytest.raises(StoreError, match="its time is nan"):
        store.write_alarms("p", [replace(ALARM, at=math.nan)])


def test_forgetting_takes_alarms_along(store):
    store.write_alarms("p", [ALARM, replace(ALARM, at=20.0)])
    assert store.delete_before("p", 15.0) == 0
    assert [alarm.at for alarm in store.alarms("p")] == [20.0]


def test_forgetting_goes_through_many_series_and_long_ones_in_chunks(store, monkeypatch):
    monkeypatch.setattr("foretide.store.retention.CHUNK", 7)
    monkeypatch.setattr("foretide.store.retention.SERIES_AT_ONCE", 3)
    store.write("p", [sample(float(at), subject=f"w{number}") for number in range(10) for at in range(5 + number)])
    assert store.delete_before("p", 5.0, at_most=20) == 20
    assert store.delete_before("p", 5.0) == 30
    assert sorted(one.at for one in store.read("p")) == sorted(float(at) for n in range(10) for at in range(5, 5 + n))
    assert len(store.series("p")) == 9


def test_a_series_that_another_process_forgot_is_made_anew(store, location):
    store.write("p", [sample(1.0)])
    with MetricStore.open(location) as other:
        assert other.delete_before("p", 2.0) == 1
        other.write("q", [sample(3.0, subject="somebody else")])
    store.write("p", [sample(4.0)])
    assert store.read("p") == [sample(4.0)]
    assert store.read("q") == [sample(3.0, subject="somebody else")]


def test_a_write_that_failed_leaves_no_id_behind(store, monkeypatch):
    real = store._series_ids

    def fails_after_looking_up(*arguments):
        real(*arguments)
        raise StoreError("cut off")

    monkeypatch.setattr(store, "_series_ids", fails_after_looking_up)
    with pytest.raises(StoreError, match="cut off"):
        store.write("p", [sample(1.0, metric="lost")])
    monkeypatch.undo()
    store.write("p", [sample(2.0, metric="kept")])
    store.write("p", [sample(3.0, metric="lost")])
    assert store.read("p") == [sample(2.0, metric="kept"), sample(3.0, metric="lost")]


def test_threads_may_write_read_and_forget_at_the_same_time(store):
    problems = []

    def work(number):
        try:
            for at in range(20):
                store.write(
                    f"p{number % 2}", [sample(float(at), metric=f"m{m}", subject=f"s{number}") for m in range(5)]
                )
                store.latest(f"p{number % 2}")
                store.delete_before(f"p{number % 2}", -1.0)
        except StoreError as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert [len(store.read(pipeline)) for pipeline in ("p0", "p1")] == [200, 200]
