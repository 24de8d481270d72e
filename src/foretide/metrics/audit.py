"""Storm's acker as an audit of every edge in every batch: what was sent has to arrive.

Counts come from Spark's own shuffle metrics and cost nothing. The XOR of tuple ids is made on request: it is zero
when every id that was sent has arrived, as with Storm's acker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport, EdgeFlow

Kind = Literal[
    "rows-differ", "source-differs", "ids-differ", "routes-unreadable", "audit-unavailable", "restart-incomplete"
]


@dataclass(frozen=True, slots=True)
class AuditFailure:
    """A mismatch: what kind, in which batch, on which edge."""

    kind: Kind
    batch: int
    edge: str | None
    message: str


FirstEdges = Mapping[str, tuple[tuple[str, ...], int]]
"""Edges that only spouts feed: the spouts, and how many copies of each row they get."""


def audit(report: BatchReport, first_edges: FirstEdges, *, routed: bool = True) -> list[AuditFailure]:
    """Every mismatch of a batch. Spark counts retried tasks twice, so the counts of a retried batch prove nothing."""
    failures = [*_ids(report)]
    if routed and report.route_version is None and report.input_rows:
        message = "the route table could not be read; the default split was used, and no row was lost"
        failures.append(AuditFailure("routes-unreadable", report.batch, None, message))
    if report.edges is not None and not report.retried:
        for name, flow in report.edges.items():
            failures += _counts(report.batch, name, flow)
        failures += _sources(report, report.edges, first_edges)
    return failures


def _counts(batch: int, edge: str, flow: EdgeFlow) -> Iterator[AuditFailure]:
    expected = flow.written * flow.readers
    if flow.read != expected:
        readers = "" if flow.readers == 1 else f" by {flow.readers} readers"
        message = f"{flow.written} records were written to edge '{edge}' but {flow.read} were read{readers}"
        yield AuditFailure("rows-differ", batch, edge, message)


def _sources(report: BatchReport, edges: Mapping[str, EdgeFlow], first_edges: FirstEdges) -> Iterator[AuditFailure]:
    handed_out = {source.spout: source.rows for source in report.sources if source.rows is not None}
    for name, (spouts, copies) in first_edges.items():
        counts = [handed_out.get(spout) for spout in spouts]
        known = [count for count in counts if count is not None]
        if name not in edges or len(known) < len(counts):
            continue
        expected = sum(known) * copies
        if edges[name].written != expected:
            message = (
                f"{', '.join(spouts)} handed out {expected} rows by their offsets, but "
                f"{edges[name].written} were written to edge '{name}'"
            )
            yield AuditFailure("source-differs", report.batch, name, message)


def _ids(report: BatchReport) -> Iterator[AuditFailure]:
    for edge, ids in report.ids.items():
        if (ids.sent_rows, ids.sent_ids) != (ids.received_rows, ids.received_ids):
            message = (
                f"the ids of the tuples sent over edge '{edge}' and of those that arrived do not cancel out "
                f"({ids.sent_rows} sent, {ids.received_rows} arrived)"
            )
            yield AuditFailure("ids-differ", report.batch, edge, message)
