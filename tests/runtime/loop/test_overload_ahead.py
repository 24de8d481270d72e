"""The alarm `overload-ahead`, raised by the live monitor from what the live forecasts say and the loop trusts."""

import time
from types import SimpleNamespace

import pytest

from foretide.control.step import Control
from foretide.control.world.setup import Observed, OperatorSetup, Setup, Target
from foretide.control_folder.folder import ControlFolder
from foretide.metrics.batch import BatchReport, TaskRun
from foretide.metrics.metric import Sample
from foretide.runtime.forecasts.service import ForecastService
from foretide.runtime.loop.controller import Controller, Journal
from foretide.runtime.loop.world_reader import WorldReader, WorldRecorder
from foretide.runtime.monitoring.monitor import Monitor
from foretide.settings.forecasts import ForecastSettings
from foretide.settings.run import MonitorSettings
from foretide.store.metric_store import MetricStore
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.sources import Rate

SETUP = Setup("q", (OperatorSetup("read", spout=True), OperatorSetup("work", 1, "work")), (("read", "work"),))


def task_of(rows):
    """A task that takes a millisecond for a row."""
    times = (0.0, float(rows), float(rows), 0.0, 0.0, 0.0, 0.0)
    return TaskRun("work", 0, "work", None, False, "0", "here", *times, rows, rows, 0, 0, 0)


class Eyes:
    def see(self, report, routes):
        pass

    def note_limits(self, at):
        pass

    def observed(self):
        return Observed(executors={"0": "here"})


@pytest.fixture(name="clock")
def clock_of_all(monkeypatch):
    clock = SimpleNamespace(now=1_000_000.0)
    monkeypatch.setattr(time, "time", lambda: clock.now)
    return clock


def test_a_load_that_grows_beyond_what_can_be_taken_is_announced(tmp_path, clock):
    topology = Topology("q", [Spout("read", Rate(1))], [Bolt("work", lambda df: df, [From("read")])])
    store = str(tmp_path / "m.db")
    workers = SimpleNamespace(close=lambda: None)
    monitor = Monitor(topology, str(tmp_path), workers, MonitorSettings(store=store))
    monitor.writer.start()
    folder = ControlFolder(str(tmp_path))
    follower = SimpleNamespace(control_folder=folder, monitor=monitor, routes=folder.routes())
    running = SimpleNamespace(follower=follower, setup=lambda _: SETUP)
    settings = ForecastSettings(spouts=("read",), horizons=(1.0, 10.0, 30.0), min_history=3000.0, workers=False)
    forecasts = ForecastService(settings, clock=lambda: clock.now)
    monitor.on_samples(forecasts.see)
    reader = WorldReader(running, SimpleNamespace(limits=[], range=None), Eyes(), Target(2.0), forecasts)
    controller = Controller(Control(mode="advise"), reader, None, Journal(None), WorldRecorder(monitor.writer), folder)
    raised = []
    for second in range(150):
        clock.now += 1.0
        rows = 500 + 5 * second
        monitor.see(BatchReport(second, clock.now, 0.9, rows, 1, {}, tasks=(task_of(rows),)), [])
        monitor.put([Sample("arrival_rate", "read", clock.now, float(rows))])
        forecasts.turn()
        controller._cycle()
        raised.append("overload-ahead" in {alarm.rule.name for alarm in monitor.alarms})
    assert raised.index(True) > 30
    limit = monitor.snapshot().value("sustainable_rows_per_second")
    at_alarm = 500 + 5 * raised.index(True)
    assert at_alarm < limit
    reader.close()
    assert monitor.snapshot().forecasts == {}
    monitor.writer.flush(30)
    with MetricStore.open(store) as kept:
        assert len(kept.forecasts("q")) > 100
    monitor.stop()
