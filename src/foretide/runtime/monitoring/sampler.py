"""Samples workers and machines in a thread of its own. What cannot be read is described, and tried again."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from foretide.metrics.from_batch import worker_samples
from foretide.probes.machine import LocalMachine
from foretide.probes.node_exporter import NodeExporter, ProbeUnavailableError
from foretide.probes.workers import WorkerProbe, find_executors
from foretide.runtime.threads import Worker

if TYPE_CHECKING:
    from foretide.metrics.batch import TaskRun
    from foretide.metrics.metric import Sample
    from foretide.spark.executors import Workers

_POLL_SECONDS = 0.25
_STOP_TIMEOUT_SECONDS = 2.0
_MAX_RUNS = 100_000


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
        self._put(self._task_samples())
        listed = self._workers.listed()
        self._put(listed.samples)
        for worker, pid in self._processes().items():
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
