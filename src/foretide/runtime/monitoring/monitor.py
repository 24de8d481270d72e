"""Monitoring of one pipeline: takes every batch, worker and machine in, and hands out snapshots.

What breaks in here is said in `problems` and goes no further: monitoring degrades, the query runs on.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from foretide.metrics.from_batch import BatchContext, stream_samples
from foretide.metrics.slowness import slowness_samples
from foretide.runtime.monitoring.alarms import AlarmManager
from foretide.runtime.monitoring.latest import LatestValues
from foretide.runtime.monitoring.prometheus import PrometheusEndpoint
from foretide.runtime.monitoring.sampler import Sampler
from foretide.runtime.monitoring.tuple_latency import TupleLatency
from foretide.status.running import default_store
from foretide.store.metric_store import MetricStore
from foretide.store.records import AlarmRecord
from foretide.store.writer import StoreWriter, WriterSettings
from foretide.topology.first_edges import sole_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretide.metrics.alarm_rules import Alarm
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport
    from foretide.metrics.metric import Sample
    from foretide.metrics.snapshot import Key, Snapshot
    from foretide.settings.monitoring import MonitorSettings
    from foretide.spark.executors.listing import Workers
    from foretide.topology.graph import Topology

log = logging.getLogger("foretide")


class Monitor:
    """Watches one pipeline. `see` takes a batch in; `snapshot` tells all that is known."""

    def __init__(self, topology: Topology, control: str, workers: Workers, settings: MonitorSettings) -> None:
        self.name = topology.name
        self._arrivals = TupleLatency.of(topology)
        self._sole_sources = sole_sources(topology)
        self._board = LatestValues(topology.name, settings.smoothing)
        self._before: float | None = None
        self._listeners: list[Callable[[list[Sample]], None]] = []
        self.store = default_store(control, topology.name) if settings.store is None else settings.store
        self.writer = self._open_writer(settings.retention) if self.store else None
        self._desk = AlarmManager(topology.name, settings.rules, self._keep_alarms, settings.webhook)
        self._surroundings = Sampler(
            workers, self.put, settings.workers_every, settings.machines_every, settings.node_exporters
        )
        port = settings.prometheus_port
        self.prometheus = None if port is None else PrometheusEndpoint(port, self.snapshot, lambda: self.alarms)

    def _open_writer(self, retention: float) -> StoreWriter:
        writer_settings = WriterSettings(retention_seconds=retention or None)
        return StoreWriter(lambda: MetricStore.open(self.store), self.name, writer_settings).start()

    def start(self) -> None:
        """Begin to read workers and machines."""
        self._surroundings.start()

    def stop(self) -> None:
        """End, and keep what was measured."""
        self._surroundings.stop()
        self._desk.close()
        if self.prometheus is not None:
            self.prometheus.close()
        if self.writer is not None:
            self.writer.close()

    # ---- taking in

    def see(self, report: BatchReport, audited: list[AuditFailure]) -> None:
        """Take a batch in."""
        self._surroundings.see(report.tasks)
        self.put(stream_samples(report, self._around(report)) + slowness_samples(report.tasks or (), report.finished))
        self._keep_alarms([_record(report.finished, alarm) for alarm in audited])
        self._desk.judge(self.snapshot())

    def put(self, samples: list[Sample]) -> None:
        """Take samples in, whoever measured them."""
        self._board.put(samples)
        if self.writer is not None:
            self.writer.put(samples)
        for listener in self._listeners:
            listener(samples)

    def on_samples(self, listener: Callable[[list[Sample]], None]) -> None:
        """Call `listener(samples)` whenever something was measured; it must be quick, and not fail."""
        self._listeners.append(listener)

    def foresee(self, forecasts: Mapping[Key, float]) -> None:
        """Take in what is expected: alarms may rest on it."""
        self._board.foresee(forecasts)

    def _around(self, report: BatchReport) -> BatchContext:
        """A clock that jumped back makes an interval of no length; the batch's own duration stands in for it."""
        since = report.finished - self._before if self._before is not None else 0.0
        self._before = report.finished
        spouts = self._arrivals.figures(report)
        latency = self._arrivals.latency(report, spouts)
        return BatchContext(since if since > 0 else report.duration, self.name, spouts, latency, self._sole_sources)

    def _keep_alarms(self, alarms: list[AlarmRecord]) -> None:
        if self.writer is not None and alarms:
            self.writer.put_alarms(alarms)

    # ---- handing out

    def snapshot(self) -> Snapshot:
        """All levels at this instant."""
        return self._board.snapshot(time.time(), tuple(self.problems))

    @property
    def alarms(self) -> list[Alarm]:
        """The alarms that hold."""
        return self._desk.active

    @property
    def problems(self) -> list[str]:
        """What monitoring cannot do at present."""
        store = self.writer.problem if self.writer is not None else None
        found = [*self._surroundings.problems.values(), store, self._desk.problem]
        return [problem for problem in found if problem]


def _record(at: float, alarm: AuditFailure) -> AlarmRecord:
    return AlarmRecord(at, alarm.kind, "critical", alarm.edge or "", alarm.message, "audit")
