"""What is read back of a run: series, load, workers in and out of service, and forecasts."""

import os

import pytest

from foretide.control.history import RecordedForecasts, RecordedSeries, RecordedWorld
from foretide.control.world.setup import Observed, Setup, Target
from foretide.errors import EmptyStoreError, StoreError
from foretide.metrics.metric import Sample
from foretide.status.pipelines import Running, announce
from foretide.status.run_record import RunRecord, read_run
from foretide.status.runs import read_runs
from foretide.store.metric_store import MetricStore


def samples(name="shop", batches=5):
    for at in range(batches):
        yield Sample("input_rows", name, 10.0 + at, 100.0)
        yield Sample("batch_duration_ms", name, 10.0 + at, 1000.0)
        yield Sample("latency_p99_ms", name, 10.0 + at, 500.0 * (at + 1))
        for spout, rate in (("a", 70.0), ("b", 30.0)):
            yield Sample("arrival_rate", spout, 10.0 + at, rate)
            yield Sample("lag", spout, 10.0 + at, 0.0)
        yield Sample("arrival_rate", "bolt", 10.0 + at, 1000.0)


@pytest.fixture
def store(tmp_path):
    with MetricStore.open(tmp_path / "metrics.db") as opened:
        opened.write("shop", [*samples()])
        yield opened


def test_the_load_is_that_of_all_spouts_and_of_no_bolt(store):
    run = read_run(store, "shop")
    assert run.load == tuple((10.0 + at, 100.0) for at in range(5))
    assert (run.began, run.ended, run.seconds, run.batches, run.rows) == (9.0, 14.0, 5.0, 5, 500)
    assert run.query["latency_p99_ms"][-1] == (14.0, 2500.0)
    assert run.setup_at(12.0) is None
    assert run.target_at(12.0) == Target()


def test_a_run_can_be_read_from_a_time_on(store):
    assert read_run(store, "shop", since=12.0).batches == 3
    with pytest.raises(EmptyStoreError, match="no batch of 'shop' was measured in that time"):
        read_run(store, "shop", since=100.0)


def setup(at, workers, out=(), target=None):
    seen = Observed(executors=dict.fromkeys(workers, "host"), quarantined=frozenset(out))
    return RecordedWorld(at, Setup("shop"), target or Target(), seen)


def test_workers_are_there_and_out_of_service_as_the_control_loop_saw_them():
    setups = (setup(5.0, "01"), setup(20.0, "01", out="1"), setup(30.0, "02"), setup(40.0, "2"))
    run = RunRecord("shop", 10.0, 50.0, {}, setups=setups)
    assert run.in_service() == {"0": ((10.0, 40.0),), "1": ((10.0, 30.0),), "2": ((30.0, 50.0),)}
    assert run.taken_out() == {"1": ((20.0, 30.0),)}


def test_without_a_control_loop_workers_are_there_while_samples_come():
    cpu = tuple((float(at), 50.0) for at in (10, 15, 20, 200, 205))
    run = RunRecord("shop", 10.0, 210.0, {}, workers={"0": {"worker_cpu_user_percent": cpu}})
    assert run.in_service() == {"0": ((10.0, 20.0), (200.0, 210.0))}
    assert run.taken_out() == {}


def test_a_target_is_that_of_its_time(store):
    store.write_setups("shop", [setup(9.5, "0", target=Target(2.0)), setup(12.0, "0", target=Target(1.0))])
    run = read_run(store, "shop")
    assert [run.target_at(at).latency for at in (9.0, 11.9, 12.0, 14.0)] == [2.0, 2.0, 1.0, 1.0]


def test_forecasts_of_all_spouts_add_up_at_the_horizon_that_is_shown(store):
    def series(subject, scale):
        means, highs = (3 * scale, 5 * scale, 9 * scale), (4 * scale, 6 * scale, 10 * scale)
        return RecordedSeries("arrival_rate", subject, "ensemble", (1.0, 9.0, 60.0), means, {0.9: highs})

    other = RecordedSeries("input_rows_per_second", "shop", "ensemble", (9.0,), (1.0,))
    store.write_forecasts("shop", [RecordedForecasts(11.0, (series("a", 1), series("b", 10), other))])
    (found,) = read_run(store, "shop").forecasts
    assert (found.made, found.at, found.mean, found.high, found.by) == (11.0, 20.0, 55.0, 66.0, "ensemble")


def test_runs_are_found_by_folder_or_store_and_told_apart_by_place(tmp_path):
    for place in ("one/checkpoint/foretide", "two/foretide", "three"):
        with MetricStore.open(tmp_path / place / "metrics.db") as opened:
            opened.write("shop", [*samples()])
    given = [str(tmp_path / name) for name in ("one", "two", "three", "three/metrics.db")]
    assert [run.name for run in read_runs(given)] == [f"shop ({place})" for place in given]
    assert [run.name for run in read_runs(given[:1])] == ["shop"]


def test_all_pipelines_of_a_store_are_read_or_the_one_that_is_named(store, tmp_path):
    store.write("other", [*samples("other")])
    path = str(tmp_path / "metrics.db")
    assert [run.name for run in read_runs([path])] == ["other", "shop"]
    assert [run.name for run in read_runs([path], app="shop")] == ["shop"]
    with pytest.raises(StoreError, match="has no metrics of 'nobody'; it has: 'other', 'shop'"):
        read_runs([path], app="nobody")


def test_where_nothing_was_recorded_the_error_says_what_was_looked_for(tmp_path):
    with pytest.raises(StoreError, match=r"has no store: .* has metrics\.db; give the folder of a run"):
        read_runs([str(tmp_path)])
    with pytest.raises(StoreError):
        read_runs([str(tmp_path / "nothing.db")])
    MetricStore.open(tmp_path / "empty.db").close()
    with pytest.raises(EmptyStoreError, match="no pipeline has written to it yet"):
        read_runs([str(tmp_path / "empty.db")])


@pytest.mark.parametrize("given", ["loop", "a\0b", "x" * 5000])
def test_what_cannot_be_a_file_is_refused_beside_a_running_pipeline_too(tmp_path, monkeypatch, given):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    announce(Running("shop", os.getpid(), str(tmp_path / "control")))
    with pytest.raises(StoreError):
        read_runs([given])


def test_a_running_pipeline_is_found_by_its_name_or_folder(store, tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    announce(Running("shop", os.getpid(), str(tmp_path / "control"), str(tmp_path / "metrics.db")))
    for given in ("shop", str(tmp_path / "control")):
        assert [run.batches for run in read_runs([given])] == [5]
