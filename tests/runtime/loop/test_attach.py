"""A control loop is attached as a whole or not at all: a wrong argument leaves no thread, listener or connection."""

import threading
from types import SimpleNamespace

import pytest

import foretide as ft
from foretide.control.world.setup import Setup
from foretide.control_folder.folder import ControlFolder
from foretide.control_folder.holds import take, take_loop
from foretide.errors import ControlError, ControlFolderError, ForetideError, SettingsError
from foretide.runtime.loop import attach
from foretide.runtime.monitoring.monitor import Monitor
from foretide.runtime.pipeline.followed import FollowedQuery
from foretide.settings.settings import ControlSettings
from foretide.topology.graph import Spout, Topology
from foretide.topology.sources import Rate


class Played(FollowedQuery):
    """A query that is not run, with a monitor that is not started."""

    def __init__(self, folder, monitored):
        super().__init__(SimpleNamespace(name="q", id="query-1"), folder, None)
        if monitored:
            workers = SimpleNamespace(close=lambda: None)
            topology = Topology("q", [Spout("read", Rate(1))], [])
            self.follower.monitor = Monitor(topology, folder.location, workers, ft.MonitorSettings(prometheus_port=0))


class Executors:
    """Counts how many are open."""

    opened = 0
    limits, allowed, can_exclude = (), (1, 1), False
    executors = staticmethod(dict)

    def allow(self, least, most):
        self.allowed = (least, most)

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
        (None, {"min_executors": 3, "max_executors": 2}),
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


def test_a_second_loop_on_a_control_folder_leaves_nothing_behind(query, tmp_path):
    first, before = take(str(tmp_path), "loop", "q"), footprint(query)
    with pytest.raises(ControlFolderError, match="a control loop is attached to query 'q'"):
        ft.control(query, settings=ft.Settings())
    assert footprint(query) == before
    first.release()


def test_a_second_loop_on_a_query_is_refused_whatever_its_control_folder(query, tmp_path):
    first = take_loop(str(tmp_path / "elsewhere"), "q", query.handle.id)
    before = footprint(query)
    with pytest.raises(ControlFolderError, match=r"a control loop is attached to query 'q' .* with the control folder"):
        ft.control(query, settings=ft.Settings())
    assert footprint(query) == before
    first.release()
    take_loop(str(tmp_path), "q", query.handle.id).release()


def test_a_loop_that_could_not_be_attached_does_not_keep_another_from_it(query, monkeypatch):
    monkeypatch.setattr(attach, "_last_decision", lambda _: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            ft.control(query, settings=ft.Settings())


def test_a_query_without_monitoring_is_refused(tmp_path):
    with pytest.raises(ControlError, match="start the pipeline with monitoring"):
        ft.control(Played(ControlFolder(str(tmp_path)), monitored=False), settings=ft.Settings())


def test_the_messages_name_the_argument(query):
    with pytest.raises(SettingsError, match=r"control\.max_executors must be at least 1, got 0"):
        ft.control(query, settings=ft.Settings(), max_executors=0)
    with pytest.raises(ControlError, match="mode must be one of act, advise, got 'pretend'"):
        ft.control(query, settings=ft.Settings(), mode="pretend")
    with pytest.raises(ControlError, match="target must be a Target"):
        ft.control(query, settings=ft.Settings(), target="2s")


@pytest.mark.parametrize(
    ("mode", "target", "expected"),
    [
        ("micro-batch", ft.Target(), ["bypass", "replicas", "hot_keys"]),
        ("micro-batch", ft.Latency(p99="50 ms"), ["bypass", "processors", "hot_keys"]),
        ("pipeline", ft.Target(), ["bypass", "replicas", "hot_keys"]),
        ("pipeline", ft.Latency(p99="50 ms"), ["bypass", "processors", "hot_keys"]),
    ],
)
def test_a_latency_target_is_held_by_processors(query, monkeypatch, mode, target, expected):
    attached = []
    monkeypatch.setattr(query, "setup", lambda _: Setup("q", mode=mode))
    monkeypatch.setattr(attach, "_attach", lambda *parts: attached.append(parts))
    ft.control(query, target=target, settings=ft.Settings())
    (_, _, _, loop, rules, _, settings) = attached[0]
    loop.release()
    assert [policy.name for policy in rules.policies] == expected
    assert (rules.guards.cooldown == 2.0) == (settings.guards.cooldown == 2.0) == (mode == "pipeline")


@pytest.mark.parametrize(
    ("settings", "arguments", "expected"),
    [
        (ft.Settings(), {}, (1, None)),
        (ft.Settings(control=ControlSettings(min_executors=2, max_executors=6)), {}, (2, 6)),
        (ft.Settings(control=ControlSettings(min_executors=2, max_executors=6)), {"max_executors": 4}, (2, 4)),
        (ft.Settings(), {"min_executors": 2}, (2, None)),
    ],
)
def test_the_range_of_executors_is_that_of_the_settings_unless_an_argument_says_otherwise(
    query, monkeypatch, settings, arguments, expected
):
    attached = []
    monkeypatch.setattr(query, "setup", lambda _: Setup("q"))
    monkeypatch.setattr(attach, "_attach", lambda *parts: attached.append(parts))
    ft.control(query, settings=settings, **arguments)
    (_, _, executors, loop, *_) = attached[0]
    loop.release()
    assert executors.allowed == expected
