"""Arrivals and latency of a batch's tuples, as far as the sources can tell: outside the data path.

A source that knows when each row arrived (see `foretide.spark.sources.port`) hands out rows in that order. So the tuple
at quantile q of a batch's latency is simply the row at 1 - q of its range, and its latency is exact: from its arrival
to the commit of its batch. Kafka's arrivals are found by asking the broker. Other sources tell it by the event times
that they were asked to observe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foretide.metrics.from_batch import SpoutFigures
from foretide.spark.sources.registry import source_port

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport, EventTimes, SourceRange
    from foretide.spark.sources.port import SourcePort
    from foretide.topology.graph import Topology

QUANTILES = {"latency_p50_ms": 0.50, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
_ROUNDING = 1e-9
"""(1 - 0.9) * 10 is a little less than 1."""

_SAMPLED_ROWS = 200
"""Rows of a batch whose arrivals are worked out for its mean and for mixing spouts; exact below that."""

_GAPS = 20_000
_SHARES = np.array([1 - QUANTILES["latency_p99_ms"], *((np.arange(20) + 0.5) / 20)])
"""Shares of a partition's rows whose arrival is asked for: for the 99th percentile of latency, and for its mean."""


@dataclass(frozen=True)
class TupleLatency:
    """The sources of a topology, by spout."""

    sources: Mapping[str, SourcePort[Any]]

    @classmethod
    def of(cls, topology: Topology) -> TupleLatency:
        """The sources of the spouts."""
        return cls({spout.id: source_port(spout.source) for spout in topology.spouts})

    def figures(self, report: BatchReport) -> dict[str, SpoutFigures]:
        """What is known of each spout's tuples in a batch."""
        found = {
            spout: SpoutFigures(
                *arrivals(source, taken),
                float(np.mean(known)),
                taken.rows or 0,
                _by_partition(source, taken, report.finished),
            )
            for spout, source, taken, known in self._known(report)
        }
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
        """Exact for one spout. Observed event times are too few to be mixed, unless all spouts have the same."""
        exact = list(self._known(report))
        observed = [times for name, times in report.event_times.items() if name not in {known[0] for known in exact}]
        match exact, observed:
            case [(_, source, taken, _)], []:
                found = {name: latency(source, taken, report.finished, level) for name, level in QUANTILES.items()}
                return {name: value for name, value in found.items() if value is not None}
            case [], [times, *others] if all((other.mean, other.at) == (times.mean, times.at) for other in others):
                return {name: report.finished - _event_time(times, 1 - level) for name, level in QUANTILES.items()}
            case several, []:
                return _mixed([(known, taken.rows or 0) for _, _, taken, known in several])
        return {}

    def _known(self, report: BatchReport) -> Iterator[tuple[str, SourcePort[Any], SourceRange, np.ndarray]]:
        """Spouts whose source knows the arrivals of the batch's rows: source, range and latencies."""
        for taken in report.sources:
            source = self.sources.get(taken.spout or "")
            known = None if source is None else latencies(source, taken, report.finished)
            if source is not None and known is not None:
                yield taken.spout or "", source, taken, known


def latency(source: SourcePort[Any], taken: SourceRange, finished: float, quantile: float) -> float | None:
    """Seconds from arrival to commit that a share `quantile` of the batch's tuples stayed within."""
    rows = taken.rows or 0
    place = min(rows - 1, int((1 - quantile) * rows + _ROUNDING))
    found = _since_arrival(source, taken, finished, np.array([place]))
    return None if found is None else float(found[0])


def latencies(source: SourcePort[Any], taken: SourceRange, finished: float) -> np.ndarray | None:
    """The latency of a batch's tuples; of evenly spaced ones when there are many."""
    rows = taken.rows or 0
    return _since_arrival(source, taken, finished, np.linspace(0, rows - 1, min(rows, _SAMPLED_ROWS)).astype(int))


def arrivals(source: SourcePort[Any], taken: SourceRange) -> tuple[float | None, float | None]:
    """Tuples that arrived a second over the rows of a batch, and the squared variation coefficient of their gaps."""
    process = source.arrival_process(taken)
    if process is not None:
        return process
    rows = taken.rows or 0
    times = source.arrival_times(taken, np.arange(max(0, rows - _GAPS), rows)) if rows else None
    gaps = np.empty(0) if times is None else np.diff(times)
    mean = float(gaps.mean()) if len(gaps) else 0.0
    if mean <= 0:
        return None, None
    return 1 / mean, float(gaps.var() / mean**2)


def last_arrival(source: SourcePort[Any], taken: SourceRange) -> float | None:
    """When the last row up to the end of the batch arrived: seconds after the source's origin."""
    times = source.arrival_times(taken, np.array([(taken.rows or 0) - 1]))
    return None if times is None else float(times[0])


def _since_arrival(source: SourcePort[Any], taken: SourceRange, at: float, places: np.ndarray) -> np.ndarray | None:
    """Seconds between an instant and the arrivals of the rows at these places of the batch; None when unknown."""
    origin = source.origin(taken)
    times = source.arrival_times(taken, places) if taken.rows else None
    return None if origin is None or times is None else at - origin - times


def _by_partition(source: SourcePort[Any], taken: SourceRange, finished: float) -> dict[str, tuple[float, float]]:
    """Mean latency and its 99th percentile by partition, in seconds."""
    times = source.partition_times(taken, _SHARES)
    return {
        partition: (finished - float(np.mean(found[1:])), finished - float(found[0]))
        for partition, found in times.items()
    }


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
