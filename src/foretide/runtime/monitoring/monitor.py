"""Monitoring of one pipeline: takes in every batch, worker and machine, and hands out snapshots.

What fails in here is described in `problems` and goes no further: monitoring degrades, the query runs on.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from foretide.control_folder.filesystem import absolute
from foretide.metrics.from_batch import BatchContext, slowness_samples, stream_samples, worker_samples
from foretide.metrics.metric import Sample
from foretide.metrics.snapshot import Key, Snapshot, freeze
from foretide.probes.machine import LocalMachine
from foretide.probes.node_exporter import NodeExporter, ProbeUnavailableError
from foretide.probes.workers import WorkerProbe, find_executors
from foretide.runtime.monitoring.publishing import AlarmManager, PrometheusEndpoint
from foretide.runtime.monitoring.tuple_latency import TupleLatency
from foretide.runtime.threads import Worker
from foretide.secrets import masked
from foretide.spark.executors import Workers
from foretide.status.pipelines import default_store
from foretide.store.metric_store import MetricStore
from foretide.store.upkeep import WriterSettings
from foretide.store.writer import StoreWriter
from foretide.topology.shape import sole_sources

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.metrics.alarm_rules import Alarm
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.batch import BatchReport, TaskRun
    from foretide.metrics.snapshot import Smoother
    from foretide.runtime.monitoring.query_latency import QueryLatency
    from foretide.settings.run import MonitorSettings
    from foretide.topology.graph import Topology

_MAX_SERIES = 100_000
_MAX_AGE_SECONDS = 3600.0
_POLL_SECONDS = 0.25
_MIN_PERIOD_SECONDS = 1.0
_STOP_TIMEOUT_SECONDS = 2.0
_MAX_RUNS = 100_000


class Monitor:
    """Monitors one pipeline. `see` takes in a batch; `snapshot` returns all that is known.

    The constructor starts nothing; `start` starts the store's writer, the endpoint for Prometheus, the webhook and the
    sampling of workers and machines.
    """

    def __init__(
        self,
        topology: Topology,
        control_folder: str,
        workers: Workers,
        settings: MonitorSettings,
        latency: QueryLatency | None = None,
    ) -> None:
        self.name = topology.name
        self._query_latency = latency
        self._tuple_latency: TupleLatency | QueryLatency = latency or TupleLatency.of(topology)
        self._sole_sources = sole_sources(topology)
        self._latest = LatestValues(topology.name, settings.smoothing)
        self._last_finished: float | None = None
        self._listeners: list[Callable[[list[Sample]], None]] = []
        self._noted: dict[str, str] = {}
        self.store = default_store(control_folder, topology.name) if settings.store is None else settings.store
        self.writer: StoreWriter | None = None
        if self.store:
            kept = WriterSettings(retention_seconds=settings.retention or None, steps=settings.steps)
            self.writer = StoreWriter(lambda: MetricStore.open(self.store), self.name, kept)
        self._alarms = AlarmManager(topology.name, settings.rules, self.writer, settings.webhook)
        self._sampler = Sampler(
            workers, self.put, settings.workers_every, settings.machines_every, settings.node_exporters
        )
        port = settings.prometheus_port
        self.prometheus = None if port is None else PrometheusEndpoint(port, self, settings.prometheus_host)

    @classmethod
    def of_active(
        cls,
        topology: Topology,
        control_folder: ControlFolder,
        settings: MonitorSettings,
        latency: QueryLatency | None = None,
    ) -> Monitor:
        """A monitor of the workers of the running Spark context."""
        return cls(topology, absolute(control_folder.location), Workers.of_active(), settings, latency)

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
        for edge, flow in (report.edges or {}).items():
            if flow.per_task is not None:
                self._latest.set_pool(edge, len(flow.per_task))
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

    def hasten(self) -> None:
        """Read the workers as soon as the last reading is a second old, once: somebody is about to decide on them."""
        self._sampler.hasten()

    def set_forecasts(self, forecasts: Mapping[Key, float]) -> None:
        """Take forecasts in: alarm rules may refer to them."""
        self._latest.set_forecasts(forecasts)

    def note_problem(self, part: str, problem: str | None) -> None:
        """Show a problem of another part of the pipeline among those of monitoring; None when it is over."""
        if problem is None:
            self._noted.pop(part, None)
        else:
            self._noted[part] = problem

    def _context(self, report: BatchReport) -> BatchContext:
        """If the clock was set back, the batch's own duration stands in for the time since the last batch."""
        since = report.finished - self._last_finished if self._last_finished is not None else 0.0
        self._last_finished = report.finished
        spouts = self._tuple_latency.figures(report)
        latency = self._tuple_latency.latency(report, spouts)
        if self._query_latency is not None:
            self.note_problem("latency", self._query_latency.problem)
        return BatchContext(since if since > 0 else report.duration, self.name, spouts, latency, self._sole_sources)

    # ---- handing out

    def snapshot(self) -> Snapshot:
        """The newest values at this moment."""
        return self._latest.snapshot(time.time(), tuple(self.problems))

    @property
    def latency_basis(self) -> str | None:
        """What the latency of a query without a topology is measured from; None for a topology."""
        return None if self._query_latency is None else self._query_latency.basis

    @property
    def alarms(self) -> list[Alarm]:
        """The alarms that hold."""
        return self._alarms.active

    @property
    def problems(self) -> list[str]:
        """What monitoring cannot do at present."""
        store = [] if self.writer is None else [self.writer.problem, self.writer.notice]
        found = [*self._noted.values(), *self._sampler.problems.values(), *store, self._alarms.problem]
        return [masked(problem) for problem in found if problem]


