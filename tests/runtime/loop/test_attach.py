"""A control loop is attached as a whole or not at all: a wrong argument leaves no thread, listener or connection."""

import threading
from types import SimpleNamespace

import pytest

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.errors import ControlError, ForetideError
from foretide.runtime.loop import attach
from foretide.runtime.monitoring.monitor import Monitor
from foretide.runtime.pipeline.submit import FollowedQuery
from foretide.topology.graph import Spout, Topology
from foretide.topology.sources import Rate


class Played(FollowedQuery):
    """A query that is not run, with a monitor that is not started."""

    def __init__(self, folder, monitored):
        super().__init__(SimpleNamespace(name="q"), folder, None)
        if monitored:
            workers = SimpleNamespace(close=lambda: None)
            topology = Topology("q", [Spout("read", Rate(1))], [])
            self.follower.monitor = Monitor(topology, folder.location, workers, ft.MonitorSettings(prometheus_port=0))


class Executors:
    """Counts how many are open."""

    opened = 0
    limits, most = (), 1

    @classmethod
    def of_active(cls):
        cls.opened += 1
        return cls()

    def close(self):
        type(self).opened -= 1


@pytest.fixture
def query(tmp_path, monkeypatch):
    monkeypatch.setattr(attach, "Executors", Executors)
    monkeypatch.setattr(Executors, "opened", 0)
    return Played(ControlFolder(str(tmp_path)), monitored=True)


def footprint(query):
    """All that a control loop leaves: threads, subscriptions, connections."""
    follower = query.follower
    subscribed = (follower._listeners, follower._end_calls, follower._rescues, follower.monitor._listeners)
    return set(threading.enumerate()), [list(each) for each in subscribed], Executors.opened


@pytest.mark.parametrize(
    ("policies", "options"),
    [
        (["nope"], {}),
        (["replicas", "replicas"], {}),
        ([42], {}),
        (None, {"target": "2s"}),
        (None, {"mode": "pretend"}),
        (None, {"max_executors": 0}),
        (None, {"max_executors": "many"}),
        (None, {"settings": "fast"}),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_started(query, policies, options):
    before = footprint(query)
    with pytest.raises((ForetideError, AttributeError, TypeError)):
        ft.control(query, policies, **{"settings": ft.Settings(), **options})
    assert footprint(query) == before


def test_a_part_that_cannot_be_made_leaves_no_other_behind(query, monkeypatch):
    def fail(*_):
        raise OSError("no disk")

    monkeypatch.setattr(attach, "_last_decision", fail)
    before = footprint(query)
    with pytest.raises(OSError, match="no disk"):
        ft.control(query, settings=ft.Settings())
    assert footprint(query) == before


def test_a_query_without_monitoring_is_refused(tmp_path):
    with pytest.raises(ControlError, match="start the pipeline with monitoring"):
        ft.control(Played(ControlFolder(str(tmp_path)), monitored=False), settings=ft.Settings())


def test_the_messages_name_the_argument(query):
    with pytest.raises(ControlError, match="max_executors must be at least 1, got 0"):
        ft.control(query, settings=ft.Settings(), max_executors=0)
    with pytest.raises(ControlError, match="mode must be one of act, advise, got 'pretend'"):
        ft.control(query, settings=ft.Settings(), mode="pretend")
    with pytest.raises(ControlError, match="target must be a Target"):
        ft.control(query, settings=ft.Settings(), target="2s")
