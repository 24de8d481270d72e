"""Alarm rules: what must hold for how long, on a metric or on its forecast, before an alarm is raised.

An alarm also names where the trouble probably comes from: the first of a few plain explanations that the figures
support.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, get_args

from foretide.durations import Seconds
from foretide.errors import AlarmRuleError
from foretide.metrics.catalogue import CATALOGUE
from foretide.metrics.metric import Level
from foretide.metrics.peers import median_of_others
from foretide.metrics.snapshot import Snapshot

Severity = Literal["warning", "critical"]
AlarmKey = tuple[str, str]
"""A rule's name and a subject."""

History = tuple[tuple[float, float], ...]
"""Values and when they were seen, the oldest first."""

_MAX_AGE_SECONDS = 120.0
_SLOW_RATIO, _SKEWED_RATIO, _FULL_SHARE = 1.5, 2.0, 0.8
_WAIT_RATIO, _MIN_WAIT_PERCENT = 2.0, 50.0


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """When to raise an alarm. Exactly one of `above`, `below`, `times_peers`, `above_metric` or `growing` is given.

    Attributes:
        name: What the alarm is called, in words joined by dashes.
        metric: A metric of the catalogue.
        above: A value that must not be exceeded.
        below: A value that must be kept.
        times_peers: How many times the median of its peers a subject may reach (workers with workers, and so on).
        above_metric: Another metric of the same query that must not be exceeded.
        growing: The share by which it must not have grown over the time in `lasting`.
        lasting: Seconds that the condition must have held.
        forecast: Whether the forecast counts, not what is measured.
        subject: Only this operator, worker or machine; by default all of them.
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
    lasting: Seconds = 0.0
    forecast: bool = False
    subject: str | None = None
    severity: Severity = "warning"
    meaning: str = ""

    def __post_init__(self) -> None:
        """Refuse a rule that could never be judged."""
        for problem in (*_name_problems(self), *_figure_problems(self)):
            raise AlarmRuleError(f"rule '{self.name}': {problem}")


def _name_problems(rule: AlarmRule) -> Iterator[str]:
    if not rule.name:
        yield "it has no name; give it one in words joined by dashes"
    for metric in (rule.metric, rule.above_metric):
        if metric is not None and metric not in CATALOGUE:
            yield f"'{metric}' is not in the catalogue of metrics"
            return
    if rule.severity not in get_args(Severity):
        yield f"severity must be one of {', '.join(get_args(Severity))}, got '{rule.severity}'"
    level = CATALOGUE[rule.metric].level
    if rule.above_metric is not None and CATALOGUE[rule.above_metric].level is not level:
        yield f"'{rule.above_metric}' is not of the level {level}, as '{rule.metric}' is; compare metrics of one level"
    if rule.times_peers is not None and level is Level.QUERY:
        yield f"'{rule.metric}' is of the query, which has no peers; choose a metric of another level"


def _figure_problems(rule: AlarmRule) -> Iterator[str]:
    figures = (rule.above, rule.below, rule.times_peers, rule.growing)
    if sum(condition is not None for condition in (*figures, rule.above_metric)) != 1:
        yield "it needs exactly one of above, below, times_peers, above_metric and growing"
    if any(figure is not None and not math.isfinite(figure) for figure in figures):
        yield "its value must be a finite number"
    if rule.times_peers is not None and rule.times_peers <= 0:
        yield f"times_peers must be above 0, such as 2 for twice the others' median, got {rule.times_peers:g}"
    if rule.growing is not None and rule.growing < 0:
        yield f"growing must be 0 or more, such as 0.2 for a fifth, got {rule.growing:g}"
    if not 0 <= rule.lasting < math.inf or (rule.growing is not None and rule.lasting == 0):
        yield f"lasting must be 0 or more seconds, above 0 with growing, got {rule.lasting:g}"


DEFAULT_RULES = (
    AlarmRule("lag-growing", "total_lag", growing=0.2, lasting=30, severity="critical",
         meaning="Tuples arrive faster than they are worked off."),
    AlarmRule("near-capacity", "capacity", above=0.9, lasting=30,
         meaning="A replica is busy nearly all the time."),
    AlarmRule("overload-ahead", "input_rows_per_second", above_metric="sustainable_rows_per_second", forecast=True,
         meaning="The forecast load is more than the busiest replica can take."),
    AlarmRule("slow-worker", "worker_slowness", times_peers=2.0, lasting=15,
         meaning="A worker takes much longer for the same work than the others."),
    AlarmRule("tuples-failed", "failed", above=0, meaning="Tuples went to the dead letters."),
    AlarmRule("skewed-edge", "skew", above=3.0, lasting=60,
              meaning="One replica gets far more tuples than the others."),
    AlarmRule("imbalanced-join", "join_imbalance", above=3.0, lasting=60,
              meaning="One partition of a join has far more load than the others."),
    AlarmRule("tasks-retried", "retried_tasks", above=0, meaning="Tasks failed and were run again."),
)  # fmt: skip
"""Rules that are on unless others are given."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm: which rule, on what, since when, the value, a sentence, and where the cause probably lies."""

    rule: AlarmRule
    subject: str
    since: float
    at: float
    value: float
    source: str | None

    @property
    def message(self) -> str:
        """The alarm in one sentence."""
        value = CATALOGUE[self.rule.metric].figure(self.value)
        seen = "is forecast at" if self.rule.forecast else "is"
        cause = f" Likely source: {self.source}." if self.source else ""
        figure = f"{self.rule.metric} of '{self.subject}' {seen} {value}.{cause}"
        return f"{self.rule.meaning} {figure}".lstrip()


