"""The newest value of every series, smoothed per series, copied out as snapshots."""

import os
import socket
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretide.errors import MonitoringError
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Fading, Known, Window
from foretide.runtime.monitoring import monitor as monitor_module
from foretide.runtime.monitoring.monitor import LatestValues, Monitor
from foretide.settings.run import MonitorSettings
from foretide.spark.executors import WorkerListing
from foretide.topology.graph import Spout, Topology
from foretide.topology.sources import Rate


def sample(value, subject="count", metric="capacity", at=10.0):
    return Sample(metric, subject, at, value)


def test_the_newest_figure_is_kept_with_its_time():
    latest = LatestValues("app")
    latest.put([sample(0.5, at=10), sample(0.7, at=12)])
    assert latest.snapshot(15).figure("capacity", "count") == Known(0.7, age=3)


def test_what_a_clock_that_jumped_back_says_is_the_newest_all_the_same():
    latest = LatestValues("app")
    latest.put([sample(0.5, at=1000)])
    latest.put([sample(0.9, at=400)])
    assert latest.snapshot(401).figure("capacity", "count") == Known(0.9, age=1)


def test_each_series_is_smoothed_by_itself_and_only_where_asked_for():
    latest = LatestValues("app", {"capacity": lambda: Fading(0.75)})
    latest.put([sample(8, "a"), sample(100, "b"), sample(16, "a"), sample(200, "b")])
    latest.put([sample(1, metric="utilization"), sample(3, metric="utilization")])
    snapshot = latest.snapshot(10)
    assert snapshot.value("capacity", "a") == 10  # 0.75 * 8 + 0.25 * 16
    assert snapshot.value("capacity", "b") == 125  # 0.75 * 100 + 0.25 * 200
    assert snapshot.value("utilization", "count") == 3


def test_forecasts_are_replaced_as_a_whole():
    latest = LatestValues("app")
    latest.set_forecasts({("capacity", "a"): 1.0, ("capacity", "b"): 2.0})
    first = latest.snapshot(10)
    latest.set_forecasts({("capacity", "b"): 3.0})
    assert first.forecasts == {("capacity", "a"): 1.0, ("capacity", "b"): 2.0}
    assert latest.snapshot(10).forecasts == {("capacity", "b"): 3.0}


def test_a_snapshot_is_a_copy_that_nobody_can_change():
    latest = LatestValues("app")
    latest.put([sample(0.5)])
    latest.set_forecasts({("capacity", "count"): 0.8})
    before = latest.snapshot(10, ("the store is gone",))
    latest.put([sample(0.9), sample(1, "other")])
    assert dict(before.figures) == {("capacity", "count"): (0.5, 10.0)}
    assert (before.query, before.at, before.problems) == ("app", 10, ("the store is gone",))
    for mapping in (before.figures, before.forecasts):
        with pytest.raises(TypeError):
            mapping["capacity", "count"] = 1.0


def test_when_there_is_too_much_the_old_is_forgotten_with_its_smoothers(monkeypatch):
    monkeypatch.setattr(monitor_module, "_MAX_SERIES", 10)
    latest = LatestValues("app", {"capacity": Fading})
    latest.put([sample(1, f"old{i}", at=0) for i in range(8)])
    latest.put([sample(2, "edge of memory", at=1400)])
    latest.put([sample(3, f"new{i}", at=5000) for i in range(4)])
    assert {subject for _, subject in latest.snapshot(5000).figures} == {
        "edge of memory",
        "new0",
        "new1",
        "new2",
        "new3",
    }
    assert set(latest._smoothers) == set(latest.snapshot(5000).figures)


def test_where_nothing_is_old_it_is_not_looked_for_again_before_there_is_twice_as_much(monkeypatch):
    monkeypatch.setattr(monitor_module, "_MAX_SERIES", 10)
    looked = []
    monkeypatch.setattr(LatestValues, "_forget_old", lambda self: looked.append(len(self._values)))
    latest = LatestValues("app")
    for number in range(50):
        latest.put([sample(1, f"new{number}", at=number)])
    assert looked == [11, 23, 47]
    assert len(latest.snapshot(50).figures) == 50


