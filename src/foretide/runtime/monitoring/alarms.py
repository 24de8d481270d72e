"""Where alarms go: to the log, the store, a webhook, and to whoever listens. Nothing here may hold up the pipeline."""

from __future__ import annotations

import json
import logging
import queue
import threading
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from foretide.metrics.alarm_rules import Alarm, AlarmRule, AlarmState, judge
from foretide.store.records import AlarmRecord

if TYPE_CHECKING:
    from foretide.metrics.snapshot import Snapshot

log = logging.getLogger("foretide")
_WAITING = 1000
_TIMEOUT = 5.0
_CLOSING = 5.0


class AlarmManager:
    """Judges snapshots by the rules, and passes on what is new and what is over."""

    def __init__(
        self,
        pipeline: str,
        rules: tuple[AlarmRule, ...],
        keep: Callable[[list[AlarmRecord]], None],
        webhook: str | None,
    ) -> None:
        self._pipeline, self._rules, self._keep = pipeline, rules, keep
        self._watch = AlarmState()
        self._webhook = Webhook(webhook) if webhook else None

    @property
    def active(self) -> list[Alarm]:
        """The alarms that hold at present."""
        return list(self._watch.raised.values())

    @property
    def problem(self) -> str | None:
        """What keeps alarms from going out."""
        return self._webhook.problem if self._webhook else None

    def judge(self, snapshot: Snapshot) -> None:
        """Look at what is known now."""
        self._watch, new, over = judge(self._watch, snapshot, self._rules)
        for alarm in new:
            log.warning("%s: %s [%s]", self._pipeline, alarm.message, alarm.rule.name)
        for alarm in over:
            log.info("%s: over: %s of '%s'", self._pipeline, alarm.rule.name, alarm.subject)
        self._keep([record_of(alarm) for alarm in new])
        if self._webhook:
            for alarm in new:
                self._webhook.send(payload(self._pipeline, alarm, "raised"))
            for alarm in over:
                self._webhook.send(payload(self._pipeline, alarm, "over"))

    def close(self) -> None:
        """Let what is on its way go out, for a moment."""
        if self._webhook:
            self._webhook.close()


def record_of(alarm: Alarm) -> AlarmRecord:
    """An alarm for the store."""
    rule = alarm.rule
    return AlarmRecord(alarm.at, rule.name, rule.severity, alarm.subject, alarm.message, alarm.source or "")


def payload(pipeline: str, alarm: Alarm, state: str) -> dict[str, Any]:
    """An alarm for a program."""
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
    """Posts JSON to an address from a thread of its own; what does not get through is counted, not waited for."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.problem: str | None = None
        self.lost = 0
        self._thread = threading.Thread(target=self._deliver, name="foretide-webhook", daemon=True)
        self._thread.start()

    def send(self, message: dict[str, Any]) -> None:
        """Put a message in line, unless the line is too long."""
        if self._queue.qsize() < _WAITING:
            self._queue.put(message)
        else:
            self.lost += 1

    def close(self) -> None:
        """Send what waits, for a moment."""
        self._queue.put(None)
        self._thread.join(timeout=_CLOSING)

    def _deliver(self) -> None:
        while (message := self._queue.get()) is not None:
            try:
                self._post(message)
                self.problem = None
            except (OSError, HTTPException, ValueError) as error:
                self.lost += 1
                self.problem = f"the webhook {self._address} does not answer: {error}"

    def _post(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._address, body, headers)  # noqa: S310 - http(s), checked in the settings
        with urllib.request.urlopen(request, timeout=_TIMEOUT):  # noqa: S310
            pass
