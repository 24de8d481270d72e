"""Metrics for Prometheus, under the names of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from foretide.errors import MonitoringError
from foretide.metrics.catalogue.registry import CATALOGUE

if TYPE_CHECKING:
    from foretide.metrics.alarm_rules import Alarm
    from foretide.metrics.snapshot import Snapshot

PREFIX = "foretide_"


class _Figures(Collector):
    """Reads a snapshot whenever Prometheus asks."""

    def __init__(self, snapshot: Callable[[], Snapshot], alarms: Callable[[], list[Alarm]]) -> None:
        self._snapshot, self._alarms = snapshot, alarms

    def collect(self) -> Iterator[GaugeMetricFamily]:
        snapshot = self._snapshot()
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
        for alarm in self._alarms():
            family.add_metric([query, alarm.rule.name, alarm.rule.severity, alarm.subject], 1.0)
        return family


def _family(name: str, meaning: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}{name}", meaning, labels=["pipeline", "level", "subject"])


class PrometheusEndpoint:
    """`/metrics` on a port of this machine."""

    def __init__(self, port: int, snapshot: Callable[[], Snapshot], alarms: Callable[[], list[Alarm]]) -> None:
        registry = CollectorRegistry()
        registry.register(_Figures(snapshot, alarms))
        try:
            started: Any = start_http_server(port, registry=registry)
        except (OSError, OverflowError) as error:
            raise MonitoringError(f"cannot serve Prometheus on port {port}: {error}; choose another, or 0") from error
        self._server, self._thread = started
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2.0)