class LatestValues:
    """The newest value of every series, smoothed if so configured. Many threads write; a snapshot is a copy."""

    def __init__(self, query: str, smoothers: Mapping[str, Callable[[], Smoother]] | None = None) -> None:
        self._query = query
        self._smoother_of = smoothers or {}
        self._smoothers: dict[Key, Smoother] = {}
        self._values: dict[Key, tuple[float, float]] = {}
        self._pools: dict[str, int] = {}
        self._forecasts: dict[Key, float] = {}
        self._most = _MAX_SERIES
        self._lock = threading.Lock()

    def put(self, samples: Iterable[Sample]) -> None:
        """Take samples in. The last one counts even if it is older: the clock may have been set back."""
        with self._lock:
            for sample in samples:
                key = (sample.metric, sample.subject)
                self._values[key] = (self._smoothed(key, sample.value), sample.at)
            if len(self._values) > self._most:
                self._forget_old()
                self._most = max(_MAX_SERIES, 2 * len(self._values))  # not again before as many more have come

    def set_pool(self, operator: str, tasks: int) -> None:
        """Note how many tasks an operator has. When they are others than before, its series begin anew."""
        with self._lock:
            if self._pools.get(operator, tasks) != tasks:
                kept = {key for key in self._values if key[1].split("/")[0] != operator}
                self._values = {key: value for key, value in self._values.items() if key in kept}
                self._smoothers = {key: smoother for key, smoother in self._smoothers.items() if key in kept}
            self._pools[operator] = tasks

    def set_forecasts(self, forecasts: Mapping[Key, float]) -> None:
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


class Sampler:
    """Samples workers every few seconds, machines less often; 0 seconds for never. The constructor starts nothing.

    Attributes:
        problems: What cannot be read at present, and why.
    """

    def __init__(
        self,
        workers: Workers,
        put: Callable[[list[Sample]], None],
        workers_every: float,
        machines_every: float,
        node_exporters: Mapping[str, str],
    ) -> None:
        self._workers, self._put = workers, put
        self._periods = {"workers": workers_every, "machines": machines_every}
        self._due = dict.fromkeys(self._periods, 0.0)
        self._workers_read = 0.0
        self._probes: dict[tuple[str, int], WorkerProbe] = {}
        self._local_machine = LocalMachine(socket.gethostname())
        self._exporters = {host: NodeExporter(host, url) for host, url in node_exporters.items()}
        self._runs: list[TaskRun] = []
        self._runs_since = time.monotonic()
        self._lock = threading.Lock()
        self.problems: dict[str, str] = {}
        self._worker = Worker("foretide-sampler", self._turn, _POLL_SECONDS, what="sampling")

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()

    def stop(self) -> None:
        """Stop; a reading under way is not waited for longer than a moment."""
        self._worker.stop(_STOP_TIMEOUT_SECONDS)
        self._workers.close()

    def see(self, runs: tuple[TaskRun, ...] | None) -> None:
        """Take in the tasks of a batch, for the next sample of the workers."""
        with self._lock:
            self._runs += runs or ()
            del self._runs[:-_MAX_RUNS]

    def hasten(self) -> None:
        """Read the workers a second after they were read last, if they are read at all."""
        self._due["workers"] = min(self._due["workers"], self._workers_read + _MIN_PERIOD_SECONDS)

    def _turn(self) -> None:
        now = time.monotonic()
        for what, read in (("workers", self._read_workers), ("machines", self._read_machines)):
            if self._periods[what] and now >= self._due[what]:
                self._due[what] = now + self._periods[what]
                self._read(what, read)

    def _read(self, what: str, read: Callable[[], None]) -> None:
        try:
            read()
        except Exception as error:  # noqa: BLE001 - whatever the system answers, the pipeline runs on
            self.problems[what] = f"{what} cannot be read: {error}"
        else:
            self.problems.pop(what, None)

    def _read_workers(self) -> None:
        self._workers_read = time.monotonic()
        self._put(self._task_samples())
        listed = self._workers.listed()
        self._put(listed.samples)
        here = self._processes()
        self._put(self._workers.sent.sample(here))
        for worker, pid in here.items():
            probe = self._probes.get((worker, pid))
            if probe is None:
                probe = self._probes[worker, pid] = WorkerProbe(worker, pid)
            self._put(probe.sample())
            if probe.gone:
                del self._probes[worker, pid]
        if listed.problem:
            raise RuntimeError(listed.problem)

    def _processes(self) -> dict[str, int]:
        """The processes of the workers on this host; in local mode that is the driver's JVM."""
        if self._workers.local:
            return {"driver": self._workers.driver_pid}
        return {found.executor_id: found.pid for found in find_executors(self._workers.application)}

    def _task_samples(self) -> list[Sample]:
        """What the tasks since the last sample show; nothing when no batch has ended meanwhile."""
        with self._lock:
            runs, self._runs = self._runs, []
        if not runs:
            return []
        now = time.monotonic()
        seconds, self._runs_since = now - self._runs_since, now
        return worker_samples(runs, seconds, time.time())

    def _read_machines(self) -> None:
        self._put(self._local_machine.sample())
        for host, exporter in self._exporters.items():
            try:
                self._put(exporter.sample())
            except ProbeUnavailableError as error:
                self.problems[host] = str(error)
            else:
                self.problems.pop(host, None)
