"""Metrics for Prometheus, under the names of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from foretide.errors import MonitoringError
from foretide.metrics.catalogue import CATALOGUE

if TYPE_CHECKING:
    from foretide.metrics.alarm_rules import Alarm
    from foretide.metrics.snapshot import Snapshot

PREFIX = "foretide_"
_CLOSE_TIMEOUT_SECONDS = 2.0


class Measured(Protocol):
    """What is measured, and the alarms that hold."""

    def snapshot(self) -> Snapshot:
        """The newest values."""

    @property
    def alarms(self) -> list[Alarm]:
        """The alarms that hold."""


class _SnapshotCollector(Collector):
    """Takes a snapshot whenever Prometheus scrapes."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def collect(self) -> Iterator[GaugeMetricFamily]:
        snapshot = self._measured.snapshot()
        families: dict[str, GaugeMetricFamily] = {}
        for sample in snapshot.samples():
            metric = CATALOGUE.get(sample.metric)
            if metric is not None:
                family = families.get(metric.name) or _family(metric.name, f"{metric.meaning} ({metric.unit})")
                families[metric.name] = family
                family.add_metric([snapshot.query, metric.level.value, sample.subject], sample.value)
        yield from families.values()
        yield self._alarm_family(snapshot.query)

    def _alarm_family(self, query: str) -> GaugeMetricFamily:
        labels = ["pipeline", "rule", "severity", "subject"]
        family = GaugeMetricFamily(f"{PREFIX}alarm", "1 while an alarm holds.", labels=labels)
        for alarm in self._measured.alarms:
            family.add_metric([query, alarm.rule.name, alarm.rule.severity, alarm.subject], 1.0)
        return family


def _family(name: str, meaning: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}{name}", meaning, labels=["pipeline", "level", "subject"])


class PrometheusEndpoint:
    """`/metrics` on a port of this machine. The constructor starts nothing; port 0 takes any free one."""

    def __init__(self, port: int, measured: Measured) -> None:
        self.port, self._measured = port, measured
        self._server: Any = None

    def start(self) -> PrometheusEndpoint:
        """Serve. Raises MonitoringError if the port cannot be used."""
        registry = CollectorRegistry()
        registry.register(_SnapshotCollector(self._measured))
        try:
            self._server, self._thread = start_http_server(self.port, registry=registry)
        except (OSError, OverflowError) as error:
            message = f"cannot serve Prometheus on port {self.port}: {error}; choose another, or 0"
            raise MonitoringError(message) from error
        self.port = self._server.server_port
        return self

    def close(self) -> None:
        """Stop serving, and free the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(timeout=_CLOSE_TIMEOUT_SECONDS)
