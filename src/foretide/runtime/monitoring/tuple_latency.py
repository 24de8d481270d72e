"""What a spout's own clock tells of a batch: arrivals and latency of its tuples, outside the data path.

A replay knows when each row was due, and rows fall due in order. So the tuple at quantile q of a batch's latency is
simply the row at 1 - q of its range, and its latency is exact: from its due time to the commit of its batch. Other
sources tell it by the event times that they were asked to observe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foretide.metrics.from_batch import SpoutFigures
from foretide.spark.sources.replay import ReplayPlan
from foretide.topology.sources import Replay

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport, EventTimes, SourceRange
    from foretide.topology.graph import Topology

QUANTILES = {"latency_p50_ms": 0.50, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
_ROUNDING = 1e-9
"""(1 - 0.9) * 10 is a little less than 1."""

_SAMPLED = 200
"""Rows of a batch whose due times are worked out for its mean and for mixing spouts; exact below that."""

_GAPS = 20_000


def latency(plan: ReplayPlan, taken: SourceRange, finished: float, quantile: float) -> float | None:
    """Seconds from due time to commit that a share `quantile` of the batch's tuples stayed within."""
    rows = taken.rows
    if not rows or "origin_ms" not in taken.end:
        return None
    first, last = taken.start.get("row", 0), taken.end["row"]
    row = first + min(rows - 1, int((1 - quantile) * rows + _ROUNDING))
    due = plan.due_seconds(row, min(row + 1, last))
    return finished - _origin(taken) - float(due[0])


@dataclass(frozen=True)
class TupleLatency:
    """The replays of a topology, by spout."""

    plans: Mapping[str, ReplayPlan]

    @classmethod
    def of(cls, topology: Topology) -> TupleLatency:
        """The replays among the spouts; not those that hand out rows before they are due."""
        replays = [(s.id, s.source) for s in topology.spouts if isinstance(s.source, Replay)]
        return cls({spout: ReplayPlan(source) for spout, source in replays if source.paced})

    def figures(self, report: BatchReport) -> dict[str, SpoutFigures]:
        """What is known of each spout's tuples in a batch."""
        found = {spout: self._replayed(plan, taken, report.finished) for spout, plan, taken in self._taken(report)}
        for spout, times in report.event_times.items():
            found.setdefault(spout, SpoutFigures(None, None, report.finished - times.mean, times.tuples))
        return found

    def latency(self, report: BatchReport, spouts: Mapping[str, SpoutFigures]) -> dict[str, float]:
        """Latency of all tuples of a batch in seconds: mean and quantiles. Empty when some spout cannot tell."""
        figures = [each for each in spouts.values() if each.mean_latency is not None]
        if not figures or sum(each.tuples for each in figures) < report.input_rows:
            return {}
        tuples = sum(each.tuples for each in figures)
        mean = sum((each.mean_latency or 0.0) * each.tuples for each in figures) / tuples
        return {"latency_mean_ms": mean, **self._quantiles(report)}

    def _quantiles(self, report: BatchReport) -> dict[str, float]:
        """Exact for one spout. Observed event times are too few to be mixed with those of other spouts."""
        replayed = {spout: (plan, taken) for spout, plan, taken in self._taken(report)}
        observed = [times for spout, times in report.event_times.items() if spout not in replayed]
        match list(replayed.values()), observed:
            case [(plan, taken)], []:
                exact = {name: latency(plan, taken, report.finished, level) for name, level in QUANTILES.items()}
                return {name: value for name, value in exact.items() if value is not None}
            case [], [times]:
                return {name: report.finished - _event_time(times, 1 - level) for name, level in QUANTILES.items()}
            case several, []:
                return _mixed([(latencies(plan, taken, report.finished), taken.rows or 0) for plan, taken in several])
        return {}

    def _taken(self, report: BatchReport) -> Iterator[tuple[str, ReplayPlan, SourceRange]]:
        for source in report.sources:
            plan = self.plans.get(source.spout or "")
            if plan is not None and source.spout is not None and source.rows:
                yield source.spout, plan, source

    def _replayed(self, plan: ReplayPlan, taken: SourceRange, finished: float) -> SpoutFigures:
        mean = float(np.mean(latencies(plan, taken, finished)))
        rate, scv = arrivals(plan, taken)
        return SpoutFigures(rate, scv, mean, taken.rows or 0)


def arrivals(plan: ReplayPlan, taken: SourceRange) -> tuple[float | None, float | None]:
    """Tuples that fell due a second over the rows of a batch, and the squared variation coefficient of their gaps."""
    first, last = taken.start.get("row", 0), taken.end["row"]
    begin = max(first, last - _GAPS)
    due = plan.due_seconds(begin, last)
    gaps = np.diff(due)
    mean = float(gaps.mean()) if len(gaps) else 0.0
    if mean <= 0:
        return None, None
    return 1 / mean, float(gaps.var() / mean**2)


def latencies(plan: ReplayPlan, taken: SourceRange, finished: float) -> np.ndarray:
    """The latency of a batch's tuples; of evenly spaced ones when there are many."""
    first, last = taken.start.get("row", 0), taken.end["row"]
    rows = np.linspace(first, last - 1, min(last - first, _SAMPLED)).astype(int)
    found: np.ndarray = finished - _origin(taken) - plan.due_at(rows)
    return found


def _mixed(parts: list[tuple[np.ndarray, int]]) -> dict[str, float]:
    """Quantiles over the tuples of several spouts, each weighed by its rows."""
    values = np.concatenate([latencies for latencies, _ in parts])
    weights = np.concatenate([np.full(len(latencies), rows / len(latencies)) for latencies, rows in parts])
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return {
        name: float(values[order][min(len(values) - 1, np.searchsorted(below, level * below[-1] - _ROUNDING))])
        for name, level in QUANTILES.items()
    }


def _event_time(times: EventTimes, level: float) -> float:
    """The observed event time at a level, by the nearest level that was asked for."""
    return times.at[min(times.at, key=lambda known: abs(known - level))]


def _origin(taken: SourceRange) -> float:
    return float(taken.end["origin_ms"]) / 1000
