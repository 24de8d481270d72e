"""Workers on this host, their processes and metrics. A worker is an executor, or the driver in local mode."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foretide.metrics.metric import Sample
from foretide.metrics.worker_metrics import JVM_RULES, PROCESS_RULES
from foretide.probes.process import ProcessCounters, ProcessProbe, process_ids, process_samples, read_stat

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


MAX_TRIES = 3
"""Readings in which the file is looked for. A JVM creates it when it starts, or never."""

_MAPPED = re.compile(rb"(/\S*/hsperfdata_[^/\n]+/\d+)$", re.MULTILINE)
_MAGIC = b"\xca\xfe\xc0\xc0"
_LITTLE_ENDIAN = 1
_MAJOR = 2
_LONG = b"J"
_PROLOGUE = struct.calcsize("=4sBBBBiiqii")
_MAX_BYTES = 1 << 22

_HEAP_USED = re.compile(r"sun\.gc\.generation\.\d+\.space\.\d+\.used")
_HEAP_CAPACITY = re.compile(r"sun\.gc\.generation\.\d+\.capacity")
_OLD_USED = re.compile(r"sun\.gc\.generation\.1\.space\.\d+\.used")
_GC_TICKS = re.compile(r"sun\.gc\.collector\.\d+\.time")
_GC_COUNT = re.compile(r"sun\.gc\.collector\.\d+\.invocations")


class JvmProbe:
    """Counters of one JVM, from the file in which HotSpot publishes them (hsperfdata, as read by jstat).

    Nothing is attached to the JVM. The file is found among those it has mapped, which works in a container too. A JVM
    that was started with -XX:-UsePerfData or -XX:+PerfDisableSharedMem has no such file, and its counters are unknown.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._path: Path | None = None
        self._tries = MAX_TRIES

    def read(self) -> dict[str, float]:
        """The current counters; none if the JVM does not publish them, has ended, or is not a JVM."""
        if self._path is None and self._tries:
            self._tries -= 1
            self._path = published_file(self.pid)
        if self._path is None:
            return {}
        try:
            with self._path.open("rb") as file:
                return figures(parse_hsperfdata(file.read(_MAX_BYTES)))
        except OSError:
            return {}


def published_file(pid: int) -> Path | None:
    """The file in which a JVM publishes its counters."""
    try:
        found = _MAPPED.search(Path(f"/proc/{pid}/maps").read_bytes())
    except OSError:
        return None
    return None if found is None else Path(f"/proc/{pid}/root{found[1].decode()}")


def parse_hsperfdata(data: bytes) -> dict[str, int]:
    """The numbers in such a file by name; none if the JVM is not ready, or the file is not of version 2.

    A head of 32 bytes gives the byte order and where entries begin. Each entry has its length, the places of its name
    and value, and its type; only single long numbers are read.
    """
    if len(data) < _PROLOGUE or data[:4] != _MAGIC:
        return {}
    order = "<" if data[4] == _LITTLE_ENDIAN else ">"
    major, _, ready, _, _, _, place, entries = struct.unpack_from(f"{order}BBBiiqii", data, 5)
    if major != _MAJOR or not ready:
        return {}
    head, number = struct.Struct(f"{order}iiicBBBi"), struct.Struct(f"{order}q")
    values = {}
    for _ in range(entries):
        if place < _PROLOGUE or place + head.size > len(data):
            break
        length, name_at, vector, kind, _, _, _, value_at = head.unpack_from(data, place)
        if length < head.size or place + length > len(data):
            break
        if kind == _LONG and not vector and 0 <= value_at <= length - number.size:
            name = data[place + name_at : place + length].partition(b"\0")[0]
            values[name.decode(errors="replace")] = number.unpack_from(data, place + value_at)[0]
        place += length
    return values


def figures(numbers: Mapping[str, int]) -> dict[str, float]:
    """The counters that metrics need, from the JVM's names. Times are in ticks of a clock of the given frequency.

    Some collectors publish sizes only after their first collection; a heap or metaspace of 0 is unknown.
    """
    frequency = numbers.get("sun.os.hrt.frequency")
    found = {
        "heap_bytes": _sum(numbers, _HEAP_USED) or None,
        "non_heap_bytes": _number(numbers, "sun.gc.metaspace.used") or None,
        "heap_capacity_bytes": _sum(numbers, _HEAP_CAPACITY),
        "old_generation_bytes": _sum(numbers, _OLD_USED),
        "gc_ms": _milliseconds(_sum(numbers, _GC_TICKS), frequency),
        "gc_count": _sum(numbers, _GC_COUNT),
        "safepoint_ms": _milliseconds(_number(numbers, "sun.rt.safepointTime"), frequency),
        "compile_ms": _milliseconds(_number(numbers, "java.ci.totalTime"), frequency),
        "loaded_classes": _loaded_classes(numbers),
        "jvm_threads": _number(numbers, "java.threads.live"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _number(numbers: Mapping[str, int], name: str) -> float | None:
    return float(numbers[name]) if name in numbers else None


def _sum(numbers: Mapping[str, int], names: re.Pattern[str]) -> float | None:
    known = [value for name, value in numbers.items() if names.fullmatch(name)]
    return float(sum(known)) if known else None


def _milliseconds(ticks: float | None, frequency: int | None) -> float | None:
    return ticks * 1000 / frequency if ticks is not None and frequency else None


def _loaded_classes(numbers: Mapping[str, int]) -> float | None:
    """Classes of the shared archive are counted apart from the others."""
    if "java.cls.loadedClasses" not in numbers:
        return None
    loaded = numbers["java.cls.loadedClasses"] + numbers.get("java.cls.sharedLoadedClasses", 0)
    unloaded = numbers.get("java.cls.unloadedClasses", 0) + numbers.get("java.cls.sharedUnloadedClasses", 0)
    return float(loaded - unloaded)
