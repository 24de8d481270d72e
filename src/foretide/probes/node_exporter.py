"""Counters of a remote machine, scraped from node_exporter."""

from __future__ import annotations

import http.client
import math
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from foretide.metrics.metric import Sample
from foretide.probes.machine import MachineCounters, machine_samples

PORT = 9100
TIMEOUT = 2.0
"""Seconds for the whole response. A healthy machine needs a few hundredths."""

_MAX_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 16
_PREFIX = "node_"


class ProbeUnavailableError(Exception):
    """A machine that could not be scraped. Its metrics are unknown for now."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"machine '{host}' cannot be measured: {reason}; is node_exporter running there?")
        self.host = host
        self.reason = reason


class NodeExporter:
    """A machine that runs node_exporter. Each call of `sample` covers the time since the last one."""

    def __init__(
        self,
        host: str,
        url: str | None = None,
        timeout: float = TIMEOUT,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = host
        self.url = url or f"http://{f'[{host}]' if ':' in host else host}:{PORT}/metrics"
        self._timeout = timeout
        self._wall = wall
        self._clock = clock
        self._before: MachineCounters | None = None

    def sample(self) -> list[Sample]:
        """Gauges, and rates since the last successful call; ProbeUnavailableError if there is no response."""
        before, self._before = self._before, self.read()
        return machine_samples(before, self._before)

    def read(self) -> MachineCounters:
        """The counters as they are now."""
        try:
            text = scrape(self.url, self._timeout)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ProbeUnavailableError(self.host, f"{self.url}: {error or type(error).__name__}") from error
        counters = parse_node_exporter(text, self.host, self._wall(), self._clock())
        if not counters.values:
            raise ProbeUnavailableError(self.host, f"{self.url} has no metrics of node_exporter")
        return counters


def scrape(url: str, timeout: float) -> str:
    """The text at a URL, with a time-out for the whole response."""
    address = urlsplit(url)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise ValueError("the URL must look like http://host:9100/metrics")
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname, address.port, timeout=timeout)
    deadline = time.monotonic() + timeout
    try:
        connection.request("GET", f"{address.path or '/metrics'}{'?' if address.query else ''}{address.query}")
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise ValueError(f"status {response.status} {response.reason}")
        return _body(response, deadline).decode(errors="replace")
    finally:
        connection.close()


def _body(response: http.client.HTTPResponse, deadline: float) -> bytes:
    body = bytearray()
    while chunk := response.read1(_CHUNK_BYTES):
        body += chunk
        if time.monotonic() > deadline:
            raise TimeoutError("the response takes too long")
        if len(body) > _MAX_BYTES:
            raise ValueError(f"the response is longer than {_MAX_BYTES >> 20} MB")
    return bytes(body)


def parse_node_exporter(text: str, host: str, at: float, clock: float) -> MachineCounters:
    """The counters in a response in Prometheus' text format. Other lines are skipped.

    >>> parse_node_exporter('node_load1 0.5' + chr(10) + 'node_disk_io_now{device="sda"} 3', "a", 0, 0).disks
    {'sda': {'io_now': 3.0}}
    """
    values: dict[str, float] = {}
    cores: dict[str, dict[str, float]] = {}
    devices: dict[str, dict[str, dict[str, float]]] = {"disk": {}, "network": {}}
    for name, labels, value in _numbers(text):
        family, _, rest = name.partition("_")
        if not labels:
            values[name] = value
        elif family == "cpu" and rest.endswith("seconds_total") and "cpu" in labels:
            core = cores.setdefault(labels["cpu"], {})
            mode = "guest" if rest.startswith("guest") else labels.get("mode", "")
            core[mode] = core.get(mode, 0.0) + value
        elif family in devices and "device" in labels:
            devices[family].setdefault(labels["device"], {})[rest] = value
        elif family == "filesystem" and labels.get("mountpoint") == "/":
            values[name] = value
    return MachineCounters(host, at, clock, values, cores, devices["disk"], devices["network"])


def _numbers(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each finite number. Lines that cannot be parsed are skipped."""
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        try:
            parsed = [sample for family in text_string_to_metric_families(line) for sample in family.samples]
        except ValueError:
            continue
        for sample in parsed:
            if math.isfinite(sample.value):
                yield sample.name.removeprefix(_PREFIX), sample.labels, float(sample.value)
