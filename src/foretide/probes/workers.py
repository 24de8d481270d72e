"""Workers on this host, their processes and metrics. A worker is an executor, or the driver in local mode."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foretide.metrics.metric import Sample
from foretide.metrics.worker_metrics import JVM_RULES, PROCESS_RULES
from foretide.probes.jvm import JvmProbe
from foretide.probes.process import ProcessCounters, ProcessProbe, process_samples
from foretide.probes.process_files import process_ids, read_stat

DRIVER = "driver"
"""The worker of local mode, where tasks run inside the driver's JVM; Spark gives it this executor id."""

_MAIN_CLASSES = ("CoarseGrainedExecutorBackend", "KubernetesExecutorBackend")
_RULES = (*PROCESS_RULES, *JVM_RULES)


@dataclass(frozen=True, slots=True)
class ExecutorProcess:
    """An executor's JVM on this host. `host` is the name by which Spark knows the machine."""

    executor_id: str
    app_id: str
    pid: int
    host: str


def find_executors(app_id: str | None = None) -> list[ExecutorProcess]:
    """The executors on this host, of one application or of all, in the order in which they started."""
    found = [executor for pid in process_ids() if (executor := executor_of(pid, _arguments(pid))) is not None]
    started = {executor.pid: stat.started for executor in found if (stat := read_stat(executor.pid)) is not None}
    first: dict[tuple[str, str], ExecutorProcess] = {}
    for executor in sorted(found, key=lambda executor: (started.get(executor.pid, 0), executor.pid)):
        # a forked child looks like its parent until it executes another program
        if executor.pid in started and app_id in {None, executor.app_id}:
            first.setdefault((executor.app_id, executor.executor_id), executor)
    return list(first.values())


def executor_of(pid: int, arguments: Sequence[str]) -> ExecutorProcess | None:
    """The executor of a command line; None for other programs, such as a shell or `tini` in front of one.

    >>> words = "/usr/bin/java -Xmx1g org.apache.spark.executor.CoarseGrainedExecutorBackend --executor-id 3"
    >>> executor_of(71, [*words.split(), "--hostname", "b", "--app-id", "app-1"])
    ExecutorProcess(executor_id='3', app_id='app-1', pid=71, host='b')
    """
    if not arguments or Path(arguments[0]).name != "java":
        return None
    main = next((place for place, word in enumerate(arguments) if word.endswith(_MAIN_CLASSES)), None)
    if main is None:
        return None
    options = dict(zip(arguments[main + 1 :], arguments[main + 2 :], strict=False))
    if "--executor-id" not in options or "--app-id" not in options:
        return None
    return ExecutorProcess(options["--executor-id"], options["--app-id"], pid, options.get("--hostname", ""))


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


class WorkerProbe:
    """One worker on this host. Each call of `sample` covers the time since the last one."""

    def __init__(
        self,
        worker: str,
        pid: int,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.worker = worker
        self._process = ProcessProbe(pid, wall, clock)
        self._jvm = JvmProbe(pid)
        self._before: ProcessCounters | None = None

    @property
    def gone(self) -> bool:
        """Whether the process has ended."""
        return self._process.gone

    def sample(self) -> list[Sample]:
        """Gauges, and rates since the last call, of the process, the Python processes below it, and the JVM."""
        counters = self._process.read()
        if counters.values:
            counters = replace(counters, values={**counters.values, **self._jvm.read()})
        before, self._before = self._before, counters
        return process_samples(self.worker, before, counters, _RULES)
