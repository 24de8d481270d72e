"""What the read model tells from a store: metrics, alarms and decisions."""

import os

import pytest

from foretide.control.decisions.decision import Decision
from foretide.errors import DecisionNotFoundError, PipelineNotFoundError, StoreError
from foretide.metrics.metric import Level, Sample
from foretide.status.pipelines import Running, announce, default_store
from foretide.status.stored import Figure, open_store, read_decisions, read_metrics
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


def test_decisions_are_an_error_only_if_there_was_never_one(location):
    with open_store("shop", location) as (store, pipeline):
        with pytest.raises(DecisionNotFoundError):
            read_decisions(store, pipeline, last=5)
        store.write_decisions(pipeline, [Decision(1, 5.0, pipeline, problems=("policy 'x' failed",))])
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
