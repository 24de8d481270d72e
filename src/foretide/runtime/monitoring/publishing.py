"""Where alarms and metrics go: to the log, the store, a webhook and Prometheus. Nothing may delay the pipeline."""

from __future__ import annotations

import json
import logging
import queue
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from foretide.errors import MonitoringError
from foretide.metrics.alarm_rules import Alarm, AlarmRule, AlarmState, judge
from foretide.runtime.threads import Worker
from foretide.secrets import masked
from foretide.status.prometheus import alarm_family, families
from foretide.store.records import AlarmRecord

if TYPE_CHECKING:
    from foretide.metrics.audit import AuditFailure
    from foretide.metrics.snapshot import Snapshot
    from foretide.runtime.monitoring.monitor import Monitor
    from foretide.store.writer import StoreWriter

_MAX_QUEUED = 1000
_POST_TIMEOUT_SECONDS = 5.0
_CLOSE_TIMEOUT_SECONDS = 5.0
_SERVER_CLOSE_SECONDS = 2.0
log = logging.getLogger("foretide")


class AlarmManager:
    """Evaluates the rules on snapshots, and passes on which alarms are raised and which are over."""

    def __init__(
        self, pipeline: str, rules: tuple[AlarmRule, ...], writer: StoreWriter | None, webhook: str | None
    ) -> None:
        self._pipeline, self._rules, self._writer = pipeline, rules, writer
        self._state = AlarmState()
        self._webhook = Webhook(webhook) if webhook else None

    def start(self) -> None:
        """Start the webhook's thread, if there is a webhook."""
        if self._webhook is not None:
            self._webhook.start()

    @property
    def active(self) -> list[Alarm]:
        """The alarms that hold at present."""
        return list(self._state.raised.values())

    @property
    def problem(self) -> str | None:
        """Why alarms are not delivered; None when they are."""
        return self._webhook.problem if self._webhook else None

    def judge(self, snapshot: Snapshot) -> None:
        """Evaluate the rules on what is known now."""
        self._state, new, over = judge(self._state, snapshot, self._rules)
        for alarm in new:
            log.warning("%s: %s [%s]", self._pipeline, alarm.message, alarm.rule.name)
        for alarm in over:
            log.info("%s: over: %s of '%s'", self._pipeline, alarm.rule.name, alarm.subject)
        self._keep([AlarmRecord(a.at, a.rule.name, a.rule.severity, a.subject, a.message, a.source or "") for a in new])
        if self._webhook:
            for state, alarms in (("raised", new), ("over", over)):
                for alarm in alarms:
                    self._webhook.send(payload(self._pipeline, alarm, state))

    def keep_audit(self, at: float, failures: list[AuditFailure]) -> None:
        """Store what the audit of a batch found."""
        self._keep(
            [AlarmRecord(at, each.kind, "critical", each.edge or "", each.message, "audit") for each in failures]
        )

    def _keep(self, records: list[AlarmRecord]) -> None:
        if self._writer is not None and records:
            self._writer.put_alarms(records)

    def close(self) -> None:
        """Send what is queued, for a few seconds at most."""
        if self._webhook:
            self._webhook.close()


def payload(pipeline: str, alarm: Alarm, state: str) -> dict[str, Any]:
    """An alarm as JSON for the webhook."""
    return {
        "pipeline": pipeline,
        "state": state,
        "rule": alarm.rule.name,
        "severity": alarm.rule.severity,
        "metric": alarm.rule.metric,
        "subject": alarm.subject,
        "value": alarm.value,
        "since": alarm.since,
        "at": alarm.at,
        "message": alarm.message,
        "likely_source": alarm.source,
    }


class Webhook:
    """Posts JSON to a URL from a thread of its own. The constructor starts nothing.

    `problem` says why the last message was not delivered; `lost` counts those that were not delivered or not queued.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._queue: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._worker = Worker("foretide-webhook", self._deliver, None, what="posting alarms", close=self._deliver)
        self.problem: str | None = None
        self.lost = 0

    def start(self) -> Webhook:
        """Start the thread."""
        self._worker.start()
        return self

    @property
    def running(self) -> bool:
        """Whether messages are being sent, or will be."""
        return self._worker.alive

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message, unless too many are waiting."""
        if self._queue.qsize() < _MAX_QUEUED:
            self._queue.put(message)
            self._worker.wake()
        else:
            self.lost += 1

    def close(self) -> None:
        """Send what is queued, for a few seconds at most."""
        self._worker.stop(_CLOSE_TIMEOUT_SECONDS)

    def _deliver(self) -> None:
        while not self._queue.empty():
            message = self._queue.get()
            try:
                self._post(message)
                self.problem = None
            except (OSError, HTTPException, ValueError) as error:
                self.lost += 1
                self.problem = masked(f"the webhook {self.url} does not answer: {error}")

    def _post(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url, body, headers)  # noqa: S310 - http(s), checked in the settings
        with urllib.request.urlopen(request, timeout=_POST_TIMEOUT_SECONDS):  # noqa: S310
            pass


class _SnapshotCollector(Collector):
    """Takes a snapshot whenever Prometheus scrapes."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def collect(self) -> Iterator[GaugeMetricFamily]:
        snapshot = self._monitor.snapshot()
        yield from families([(snapshot.query, snapshot.samples())])
        alarms = ((each.rule.name, each.rule.severity, each.subject) for each in self._monitor.alarms)
        yield alarm_family([(snapshot.query, alarms)])


class PrometheusEndpoint:
    """`/metrics` on a port. The constructor starts nothing; port 0 takes any free one."""

    def __init__(self, port: int, monitor: Monitor, host: str = "127.0.0.1") -> None:
        self.port, self.host, self._monitor = port, host, monitor
        self._server: Any = None

    def start(self) -> PrometheusEndpoint:
        """Serve. Raises MonitoringError if the port cannot be used."""
        registry = CollectorRegistry()
        registry.register(_SnapshotCollector(self._monitor))
        try:
            self._server, self._thread = start_http_server(self.port, self.host, registry=registry)
        except (OSError, OverflowError) as error:
            message = f"cannot serve Prometheus on port {self.port} of {self.host}: {error}; choose another, or 0"
            raise MonitoringError(message) from error
        self.port = self._server.server_port
        return self

    def close(self) -> None:
        """Stop serving, and free the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(timeout=_SERVER_CLOSE_SECONDS)
