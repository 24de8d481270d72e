"""Checks of every batch: what was sent over an edge has to arrive, and a feedback loop has to end.

The audit is Storm's acker. Counts come from Spark's own shuffle metrics and cost nothing. The XOR of tuple ids is made
on request: it is zero when every id that was sent has arrived. A loop whose gain stays at 1 or more never ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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


PATIENCE = 50
"""Batches over which the gain of a loop is taken. A loop of N fixed rounds grows for N batches: raise it then."""


@dataclass
class LoopGain:
    """The gain of a loop over the last batches: tuples returned / tuples that had entered a batch before."""

    patience: int = PATIENCE
    _entered: deque[int] = field(default_factory=deque)
    _returned: deque[int] = field(default_factory=deque)

    def see(self, returned: int, entered: int) -> None:
        """Note a batch: tuples that it returned, and all tuples that entered the loop in it (those included)."""
        if entered or returned:
            self._entered.append(entered)
            self._returned.append(returned)
        while len(self._entered) > self.patience + 1:
            self._entered.popleft()
            self._returned.popleft()

    @property
    def gain(self) -> float | None:
        """Tuples returned for each one that entered, None until enough batches were seen."""
        if len(self._entered) <= self.patience:
            return None
        entered = sum(list(self._entered)[:-1])
        return sum(list(self._returned)[1:]) / entered if entered else None

    @property
    def growing(self) -> bool:
        """Whether the loop returns all it takes in, or more, and holds at least twice what it held at first."""
        gain = self.gain
        return gain is not None and gain >= 1 and self._returned[-1] >= 2 * max(1, self._returned[0])