@dataclass(frozen=True)
class AlarmState:
    """What the rules remember: since when each holds, the alarms raised, and the values that growth is judged by."""

    since: Mapping[AlarmKey, float] = field(default_factory=dict)
    raised: Mapping[AlarmKey, Alarm] = field(default_factory=dict)
    history: Mapping[AlarmKey, History] = field(default_factory=dict)


def judge(
    state: AlarmState, snapshot: Snapshot, rules: tuple[AlarmRule, ...]
) -> tuple[AlarmState, list[Alarm], list[Alarm]]:
    """The next state, the alarms that are new, and those that are over."""
    observations = [seen for rule in rules for seen in _observe(rule, state, snapshot)]
    holding = [seen for seen in observations if _holds(seen, snapshot)]
    since = {seen.key: min(state.since.get(seen.key, snapshot.at), snapshot.at) for seen in holding}
    due = [seen for seen in holding if seen.key in state.raised or _has_lasted(seen.rule, since[seen.key], snapshot.at)]
    source = None if all(seen.key in state.raised for seen in due) else likely_source(snapshot)
    raised = {
        seen.key: state.raised.get(seen.key)
        or Alarm(seen.rule, seen.subject, since[seen.key], snapshot.at, seen.value, source)
        for seen in due
    }
    history = {seen.key: seen.history for seen in observations if seen.history}
    new = [alarm for key, alarm in raised.items() if key not in state.raised]
    over = [alarm for key, alarm in state.raised.items() if key not in raised]
    return AlarmState(since, raised, history), new, over


@dataclass(frozen=True, slots=True)
class _Observation:
    """What one rule sees of one subject: its value, the median of its peers if that counts, and how it came about."""

    rule: AlarmRule
    subject: str
    value: float
    peers: float | None
    history: History

    @property
    def key(self) -> AlarmKey:
        return self.rule.name, self.subject


def _observe(rule: AlarmRule, state: AlarmState, snapshot: Snapshot) -> Iterator[_Observation]:
    values = _values(rule, snapshot)
    peers = {} if rule.times_peers is None else median_of_others(values)
    for subject, value in values.items():
        if rule.subject in (None, subject):
            before = state.history.get((rule.name, subject), ())
            history = () if rule.growing is None else _kept(before, snapshot.at, value, rule.lasting)
            yield _Observation(rule, subject, value, peers.get(subject), history)


def _values(rule: AlarmRule, snapshot: Snapshot) -> dict[str, float]:
    """The values that a rule is judged by: fresh figures, or forecasts."""
    if rule.forecast:
        return {subject: value for (metric, subject), value in snapshot.forecasts.items() if metric == rule.metric}
    return _recent(snapshot, rule.metric)


def _holds(seen: _Observation, snapshot: Snapshot) -> bool:
    rule = seen.rule
    if rule.above is not None:
        return seen.value > rule.above
    if rule.below is not None:
        return seen.value < rule.below
    if rule.above_metric is not None:
        limit = snapshot.value(rule.above_metric, seen.subject, within=_MAX_AGE_SECONDS)
        return limit is not None and seen.value > limit
    if rule.times_peers is not None:
        return seen.peers is not None and seen.value > rule.times_peers * seen.peers
    return _has_grown(rule, seen.history)


