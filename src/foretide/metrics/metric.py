"""What a metric is: one name, unit, level and meaning, in store, command line, API and Prometheus alike.

Rules turn counters into samples. A doubtful difference gives no sample, never a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from foretide.formatting import format_number

_SHARES_OF_TIME = frozenset({"utilization", "capacity"})


class Level(StrEnum):
    """What a figure describes. Its subject is the id of one of them."""

    QUERY = "query"
    OPERATOR = "operator"
    EDGE = "edge"
    TASK = "task"
    WORKER = "worker"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Metric:
    """One thing that is measured."""

    name: str
    unit: str
    level: Level
    meaning: str

    @property
    def is_share_of_time(self) -> bool:
        """Whether people read it in percent."""
        return self.name in _SHARES_OF_TIME

    @property
    def symbol(self) -> str:
        """The unit behind a figure; empty for numbers, ratios and what is shown in percent."""
        return "" if self.unit in {"number", "ratio"} or self.is_share_of_time else self.unit

    @property
    def words(self) -> str:
        """Its name in words, without its level and its unit.

        >>> Metric("worker_tuple_execution_time_ms", "ms", Level.WORKER, "").words
        'tuple execution time'
        """
        return self.name.removeprefix(f"{self.level}_").removesuffix(f"_{self.unit}").replace("_", " ")

    def figure(self, value: float) -> str:
        """A value with its unit.

        >>> Metric("worker_heap_bytes", "bytes", Level.WORKER, "").figure(12345.6)
        '12,346 bytes'
        >>> Metric("utilization", "ratio", Level.OPERATOR, "").figure(0.001401)
        '0.14%'
        """
        if self.is_share_of_time:
            return f"{format_number(100 * value, 2)}%"
        return f"{format_number(value)} {self.symbol}".rstrip()


@dataclass(frozen=True, slots=True)
class Sample:
    """A measured value: which metric, of what (a bolt, `bolt/3` for its task, an executor, a host), and when.

    What is not known has no sample.
    """

    metric: str
    subject: str
    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters by name at one moment.

    `at` is the time of day, which may be set; `clock` counts seconds for rates, and only goes forward.
    """

    at: float
    clock: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric that is the counter itself."""

    metric: Metric
    key: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Rate:
    """A metric that is the growth of a counter per second."""

    metric: Metric
    key: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Share:
    """A metric that is the share of one counter's growth in that of another, at most 1."""

    metric: Metric
    part: str
    whole: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Mean:
    """A metric that is the growth of a sum, divided by that of a count."""

    metric: Metric
    sum: str
    count: str
    scale: float = 1.0


Rule = Gauge | Rate | Share | Mean


def samples(rules: Sequence[Rule], subject: str, before: Reading | None, after: Reading) -> list[Sample]:
    """The samples between two readings; with one reading, or if the clock did not go forward, gauges alone.

    >>> load, forks = (Metric(name, "count", Level.MACHINE, "") for name in ("load", "forks"))
    >>> rules = [Gauge(load, "load1"), Rate(forks, "forks_total")]
    >>> earlier = Reading(at=100, clock=5, values={"load1": 1, "forks_total": 30})
    >>> later = Reading(at=110, clock=15, values={"load1": 2, "forks_total": 50})
    >>> [(sample.metric, sample.value) for sample in samples(rules, "a", earlier, later)]
    [('load', 2.0), ('forks', 2.0)]
    """
    return [Sample(metric, subject, after.at, value) for metric, value in _values(rules, before, after)]


def _values(rules: Sequence[Rule], before: Reading | None, after: Reading) -> Iterator[tuple[str, float]]:
    seconds = 0.0 if before is None else after.clock - before.clock
    earlier = before.values if before is not None and seconds > 0 else {}
    for rule in rules:
        value = _value(rule, earlier, after.values, seconds)
        if value is not None and math.isfinite(value * rule.scale):
            yield rule.metric.name, value * rule.scale


def _value(rule: Rule, before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> float | None:
    match rule:
        case Gauge():
            return after.get(rule.key)
        case Rate():
            grown = growth(rule.key, before, after)
            return None if grown is None else grown / seconds
        case Share():
            share = _ratio(growth(rule.part, before, after), growth(rule.whole, before, after))
            return None if share is None else min(1.0, share)
        case Mean():
            return _ratio(growth(rule.sum, before, after), growth(rule.count, before, after))


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def growth(key: str, before: Mapping[str, float], after: Mapping[str, float]) -> float | None:
    """How much a counter grew; None when it is not known twice, or fell, which counters do when they start anew."""
    earlier, later = before.get(key), after.get(key)
    return later - earlier if earlier is not None and later is not None and later >= earlier else None
