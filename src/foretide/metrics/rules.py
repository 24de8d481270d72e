"""Alarm rules: what must hold for how long, on a metric or on its forecast, before someone is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from foretide.errors import AlarmRuleError
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.snapshot import Key, Snapshot
from foretide.metrics.suspect import likely_source

Severity = Literal["warning", "critical"]
_PEERS = 2
_FRESH = 120.0


@dataclass(frozen=True, slots=True)
class Rule:
    """When to raise an alarm. Exactly one of `above`, `below`, `times_peers`, `above_metric` or `growing` is given.

    Attributes:
        name: What the alarm is called, in words joined by dashes.
        metric: A metric of the catalogue.
        above: A value that must not be exceeded.
        below: A value that must be kept.
        times_peers: How many times the median of its peers a subject may reach (workers with workers, and so on).
        above_metric: Another metric of the same query that must not be exceeded.
        growing: The share by which it must not have grown over the time in `lasting`.
        lasting: Seconds that it must have been so.
        forecast: Whether what is foreseen counts, not what is measured.
        subject: Only this operator, worker or machine; all of them unless said otherwise.
        severity: `warning` or `critical`.
        meaning: A sentence for people.
    """

    name: str
    metric: str
    above: float | None = None
    below: float | None = None
    times_peers: float | None = None
    above_metric: str | None = None
    growing: float | None = None
    lasting: float = 0.0
    forecast: bool = False
    subject: str | None = None
    severity: Severity = "warning"
    meaning: str = ""

    def __post_init__(self) -> None:
        """Refuse a rule that could never be judged."""
        conditions = (self.above, self.below, self.times_peers, self.above_metric, self.growing)
        if sum(condition is not None for condition in conditions) != 1:
            raise AlarmRuleError(
                f"rule '{self.name}' needs exactly one of above, below, times_peers, above_metric and growing"
            )
        for metric in (self.metric, self.above_metric):
            if metric is not None and metric not in CATALOGUE:
                raise AlarmRuleError(f"rule '{self.name}': '{metric}' is not in the catalogue of metrics")
        if self.lasting < 0 or (self.growing is not None and self.lasting == 0):
            raise AlarmRuleError(
                f"rule '{self.name}': lasting {self.lasting:g} s makes no sense here; give seconds > 0"
            )


DEFAULT_RULES = (
    Rule("lag-growing", "total_lag", growing=0.2, lasting=30, severity="critical",
         meaning="Tuples arrive faster than they are worked off."),
    Rule("near-capacity", "capacity", above=0.9, lasting=30,
         meaning="A replica is busy nearly all the time."),
    Rule("overload-ahead", "input_rows_per_second", above_metric="sustainable_rows_per_second", forecast=True,
         meaning="The load that is foreseen is more than the busiest replica can take."),
    Rule("slow-worker", "worker_tuple_execution_time_ms", times_peers=2.0, lasting=15,
         meaning="A worker takes much longer for a tuple than the others."),
    Rule("tuples-failed", "failed", above=0, meaning="Tuples went to the dead letters."),
    Rule("skewed-edge", "skew", above=3.0, lasting=60, meaning="One replica gets far more tuples than the others."),
    Rule("tasks-retried", "retried_tasks", above=0, meaning="Tasks failed and were run again."),
)  # fmt: skip
"""Rules that are on unless others are given."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An alarm: which rule, on what, since when, the value, a sentence, and where the cause probably lies."""

    rule: Rule
    subject: str
    since: float
    at: float
    value: float
    source: str | None

    @property
    def message(self) -> str:
        """The alarm in one sentence."""
        unit = CATALOGUE[self.rule.metric].unit
        seen = "is foreseen at" if self.rule.forecast else "is"
        cause = f" Likely source: {self.source}." if self.source else ""
        return f"{self.rule.meaning} {self.rule.metric} of '{self.subject}' {seen} {self.value:.4g} {unit}.{cause}"


