"""Reads workers and machines on their own cadence, in a thread of its own. What cannot be read is said, and goes on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from foretide.metrics.from_tasks import worker_samples
from foretide.probes.local_machine import LocalMachine
from foretide.probes.node_exporter import NodeExporter, ProbeUnavailableError
from foretide.probes.workers import WorkerProbe, find_executors

if TYPE_CHECKING:
    from foretide.metrics.batch import TaskRun
    from foretide.metrics.metric import Sample
    from foretide.spark.executors.executors import Workers

_TURN = 0.25
_MOST_RUNS = 100_000


class Sampler:
    """Workers every few seconds, machines more rarely. `put` takes what was read; `problems` says what could not be."""

    def __init__(
        self,
        workers: Workers,
        put: Callable[[list[Sample]], None],
        workers_every: float,
        machines_every: float,
        node_exporters: Mapping[str, str],
    ) -> None:
        self._workers, self._put = workers, put
        self._every = {"workers": workers_every, "machines": machines_every}
        self._due = dict.fromkeys(self._every, 0.0)
        self._probes: dict[tuple[str, int], WorkerProbe] = {}
        self._here = LocalMachine(socket.gethostname())
        self._exporters = {host: NodeExporter(host, url) for host, url in node_exporters.items()}
        self._runs: list[TaskRun] = []
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.problems: dict[str, str] = {}
        self._thread = threading.Thread(target=self._go_round, name="foretide-surroundings", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a reading under way is not waited for longer than a moment."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)
        self._workers.close()

    def see(self, runs: tuple[TaskRun, ...] | None) -> None:
        """Note the tasks of a batch; the next reading of the workers speaks of them."""
        with self._lock:
            self._runs += runs or ()
            del self._runs[:-_MOST_RUNS]

    # ---- the round

    def _go_round(self) -> None:
        while not self._stopping.wait(_TURN):
            now = time.monotonic()
            for what, read in (("workers", self._read_workers), ("machines", self._read_machines)):
                if self._every[what] and now >= self._due[what]:
                    self._due[what] = now + self._every[what]
                    self._guarded(what, read)

    def _guarded(self, what: str, read: Callable[[], None]) -> None:
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
        """Workers on this host and their processes; in local mode that is the driver's JVM."""
        if self._workers.local:
            return {"driver": self._workers.driver_pid}
        return {found.executor_id: found.pid for found in find_executors(self._workers.application)}

    def _task_samples(self) -> list[Sample]:
        """What the tasks since the last reading tell; none when no batch has ended meanwhile."""
        with self._lock:
            runs, self._runs = self._runs, []
        if not runs:
            return []
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        return worker_samples(runs, seconds, time.time())

    def _read_machines(self) -> None:
        self._put(self._here.sample())
        for host, exporter in self._exporters.items():
            try:
                self._put(exporter.sample())
            except ProbeUnavailableError as error:
                self.problems[host] = str(error)
            else:
                self.problems.pop(host, None)
