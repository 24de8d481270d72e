"""Latency of the rows of a query that was not made from a topology, by the best that is known of their arrival.

In this order: the event time that was asked for, what the sources know, the event times of the watermark's column as
Spark itself reports them for each batch, and bounds by the batches alone. `basis` says which it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foretide.metrics.batch import BatchReport, EventTimes, SourceRange
from foretide.metrics.from_batch import SpoutFigures
from foretide.runtime.monitoring.tuple_latency import TupleLatency

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretide.spark.sources.port import SourcePort

_SLACK_SECONDS = 1.0
"""A batch that begins so much later than the last one and its trigger allow has waited for rows."""

BOUND = (
    "tuple latency is a bound by the batches: nothing tells when rows arrived, so they are taken to have come since "
    "the start of the batch before; give the query a watermark, or read from Kafka or files"
)


class QueryLatency:
    """Latency of one query.

    Attributes:
        basis: What the latency of the last batch was measured from; None before the first.
        problem: That it is only a bound; None if it is measured.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[tuple[SourcePort[Any], str] | None],
        event_time: str | None,
        trigger: float | None,
        *,
        asked: bool = False,
    ) -> None:
        """Prepare. `event_time` is the column of the watermark; `asked` means that it goes before the sources."""
        self._name, self._event_time, self._trigger, self._asked = name, event_time, trigger or 0.0, asked
        self._names = [name if number == 0 else f"{name}-{number + 1}" for number in range(len(sources))]
        known = [each for each in sources if each is not None]
        complete = bool(sources) and len(known) == len(sources)
        ports = {each: port for each, (port, _) in zip(self._names, known, strict=True)} if complete else {}
        self._by_sources = TupleLatency(ports)
        self._words = " and ".join(dict.fromkeys(words for _, words in known))
        self._began: float | None = None
        self._length = 0.0
        self._latency: dict[str, float] = {}
        self._answered = False
        self.basis: str | None = None
        self.problem: str | None = None

    def figures(self, report: BatchReport) -> dict[str, SpoutFigures]:
        """What is known of the rows of a batch."""
        named = replace(report, sources=self._named(report.sources), event_times=self._observed(report))
        by_event_time = named.event_times if self._asked or not self._by_sources.sources else {}
        self.problem = None
        if not by_event_time:
            found = self._by_sources.figures(replace(named, event_times={}))
            self._latency = self._by_sources.latency(named, found)
            if self._latency:
                self.basis, self._answered = self._words, True
                return {self._name: _merged(list(found.values()))}
            if self._answered:  # not of every batch: Kafka is not asked too often
                return {}
        if named.event_times:
            found = TupleLatency({}).figures(replace(named, sources=()))
            self._latency = TupleLatency({}).latency(replace(named, sources=()), found)
            self.basis = f"event times in column '{self._event_time}'; p95 and p99 are those of the oldest row"
        else:
            self._latency = self._bounds(report)
            self.basis, self.problem = "a bound by the batches", BOUND
            found = {}
        self._began, self._length = report.finished - report.duration, report.duration
        return found

    def latency(self, report: BatchReport, spouts: Mapping[str, SpoutFigures]) -> dict[str, float]:
        """Latency of all rows of the batch that `figures` has seen last, in seconds."""
        del spouts
        return self._latency if report.input_rows else {}

    def _named(self, sources: Sequence[SourceRange]) -> tuple[SourceRange, ...]:
        if len(sources) != len(self._names):
            return tuple(sources)
        return tuple(
            replace(taken, spout=name, rows=taken.input_rows if taken.rows is None else taken.rows)
            for name, taken in zip(self._names, sources, strict=True)
        )

    def _observed(self, report: BatchReport) -> dict[str, EventTimes]:
        return {} if report.watermark_times is None else {self._name: report.watermark_times}

    def _bounds(self, report: BatchReport) -> dict[str, float]:
        """Rows came since the batch before began, or since the last trigger if it was idle in between."""
        began = report.finished - report.duration
        if self._began is None or not report.input_rows:
            return {}
        earliest = self._began
        if began - earliest > max(self._trigger, self._length) + _SLACK_SECONDS:
            earliest = began - self._trigger
        oldest = report.finished - earliest
        mean = report.finished - (earliest + began) / 2
        return {"latency_mean_ms": mean, "latency_p50_ms": mean, "latency_p95_ms": oldest, "latency_p99_ms": oldest}


def _merged(figures: Sequence[SpoutFigures]) -> SpoutFigures:
    """One source in place of several: all that a query reads counts as one."""
    if len(figures) == 1:
        return figures[0]
    tuples = sum(each.tuples for each in figures)
    known = [each for each in figures if each.mean_latency is not None]
    mean = sum((each.mean_latency or 0.0) * each.tuples for each in known) / max(1, sum(each.tuples for each in known))
    return SpoutFigures(None, None, mean, tuples)
