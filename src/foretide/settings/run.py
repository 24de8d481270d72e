"""How a pipeline runs, and how it is monitored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.durations import IntervalText, Seconds
from foretide.metrics.alarm_rules import DEFAULT_RULES, AlarmRule
from foretide.metrics.batch import TIME_EVERY
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.snapshot import Fading, Smoother
from foretide.topology.sinks import Guarantee

SMOOTHED = ("service_time_ms", "service_scv", "arrival_scv", "selectivity", "flow_fraction")
"""Metrics that planning reads: smoothed, so that a single outlier changes no plan."""


@dataclass(frozen=True)
class MonitorSettings(Bounded):
    """What is measured and stored, and when an alarm is raised."""

    section: ClassVar[str] = "monitoring"

    store: Annotated[
        str | None,
        Doc(
            "Where metrics are stored: a file, or a URL such as `postgresql://host/db`. none is `metrics.db` in the "
            "control folder, or in Foretide's own folder if that is not on a local disk. An empty text stores nothing."
        ),
    ] = None
    retention: Annotated[Seconds, Ge(0), Doc("Seconds for which metrics are stored.")] = 7 * 24 * 3600.0
    time_every: Annotated[
        int, Ge(1), Doc("Python bolts time every n-th tuple (N_m of DRS); 1 times every tuple."), Scope.ADVANCED
    ] = TIME_EVERY
    tasks_every: Annotated[
        Seconds,
        Ge(0),
        Doc("Minimum seconds between two batches whose tasks are read one by one (T_m of DRS); 0 reads every batch."),
        Scope.ADVANCED,
    ] = 0.0
    workers_every: Annotated[Seconds, Ge(0), Doc("Seconds between two readings of the workers; 0 for none.")] = 5.0
    machines_every: Annotated[Seconds, Ge(0), Doc("Seconds between two readings of the machines; 0 for none.")] = 15.0
    node_exporters: Annotated[
        Mapping[str, str], Doc("Addresses of node_exporter on hosts other than this one, by host.")
    ] = field(default_factory=dict)
    smoothing: Annotated[
        Mapping[str, Callable[[], Smoother]], Doc("How metrics are smoothed, by name."), Scope.PYTHON_ONLY
    ] = field(default_factory=lambda: dict.fromkeys(SMOOTHED, Fading))
    rules: Annotated[tuple[AlarmRule, ...], Doc("When alarms are raised.")] = DEFAULT_RULES
    webhook: Annotated[str | None, Doc("An http or https address that receives every alarm as JSON.")] = None
    prometheus_port: Annotated[
        int | None,
        Interval(ge=0, le=65535),
        Doc("Port on which metrics are served to Prometheus; 0 for any free port, none to serve none."),
    ] = None

    def conflicts(self) -> Iterator[str]:
        """Unknown metrics, rules of the same name, a webhook that is not an address."""
        unknown = sorted(set(self.smoothing) - set(CATALOGUE))
        if unknown:
            yield f"monitoring.smoothing: {', '.join(unknown)} not in the catalogue of metrics"
        twice = [name for name, count in Counter(rule.name for rule in self.rules).items() if count > 1]
        if twice:
            yield f"monitoring.rules must have different names, got {', '.join(twice)} more than once"
        if self.webhook is not None and not self.webhook.startswith(("http://", "https://")):
            yield f"monitoring.webhook must begin with http:// or https://, got {self.webhook!r}"


@dataclass(frozen=True)
class RunSettings(Bounded):
    """How a pipeline runs."""

    section: ClassVar[str] = "run"

    guarantee: Annotated[
        Guarantee, Doc("Delivery: exactly-once, at-least-once, at-most-once (on replay sources), or none.")
    ] = "exactly-once"
    trigger: Annotated[
        IntervalText | None,
        Doc("Time between the starts of two batches; none processes what is available in one batch, and ends."),
    ] = "500 milliseconds"
    audit_ids: Annotated[bool, Doc("Also compare the XOR of tuple ids on both sides of every edge.")] = False
    batch_timeout: Annotated[
        Seconds | None,
        Gt(0),
        Doc("Seconds after which a batch is cancelled and replayed from the checkpoint; none never cancels one."),
    ] = None
    tries: Annotated[
        int, Ge(1), Doc("How often a batch may run into its timeout before the pipeline gives up."), Scope.ADVANCED
    ] = 3
    revive: Annotated[
        int,
        Ge(0),
        Doc(
            "How often a query that failed is restarted from its checkpoint before the pipeline gives up, after a wait "
            "that doubles each time; ten batches in a row reset the count. 0 never restarts it."
        ),
    ] = 0
    output_mode: Annotated[
        Literal["append", "update", "complete"], Doc("Spark's output mode; files take only `append`.")
    ] = "append"
    loop_patience: Annotated[
        int, Ge(1), Doc("Batches over which a feedback loop may grow before the query is stopped."), Scope.ADVANCED
    ] = 50
    monitoring: Annotated[
        MonitorSettings | None,
        Doc("Whether metrics other than the audit are measured; the section `monitoring` says which and how."),
    ] = field(default_factory=MonitorSettings)