@dataclass(frozen=True)
class Watch:
    """What the rules have seen so far: since when each holds, what was told, and the values that growth is told by."""

    since: Mapping[tuple[str, str], float] = field(default_factory=dict)
    raised: Mapping[tuple[str, str], Raised] = field(default_factory=dict)
    history: Mapping[tuple[str, str], tuple[tuple[float, float], ...]] = field(default_factory=dict)


def judge(watch: Watch, snapshot: Snapshot, rules: tuple[Rule, ...]) -> tuple[Watch, list[Raised], list[Raised]]:
    """The next state, the alarms that are new, and those that are over."""
    since: dict[tuple[str, str], float] = {}
    raised: dict[tuple[str, str], Raised] = {}
    history: dict[tuple[str, str], tuple[tuple[float, float], ...]] = {}
    for rule in rules:
        values = _values(rule, snapshot)
        for subject, value in values.items():
            key = (rule.name, subject)
            if rule.growing is not None:
                history[key] = _kept(watch.history.get(key, ()), snapshot.at, value, rule.lasting)
            if _holds(rule, value, subject, values, snapshot, history.get(key, ())):
                since[key] = min(watch.since.get(key, snapshot.at), snapshot.at)
                if key in watch.raised:
                    raised[key] = watch.raised[key]
                elif rule.growing is not None or snapshot.at - since[key] >= rule.lasting:
                    raised[key] = Raised(rule, subject, since[key], snapshot.at, value, likely_source(snapshot))
    new = [alarm for key, alarm in raised.items() if key not in watch.raised]
    over = [alarm for key, alarm in watch.raised.items() if key not in raised]
    return Watch(since, raised, history), new, over


def _values(rule: Rule, snapshot: Snapshot) -> dict[str, float]:
    """What a rule looks at: fresh figures, or forecasts."""
    if rule.forecast:
        found: Mapping[Key, float] = snapshot.forecasts
        every = {subject: value for (metric, subject), value in found.items() if metric == rule.metric}
    else:
        every = {subject: known.value for subject, known in snapshot.of(rule.metric).items() if known.age <= _FRESH}
    return every if rule.subject is None else {name: value for name, value in every.items() if name == rule.subject}


def _holds(
    rule: Rule,
    value: float,
    subject: str,
    values: Mapping[str, float],
    snapshot: Snapshot,
    history: tuple[tuple[float, float], ...],
) -> bool:
    if rule.above is not None:
        return value > rule.above
    if rule.below is not None:
        return value < rule.below
    if rule.above_metric is not None:
        limit = snapshot.value(rule.above_metric, subject, within=_FRESH)
        return limit is not None and value > limit
    if rule.times_peers is not None:
        peers = [other for name, other in values.items() if name != subject]
        return len(peers) + 1 >= _PEERS and value > rule.times_peers * median(peers) if peers else False
    return _has_grown(rule, history)


def _kept(
    before: tuple[tuple[float, float], ...], at: float, value: float, lasting: float
) -> tuple[tuple[float, float], ...]:
    """Values as old as the rule looks back, and the last one before that; none from a clock that has jumped back."""
    past = [pair for pair in before if pair[0] < at]
    recent = [pair for pair in past if pair[0] > at - lasting]
    return (*past[len(past) - len(recent) - 1 : len(past) - len(recent)], *recent, (at, value))


def _has_grown(rule: Rule, history: tuple[tuple[float, float], ...]) -> bool:
    """Whether a value has gone up over the whole time: from its first third to its last, by the share."""
    first, last = history[0], history[-1]
    if rule.growing is None or last[0] - first[0] < rule.lasting:
        return False
    values = [value for _, value in history]
    third = max(1, len(values) // 3)
    early, late = sum(values[:third]) / third, sum(values[-third:]) / third
    return late > early * (1 + rule.growing) and late > 0 and min(values[-third:]) > 0


def active(watch: Watch) -> Iterator[Raised]:
    """The alarms that hold."""
    yield from watch.raised.values()
