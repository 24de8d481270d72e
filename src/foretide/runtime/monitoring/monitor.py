"""Monitoring of one pipeline: takes in every batch, worker and machine, and hands out snapshots.

What fails in here is described in `problems` and goes no further: monitoring degrades, the query runs on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from foretide.control_folder.filesystem import absolute
from foretide.metrics.from_batch import BatchContext, stream_samples
from foretide.metrics.from_tasks import slowness_samples
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key, Snapshot, freeze
from foretide.runtime.monitoring.alarms import AlarmManager
from foretide.runtime.monitoring.prometheus import PrometheusEndpoint
from foretide.runtime.monitoring.sampler import Sampler
from foretide.runtime.monitoring.tuple_latency import TupleLatency
from foretide.spark.executors.executors import Workers
from foretide.status.running import default_store
from foretide.store.metric_store import MetricStore
from foretide.store.writer import StoreWriter, WriterSettings
from foretide.topology.shape import sole_sources

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.alarm_rules import Alarm
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport
    from foretide.metrics.smoothing import Smoother
    from foretide.settings.run import MonitorSettings
    from foretide.topology.graph import Topology

_MAX_SERIES = 100_000
_MAX_AGE_SECONDS = 3600.0


class Monitor:
    """Monitors one pipeline. `see` takes in a batch; `snapshot` returns all that is known.

    The constructor starts nothing; `start` starts the store's writer, the endpoint for Prometheus, the webhook and the
    sampling of workers and machines.
    """

    def __init__(self, topology: Topology, control_folder: str, workers: Workers, settings: MonitorSettings) -> None:
        self.name = topology.name
        self._tuple_latency = TupleLatency.of(topology)
        self._sole_sources = sole_sources(topology)
        self._latest = LatestValues(topology.name, settings.smoothing)
        self._last_finished: float | None = None
        self._listeners: list[Callable[[list[Sample]], None]] = []
        self.store = default_store(control_folder, topology.name) if settings.store is None else settings.store
        self.writer = self._make_writer(settings.retention) if self.store else None
        self._alarms = AlarmManager(topology.name, settings.rules, self.writer, settings.webhook)
        self._sampler = Sampler(
            workers, self.put, settings.workers_every, settings.machines_every, settings.node_exporters
        )
        port = settings.prometheus_port
        self.prometheus = None if port is None else PrometheusEndpoint(port, self)

    @classmethod
    def of_active(cls, topology: Topology, control_folder: ControlFolder, settings: MonitorSettings) -> Monitor:
        """A monitor of the workers of the running Spark context."""
        return cls(topology, absolute(control_folder.location), Workers.of_active(), settings)

    def _make_writer(self, retention: float) -> StoreWriter:
        settings = WriterSettings(retention_seconds=retention or None)
        return StoreWriter(lambda: MetricStore.open(self.store), self.name, settings)

    def start(self) -> None:
        """Start. Raises MonitoringError, with nothing started, if the port for Prometheus is taken."""
        if self.prometheus is not None:
            self.prometheus.start()
        if self.writer is not None:
            self.writer.start()
        self._alarms.start()
        self._sampler.start()

    def stop(self) -> None:
        """Stop, and keep what was measured."""
        self._sampler.stop()
        self._alarms.close()
        if self.prometheus is not None:
            self.prometheus.close()
        if self.writer is not None:
            self.writer.close()

    # ---- taking in

    def see(self, report: BatchReport, failures: list[AuditFailure]) -> None:
        """Take a batch in."""
        self._sampler.see(report.tasks)
        samples = stream_samples(report, self._context(report))
        self.put(samples + slowness_samples(report.tasks or (), report.finished))
        self._alarms.keep_audit(report.finished, failures)
        self._alarms.judge(self.snapshot())

    def put(self, samples: list[Sample]) -> None:
        """Take samples in, whoever measured them."""
        self._latest.put(samples)
        if self.writer is not None:
            self.writer.put(samples)
        for listener in self._listeners:
            listener(samples)

    def on_samples(self, listener: Callable[[list[Sample]], None]) -> None:
        """Call `listener(samples)` for all that is measured; it must be quick, and not fail."""
        self._listeners.append(listener)

    def foresee(self, forecasts: Mapping[Key, float]) -> None:
        """Take forecasts in: alarm rules may refer to them."""
        self._latest.foresee(forecasts)

    def _context(self, report: BatchReport) -> BatchContext:
        """If the clock was set back, the batch's own duration stands in for the time since the last batch."""
        since = report.finished - self._last_finished if self._last_finished is not None else 0.0
        self._last_finished = report.finished
        spouts = self._tuple_latency.figures(report)
        latency = self._tuple_latency.latency(report, spouts)
        return BatchContext(since if since > 0 else report.duration, self.name, spouts, latency, self._sole_sources)

    # ---- handing out

    def snapshot(self) -> Snapshot:
        """The newest values at this moment."""
        return self._latest.snapshot(time.time(), tuple(self.problems))

    @property
    def alarms(self) -> list[Alarm]:
        """The alarms that hold."""
        return self._alarms.active

    @property
    def problems(self) -> list[str]:
        """What monitoring cannot do at present."""
        store = self.writer.problem if self.writer is not None else None
        found = [*self._sampler.problems.values(), store, self._alarms.problem]
        return [problem for problem in found if problem]


class LatestValues:
    """The newest value of every series, smoothed if so configured. Many threads write; a snapshot is a copy."""

    def __init__(self, query: str, smoothers: Mapping[str, Callable[[], Smoother]] | None = None) -> None:
        self._query = query
        self._smoother_of = smoothers or {}
        self._smoothers: dict[Key, Smoother] = {}
        self._values: dict[Key, tuple[float, float]] = {}
        self._forecasts: dict[Key, float] = {}
        self._lock = threading.Lock()

    def put(self, samples: Iterable[Sample]) -> None:
        """Take samples in. The last one counts even if it is older: the clock may have been set back."""
        with self._lock:
            for sample in samples:
                key = (sample.metric, sample.subject)
                self._values[key] = (self._smoothed(key, sample.value), sample.at)
            if len(self._values) > _MAX_SERIES:
                self._forget_old()

    def foresee(self, forecasts: Mapping[Key, float]) -> None:
        """Replace the forecasts."""
        with self._lock:
            self._forecasts = dict(forecasts)

    def snapshot(self, at: float, problems: tuple[str, ...] = ()) -> Snapshot:
        """All values, as a copy."""
        with self._lock:
            return Snapshot(at, self._query, freeze(self._values), freeze(self._forecasts), problems)

    def _smoothed(self, key: Key, value: float) -> float:
        make = self._smoother_of.get(key[0])
        if make is None:
            return value
        smoother = self._smoothers.get(key)
        if smoother is None:
            smoother = self._smoothers[key] = make()
        return smoother.add(value)

    def _forget_old(self) -> None:
        newest = max(measured for _, measured in self._values.values())
        self._values = {key: kept for key, kept in self._values.items() if kept[1] >= newest - _MAX_AGE_SECONDS}
        self._smoothers = {key: smoother for key, smoother in self._smoothers.items() if key in self._values}
