"""How a pipeline is monitored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from foretide.durations import Seconds
from foretide.errors import MonitoringError
from foretide.metrics.alarm_rules import DEFAULT_RULES, AlarmRule
from foretide.metrics.batch import TIME_EVERY
from foretide.metrics.catalogue.registry import CATALOGUE
from foretide.metrics.smoothing import Fading, Smoother

SMOOTHED = ("service_time_ms", "service_scv", "arrival_scv", "selectivity", "flow_fraction")
"""What planning reads: smoothed, so that one odd batch moves nothing."""

_LAST_PORT = 65535


@dataclass(frozen=True)
class MonitorSettings:
    """How a pipeline is monitored.

    Attributes:
        store: Where metrics are kept: a file, or a URL such as `postgresql://host/db`. Unless said otherwise
            `metrics.db` in the control folder, or in Foretide's own folder when that is not on a local disk. An empty
            text keeps nothing.
        retention: Seconds that metrics are kept.
        time_every: Python bolts time every so many-th tuple (N_m of DRS).
        tasks_every: Least seconds between two looks at the single tasks of a batch (T_m of DRS); 0 looks at each batch.
        workers_every: Seconds between two readings of the workers; 0 leaves them out.
        machines_every: Seconds between two readings of the machines; 0 leaves them out.
        node_exporters: Addresses of node_exporter for hosts other than this one, by host.
        smoothing: How to smooth which metrics, by name.
        rules: When to raise an alarm.
        webhook: An address that gets every alarm as JSON.
        prometheus_port: Where to serve metrics to Prometheus; 0 takes any free port, None serves none.
    """

    store: str | None = None
    retention: Seconds = 7 * 24 * 3600.0
    time_every: int = TIME_EVERY
    tasks_every: Seconds = 0.0
    workers_every: Seconds = 5.0
    machines_every: Seconds = 15.0
    node_exporters: Mapping[str, str] = field(default_factory=dict)
    smoothing: Mapping[str, Callable[[], Smoother]] = field(default_factory=lambda: dict.fromkeys(SMOOTHED, Fading))
    rules: tuple[AlarmRule, ...] = DEFAULT_RULES
    webhook: str | None = None
    prometheus_port: int | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        unknown = sorted(set(self.smoothing) - set(CATALOGUE))
        if unknown:
            raise MonitoringError(f"cannot smooth {', '.join(unknown)}: not in the catalogue of metrics")
        if self.time_every < 1:
            raise MonitoringError(f"time_every is {self.time_every}; give 1 to time every tuple, 10 for every tenth")
        for name in ("retention", "tasks_every", "workers_every", "machines_every"):
            if not getattr(self, name) >= 0:
                raise MonitoringError(f"{name} is {getattr(self, name)}; give seconds, 0 or more")
        self._check_alarms()
        if self.prometheus_port is not None and not 0 <= self.prometheus_port <= _LAST_PORT:
            raise MonitoringError(f"there is no port {self.prometheus_port} for Prometheus; give 0 to {_LAST_PORT}")

    def _check_alarms(self) -> None:
        names = [rule.name for rule in self.rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise MonitoringError(f"several rules are called {', '.join(twice)}; give each a name of its own")
        if self.webhook is not None and not self.webhook.startswith(("http://", "https://")):
            raise MonitoringError(f"the webhook '{self.webhook}' is no address; give http://... or https://...")