def test_many_threads_may_write_while_others_look():
    latest = LatestValues("app", {"capacity": lambda: Window(10**6)})
    each, threads = 400, 4
    broken = []

    def write(name):
        for value in range(each):
            latest.put([sample(value, name, at=value), sample(value, "all", at=value)])

    def look():
        try:
            for _ in range(each):
                for (_, subject), (value, at) in latest.snapshot(0).figures.items():
                    assert subject == "all" or value == at / 2  # the mean of 0, 1, ..., at
        except Exception as error:
            broken.append(error)
            raise

    running = [threading.Thread(target=write, args=(f"w{i}",)) for i in range(threads)] + [
        threading.Thread(target=look)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert broken == []
    snapshot = latest.snapshot(0)
    assert snapshot.value("capacity", "all") == pytest.approx((each - 1) / 2)  # not one of them was lost
    assert all(snapshot.value("capacity", f"w{i}") == (each - 1) / 2 for i in range(threads))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["capacity", "utilization"]), st.sampled_from("ab"), st.floats(-1e6, 1e6))))
def test_a_latest_is_one_smoother_for_each_series(puts):
    latest = LatestValues("app", {"capacity": lambda: Fading(0.3)})
    latest.put(Sample(metric, subject, 1.0, value) for metric, subject, value in puts)
    expected, smoothers = {}, {}
    for metric, subject, value in puts:
        smoother = smoothers.setdefault((metric, subject), Fading(0.3 if metric == "capacity" else 0))
        expected[metric, subject] = (smoother.add(value), 1.0)
    assert dict(latest.snapshot(2).figures) == expected


# ---- the monitor around it


def monitor(tmp_path, **settings):
    workers = SimpleNamespace(local=True, driver_pid=os.getpid(), listed=lambda: WorkerListing([]), close=lambda: None)
    topology = Topology("app", [Spout("read", Rate(1))], [])
    return Monitor(topology, str(tmp_path), workers, MonitorSettings(**settings))


def test_the_constructor_starts_nothing_and_stop_ends_all_that_start_has_started(tmp_path):
    before = set(threading.enumerate())
    made = monitor(tmp_path, prometheus_port=0, webhook="http://127.0.0.1:9/", machines_every=0)
    assert set(threading.enumerate()) == before
    made.start()
    started = {thread.name for thread in set(threading.enumerate()) - before}
    assert {"foretide-sampler", "foretide-store-app", "foretide-webhook"} < started
    made.stop()
    assert set(threading.enumerate()) == before


def test_a_port_that_is_taken_leaves_nothing_started(tmp_path):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        made = monitor(tmp_path, prometheus_port=taken.getsockname()[1])
        before = set(threading.enumerate())
        with pytest.raises(MonitoringError, match="cannot serve Prometheus"):
            made.start()
        assert set(threading.enumerate()) == before
    made.stop()


def test_series_of_an_operator_begin_anew_when_it_has_another_number_of_tasks():
    latest = LatestValues("app", {"capacity": lambda: Fading(0.75)})
    latest.set_pool("count", 3)
    latest.put([sample(8), sample(100, "other"), *[sample(5, f"count/{task}", "task_rows") for task in range(3)]])
    latest.set_pool("count", 3)
    latest.put([sample(16)])
    assert latest.snapshot(10).value("capacity", "count") == 10
    latest.set_pool("count", 2)
    latest.put([sample(40), *[sample(7, f"count/{task}", "task_rows") for task in range(2)]])
    snapshot = latest.snapshot(10)
    assert snapshot.value("capacity", "count") == 40
    assert snapshot.value("capacity", "other") == 100
    assert [snapshot.value("task_rows", f"count/{task}") for task in range(3)] == [7, 7, None]


def test_a_problem_of_another_part_is_shown_until_it_is_over(tmp_path):
    made = monitor(tmp_path)
    made.note_problem("control folder", "it cannot be written")
    assert "it cannot be written" in made.snapshot().problems
    made.note_problem("control folder", None)
    assert "it cannot be written" not in made.problems