def _has_lasted(rule: AlarmRule, since: float, at: float) -> bool:
    """Growth is judged over the whole time already."""
    return rule.growing is not None or at - since >= rule.lasting


def _kept(before: History, at: float, value: float, lasting: float) -> History:
    """Values within the rule's time and the last one before it; none from a clock that has jumped back."""
    past = [pair for pair in before if pair[0] < at]
    recent = [pair for pair in past if pair[0] > at - lasting]
    return (*past[len(past) - len(recent) - 1 : len(past) - len(recent)], *recent, (at, value))


def _has_grown(rule: AlarmRule, history: History) -> bool:
    """Whether a value has gone up over the whole time: from its first third to its last, by the share."""
    first, last = history[0], history[-1]
    if rule.growing is None or last[0] - first[0] < rule.lasting:
        return False
    values = [value for _, value in history]
    third = max(1, len(values) // 3)
    early, late = sum(values[:third]) / third, sum(values[-third:]) / third
    return late > early * (1 + rule.growing) and late > 0 and min(values[-third:]) > 0


def likely_source(snapshot: Snapshot) -> str | None:
    """A sentence part such as "edge 'count', whose fullest replica gets 3.1 times the mean"; None: no idea."""
    explanations: tuple[Callable[[Snapshot], Iterator[str]], ...] = (
        _slow_worker,
        _skewed_edge,
        _few_cores,
        _full_operator,
        _more_load,
    )
    return next((found for explain in explanations for found in explain(snapshot)), None)


def _recent(snapshot: Snapshot, metric: str) -> dict[str, float]:
    return {subject: known.value for subject, known in snapshot.of(metric).items() if known.age <= _MAX_AGE_SECONDS}


def _slow_worker(snapshot: Snapshot) -> Iterator[str]:
    times = _recent(snapshot, "worker_slowness")
    for worker, time in sorted(times.items(), key=lambda item: -item[1])[:1]:
        others = [other for name, other in times.items() if name != worker]
        if others and median(others) > 0 and time > _SLOW_RATIO * median(others):
            times_slower = time / median(others)
            yield f"worker {worker}, which takes {times_slower:.1f} times as long for the same work as the others"


def _skewed_edge(snapshot: Snapshot) -> Iterator[str]:
    for edge, skew in sorted(_recent(snapshot, "skew").items(), key=lambda item: -item[1])[:1]:
        if skew > _SKEWED_RATIO:
            yield f"edge '{edge}', whose fullest replica gets {skew:.1f} times the mean"


def _few_cores(snapshot: Snapshot) -> Iterator[str]:
    times = waits_for_cores(snapshot)
    if times is not None:
        yield f"a lack of free cores: every worker waits for one {times:.0f} times as long as it has one"


def waits_for_cores(snapshot: Snapshot) -> float | None:
    """How many times as long as it has a core each worker waits for one, at least; None where that is not long."""
    waited = _recent(snapshot, "worker_cpu_wait_percent")
    times = {worker: time / max(_cpu_of(snapshot, worker), 1.0) for worker, time in waited.items()}
    if not waited or min(waited.values()) < _MIN_WAIT_PERCENT or min(times.values()) < _WAIT_RATIO:
        return None
    return min(times.values())


def _cpu_of(snapshot: Snapshot, worker: str) -> float:
    modes = ("user", "system")
    return sum(snapshot.value(f"worker_cpu_{mode}_percent", worker, within=_MAX_AGE_SECONDS) or 0.0 for mode in modes)


def _full_operator(snapshot: Snapshot) -> Iterator[str]:
    for operator, capacity in sorted(_recent(snapshot, "capacity").items(), key=lambda item: -item[1])[:1]:
        if capacity > _FULL_SHARE:
            yield f"operator '{operator}', whose busiest replica is busy {capacity:.0%} of the time"


def _more_load(snapshot: Snapshot) -> Iterator[str]:
    for spout, rate in _recent(snapshot, "arrival_rate").items():
        taken = snapshot.value("input_rows_per_second", within=_MAX_AGE_SECONDS)
        lag = snapshot.value("lag", spout, within=_MAX_AGE_SECONDS)
        if taken is not None and lag and rate > taken:
            yield f"spout '{spout}', where {rate:.4g} tuples fall due a second while {taken:.4g} are taken"
