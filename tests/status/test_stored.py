"""What the read model tells from a store: metrics, alarms and decisions."""

import os

import pytest

from foretide.control.decisions.decision import Decision
from foretide.control.history import RecordedWorld
from foretide.control.world.setup import Setup
from foretide.errors import EmptyStoreError, PipelineNotFoundError, StoreError
from foretide.metrics.metric import Level, Sample
from foretide.status.pipelines import Running, announce, default_store
from foretide.status.stored import Figure, Recording, open_store, read_decisions, read_history, read_metrics
from foretide.store.compaction import Part
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord

ALARM = AlarmRecord(9.0, "lag-growing", "warning", "read", "the lag grows", "source")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))


@pytest.fixture
def location(tmp_path):
    path = str(tmp_path / "control" / "metrics.db")
    with MetricStore.open(path) as store:
        store.write("shop", [Sample("machine_load_1m", "a", 10.0, 1.5), Sample("of.later", "x", 12.0, 2.0)])
        store.write_alarms("shop", [ALARM])
    return path


def test_metrics_come_with_unit_level_and_age_and_unknown_ones_without(location):
    with open_store(None, location) as (store, pipeline):
        found = read_metrics(store, pipeline, now=20.0)
        machines = read_metrics(store, pipeline, 20.0, Level.MACHINE)
    load = Figure("machine_load_1m", "count", Level.MACHINE, "a", 1.5, 10.0, 10.0)
    assert found.figures == (load, Figure("of.later", None, None, "x", 2.0, 12.0, 8.0))
    assert (found.pipeline, found.at, found.alarms) == ("shop", 20.0, (ALARM,))
    assert machines.figures == (load,)


def test_decisions_are_those_that_are_asked_for(location):
    with open_store("shop", location) as (store, pipeline):
        assert read_decisions(store, pipeline, last=5).decisions == ()
        with MetricStore.open(location) as writer:
            writer.write_decisions(pipeline, [Decision(1, 5.0, pipeline, problems=("policy 'x' failed",))])
        assert [each.id for each in read_decisions(store, pipeline, last=5).decisions] == [1]
        assert read_decisions(store, pipeline, last=5, since=6.0).decisions == ()


def test_the_store_of_a_running_pipeline_is_found_by_name_or_alone(location, tmp_path):
    with pytest.raises(PipelineNotFoundError, match="--store"), open_store(None, None):
        pass
    announce(Running("shop", os.getpid(), str(tmp_path / "control")))
    assert default_store(str(tmp_path / "control"), "shop") == location
    for name in (None, "shop"):
        with open_store(name, None) as (_, pipeline):
            assert pipeline == "shop"


def test_a_store_of_several_pipelines_needs_a_name(location):
    with MetricStore.open(location) as store:
        store.write("other", [Sample("machine_load_1m", "a", 10.0, 1.5)])
    with pytest.raises(StoreError, match="choose one with --app; the store has: other, shop"):
        open_store(None, location).__enter__()
    with pytest.raises(StoreError, match="no metrics of 'nobody'; the store has: other, shop"):
        open_store("nobody", location).__enter__()


def test_an_empty_store_is_told_from_one_without_the_pipeline(tmp_path):
    path = str(tmp_path / "empty.db")
    MetricStore.open(path).close()
    with pytest.raises(EmptyStoreError, match="the store is empty"):
        open_store(None, path).__enter__()
    with pytest.raises(StoreError, match="no metrics of 'shop'; the store has: none"):
        open_store("shop", path).__enter__()


def test_the_history_of_a_metric_has_a_value_for_every_step_however_old_it_is(tmp_path):
    path = str(tmp_path / "m.db")
    with MetricStore.open(path) as store:
        store.write("p", [Sample("input_rows_per_second", "p", float(at), at // 60 * 10.0) for at in range(1, 200, 5)])
        whole = read_history(store, "p", "input_rows_per_second", 5.0)
        assert store.compact(Part("p", 60.0, 0.0, 120.0)) is None
        thinned = read_history(store, "p", "input_rows_per_second", 5.0)
    assert [at for at, _ in thinned[-16:]] == [at for at, _ in whole[-16:]]
    later = dict(thinned)
    assert {at: later[at] for at, _ in whole if at > 60} == {at: value for at, value in whole if at > 60}


def test_a_recording_has_the_last_batch_of_each_older_step_with_its_workers_alive(tmp_path):
    path, setup = str(tmp_path / "m.db"), Setup("p", ())
    with MetricStore.open(path) as store:
        store.write_setups("p", [RecordedWorld(0.0, setup)])
        batches = [Sample("batch", "p", at + 0.4, at) for at in range(900)]
        workers = [Sample("worker_heap_bytes", "1", at + 4.9, 1.0) for at in range(0, 900, 5)]
        store.write("p", batches + workers)
        assert store.compact(Part("p", 300.0, 0.0, 600.0)) is None
        found = [*Recording.of(store, "p").worlds()]
    assert [world.snapshot.value("batch") for world in found] == [299, 599, *range(600, 900)]
    assert all(world.observed.executors == {"1": "1"} for world in found)
