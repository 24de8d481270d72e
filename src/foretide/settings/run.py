"""How a pipeline runs, and how it is monitored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Interval
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope
from foretide.durations import IntervalText, Seconds
from foretide.metrics.alarm_rules import DEFAULT_RULES, AlarmRule
from foretide.metrics.batch import TIME_EVERY
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.snapshot import Fading, Smoother
from foretide.metrics.steps import DEFAULT_STEPS, Step, conflicts
from foretide.topology.modes import MODES, Mode
from foretide.topology.sinks import Guarantee

_REVIVALS: Mapping[Mode, int] = {"micro-batch": 0, "real-time": 10}

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
    ] = field(default=None, repr=False)
    retention: Annotated[
        Seconds,
        Ge(0),
        Doc("Seconds for which metrics are stored; 0 for ever. Pauses of more than a day do not count."),
    ] = 7 * 24 * 3600.0
    steps: Annotated[
        tuple[Step, ...],
        Doc(
            "How older metrics are thinned out: from an age of `after` seconds on, one sample is kept every `every` "
            "seconds, with the count, mean, minimum and maximum of those it stands for. An empty list keeps all."
        ),
        Scope.ADVANCED,
    ] = DEFAULT_STEPS
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
    ] = field(default_factory=dict, repr=False)
    smoothing: Annotated[
        Mapping[str, Callable[[], Smoother]], Doc("How metrics are smoothed, by name."), Scope.PYTHON_ONLY
    ] = field(default_factory=lambda: dict.fromkeys(SMOOTHED, Fading))
    rules: Annotated[tuple[AlarmRule, ...], Doc("When alarms are raised.")] = DEFAULT_RULES
    webhook: Annotated[str | None, Doc("An http or https address that receives every alarm as JSON.")] = field(
        default=None, repr=False
    )
    prometheus_port: Annotated[
        int | None,
        Interval(ge=0, le=65535),
        Doc("Port on which metrics are served to Prometheus; 0 for any free port, none to serve none."),
    ] = None
    prometheus_host: Annotated[
        str,
        Doc(
            "Address on which metrics are served to Prometheus. The default serves this machine only; `0.0.0.0` serves "
            "everybody who can reach it, without a password."
        ),
    ] = "127.0.0.1"

    def conflicts(self) -> Iterator[str]:
        """Unknown metrics, rules of the same name, steps in disorder, a webhook that is not an address."""
        for problem in conflicts(self.steps):
            yield f"monitoring.steps: {problem}"
        unknown = sorted(set(self.smoothing) - set(CATALOGUE))
        if unknown:
            yield f"monitoring.smoothing: {', '.join(unknown)} not in the catalogue of metrics"
        twice = [name for name, count in Counter(rule.name for rule in self.rules).items() if count > 1]
        if twice:
            yield f"monitoring.rules must have different names, got {', '.join(twice)} more than once"
        if self.webhook is not None and not self.webhook.startswith(("http://", "https://")):
            yield "monitoring.webhook must begin with http:// or https://"  # what it is instead may be a secret


@dataclass(frozen=True)
class RunSettings(Bounded):
    """How a pipeline runs."""

    section: ClassVar[str] = "run"

    mode: Annotated[
        Mode,
        Doc("How Spark runs the query: micro-batch, or real-time (milliseconds; from Kafka to Kafka, at-least-once)."),
    ] = "micro-batch"
    guarantee: Annotated[
        Guarantee, Doc("Delivery: exactly-once, at-least-once, at-most-once (on replay sources), or none.")
    ] = "exactly-once"
    trigger: Annotated[
        IntervalText | None,
        Doc("Time between the starts of two batches; none processes what is available in one batch, and ends."),
    ] = "500 milliseconds"
    batch: Annotated[
        IntervalText,
        Doc(
            "Length of a batch in real-time mode. The query stands still for some tenths of a second between two "
            "batches, and what was written since the last one is written again after a failure."
        ),
    ] = "60000 milliseconds"
    audit_ids: Annotated[bool, Doc("Also compare the XOR of tuple ids on both sides of every edge.")] = True
    max_audit_share: Annotated[
        float,
        Interval(gt=0, le=1),
        Doc(
            "Share of a batch that the XOR of tuple ids may take; a start leaves it out if it would have taken more of "
            "the last batch before. 1 never leaves it out."
        ),
        Scope.ADVANCED,
    ] = 0.01
    batch_timeout: Annotated[
        Seconds | None,
        Ge(0),
        Doc(
            "Seconds after which a batch is cancelled and replayed from the checkpoint; 0 never cancels one. none is "
            "ten times the longest of the last 20 batches, at least a minute, in which no task ends; it doubles with "
            "each try, and counts once five batches are known."
        ),
    ] = None
    tries: Annotated[
        int, Ge(1), Doc("How often a batch may run into its timeout before the pipeline gives up."), Scope.ADVANCED
    ] = 3
    revive: Annotated[
        int | None,
        Ge(0),
        Doc(
            "How often a query that failed is restarted from its checkpoint before the pipeline gives up, after a wait "
            "that doubles each time; ten reports in a row reset the count. 0 never restarts it. none is 0 in "
            "micro-batch mode, and 10 in real-time mode, where Spark ends a query that loses an executor."
        ),
    ] = None
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

    @property
    def revivals(self) -> int:
        """How often a query that failed is restarted."""
        return _REVIVALS[self.mode] if self.revive is None else self.revive

    def in_mode(self, mode: Mode) -> RunSettings:
        """The same settings in another mode, with the strongest guarantee that it can give if this one is too strong.

        >>> RunSettings().in_mode("real-time").guarantee
        'at-least-once'
        """
        possible = MODES[mode]
        guarantee = self.guarantee if self.guarantee in possible.guarantees else possible.guarantee
        return replace(self, mode=mode, guarantee=guarantee)
