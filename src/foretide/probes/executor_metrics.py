"""Executors on other hosts: what Spark's metrics system in each of them sends to the driver.

Every executor reports the gauges of its JVM, and of its process if Spark reads them, once in a period: one UDP packet a
gauge, in Graphite's text format, by a sink that Spark has built in. Nothing but settings is needed on the other host.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Mapping
from typing import ClassVar

from foretide.metrics.metric import Reading, Sample, samples
from foretide.metrics.worker_metrics import JVM_RULES, PROCESS_RULES

PERIOD_SECONDS = 5
_STALE_SECONDS = 60.0
_MAX_PACKET = 2048
_MAX_EXECUTORS = 10_000
_SINK = "spark.metrics.conf.executor.sink.foretide"
PORT_SETTING = f"{_SINK}.port"

_SINGLE = {
    "jvm.heap.used": "heap_bytes",
    "jvm.heap.committed": "heap_capacity_bytes",
    "jvm.pools.Metaspace.used": "non_heap_bytes",
    "ExecutorMetrics.ProcessTreeJVMRSSMemory": "rss_bytes",
    "ExecutorMetrics.ProcessTreeJVMVMemory": "virtual_bytes",
    "ExecutorMetrics.ProcessTreePythonRSSMemory": "children_rss_bytes",
}
_OLD_GENERATION = re.compile(r"jvm\.pools\.([^.]*Old-Gen|Tenured-Gen)\.used")
_COLLECTOR = re.compile(r"jvm\.([^.]+)\.(count|time)")
_SENT = (
    r"\.(jvm\.(heap\.(used|committed)|pools\.(Metaspace|[^.]*Old-Gen|Tenured-Gen)\.used|[^.]+\.(count|time))"
    r"|ExecutorMetrics\.ProcessTree(JVM|Python)\w+)$"
)
_ASKED = re.compile(_SENT)
_LINE = re.compile(r"([^.\s]+)\.([^.\s]+)\.(\S+) (-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?) \d+")
_RULES = (*PROCESS_RULES, *JVM_RULES)


class ExecutorMetrics:
    """Takes in what executors send, of all sessions of this process; it lives as long as that."""

    _open: ClassVar[dict[int, ExecutorMetrics]] = {}

    def __init__(self, host: str) -> None:
        self.host = host
        self._values: dict[tuple[str, str], dict[str, float]] = {}
        self._seen: dict[tuple[str, str], tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._socket = _bound(host)
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._receive, name="foretide-executor-metrics", daemon=True).start()

    @classmethod
    def open(cls, host: str) -> ExecutorMetrics:
        """Listen on a free port of a host name or address under which executors reach this process; once for all."""
        for known in cls._open.values():
            if known.host == host:
                return known
        receiver = cls(host)
        cls._open[receiver.port] = receiver
        return receiver

    @classmethod
    def on(cls, port: int) -> ExecutorMetrics | None:
        """The one that listens on a port in this process."""
        return cls._open.get(port)

    def settings(self) -> dict[str, str]:
        """What a session needs so that its executors send their metrics here."""
        return {
            "spark.metrics.conf.executor.source.jvm.class": "org.apache.spark.metrics.source.JvmSource",
            f"{_SINK}.class": "org.apache.spark.metrics.sink.GraphiteSink",
            f"{_SINK}.host": self.host,
            PORT_SETTING: str(self.port),
            f"{_SINK}.protocol": "udp",
            f"{_SINK}.period": str(PERIOD_SECONDS),
            f"{_SINK}.unit": "seconds",
            f"{_SINK}.regex": _SENT,
        }

    def readings(self, application: str) -> dict[str, Reading]:
        """The last counters of every executor of an application that has sent some within the last minute."""
        now = time.monotonic()
        with self._lock:
            for key in [key for key, (_, clock) in self._seen.items() if now - clock > _STALE_SECONDS]:
                del self._seen[key], self._values[key]
            return {
                executor: Reading(*seen, counters(self._values[app, executor]))
                for (app, executor), seen in self._seen.items()
                if app == application
            }

    def close(self) -> None:
        """Listen no more."""
        self._open.pop(self.port, None)
        self._socket.close()

    def _receive(self) -> None:
        while True:
            try:
                packet = self._socket.recv(_MAX_PACKET)
            except OSError:
                return  # closed
            self.take(packet.decode(errors="replace"))

    def take(self, text: str) -> None:
        """Take in a packet; what is no metric that was asked for is left out."""
        for app, executor, name, value in _LINE.findall(text):
            with self._lock:
                known = (app, executor) in self._values or len(self._values) < _MAX_EXECUTORS
                if known and _ASKED.fullmatch(f".{name}"):
                    self._values.setdefault((app, executor), {})[name] = float(value)
                    self._seen[app, executor] = (time.time(), time.monotonic())


class SentMetrics:
    """Samples of the executors of one application, from what they send. Each call covers the time since the last."""

    def __init__(self, receiver: ExecutorMetrics | None, application: str) -> None:
        self._receiver, self._application = receiver, application
        self._before: dict[str, Reading] = {}

    def sample(self, known: Mapping[str, object]) -> list[Sample]:
        """Samples of all executors that have sent something new, without those that are `known` by another way."""
        if self._receiver is None:
            return []
        found = []
        readings = self._receiver.readings(self._application)
        for executor, reading in readings.items():
            before = self._before.get(executor)
            if executor not in known and (before is None or reading.clock > before.clock):
                found += samples(_RULES, executor, before, reading)
        self._before = readings
        return found


def counters(values: Mapping[str, float]) -> dict[str, float]:
    """Counters by our names from those that an executor has sent. Sizes of 0 are unknown: Spark does not read them.

    >>> counters({"jvm.heap.used": 5e6, "jvm.Copy.count": 3, "jvm.Copy.time": 20, "jvm.direct.count": 9})
    {'heap_bytes': 5000000.0, 'gc_count': 3.0, 'gc_ms': 20.0}
    """
    found = {ours: float(values[name]) for name, ours in _SINGLE.items() if values.get(name)}
    old = [value for name, value in values.items() if _OLD_GENERATION.fullmatch(name)]
    if old:
        found["old_generation_bytes"] = float(sum(old))
    collectors = {match[1] for name in values if (match := _COLLECTOR.fullmatch(name)) and match[2] == "time"}
    if collectors:
        found["gc_count"] = float(sum(values.get(f"jvm.{each}.count", 0.0) for each in collectors))
        found["gc_ms"] = float(sum(values[f"jvm.{each}.time"] for each in collectors))
    return found


def own_address(towards: str | None = None) -> str:
    """The address under which other hosts reach this one: that of the route to one of them, or by our own name."""
    if towards is not None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((towards, 9))  # sends nothing
                return str(probe.getsockname()[0])
            except OSError:
                pass
    return socket.gethostname()


def _bound(host: str) -> socket.socket:
    """A socket on the host's address, or on all of ours if that address is not one of this machine (a service)."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        bound.bind((host, 0))
    except OSError:
        bound.bind(("", 0))
    return bound
