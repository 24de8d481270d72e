"""Checks of every batch: what was sent over an edge has to arrive, and a feedback loop has to end.

The audit is Storm's acker. Counts come from Spark's own shuffle metrics and cost nothing. The XOR of tuple ids costs
some time for each row: it is zero when every id that was sent has arrived. A loop whose gain stays at 1 or more never
ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from foretide.metrics.batch import BatchReport, EdgeFlow


Kind = Literal[
    "rows-differ",
    "source-differs",
    "ids-differ",
    "routes-unreadable",
    "audit-unavailable",
    "restart-incomplete",
    "restart-refused",
    "batch-slow",
    "folder-unwritable",
    "batches-unaudited",
    "batches-unreported",
    "query-restarted",
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
    """Every mismatch of a batch. Spark counts retried tasks twice, so the counts of a retried batch prove nothing.

    Neither do those of an edge with tuples in flight, as in real time: they were written before and are read later.
    """
    failures = [*_ids(report)]
    if routed and report.route_version is None and report.input_rows:
        message = "the route table could not be read; the default split was used, and no row was lost"
        failures.append(AuditFailure("routes-unreadable", report.batch, None, message))
    if report.edges is not None and not report.retried:
        for name, flow in report.edges.items():
            failures += _counts(report.batch, name, flow) if name not in report.in_flight else ()
        failures += _sources(report, report.edges, first_edges)
    return failures


def spouts_were_idle(report: BatchReport, spouts: Iterable[str]) -> bool:
    """Whether a batch had no rows of these spouts, by their own counts.

    What came back through a loop may pass no edge with a route, and then Spark reads no routes.
    """
    taken = {source.spout: source.rows for source in report.sources}
    return all(taken.get(spout) == 0 for spout in spouts)


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
        if not ids.agree and not report.retried:
            message = (
                f"the ids of the tuples sent over edge '{edge}' and of those that arrived do not cancel out "
                f"({ids.sent_rows} sent, {ids.received_rows} arrived)"
            )
            yield AuditFailure("ids-differ", report.batch, edge, message)


@dataclass
class MissedBatches:
    """Finds batches that were never reported, and batches whose figures Spark had dropped before they were read.

    Of the latter the first one is told at once, and all of them when a batch could be audited again.
    """

    _last: int | None = None
    _unaudited: list[int] = field(default_factory=list)

    def see(self, report: BatchReport) -> tuple[BatchReport, list[AuditFailure]]:
        """Take a batch in: the report with the number of batches missed before it, and what is to be told."""
        failures = []
        first = report.batch if self._last is None else self._last + 1
        if report.batch > first:
            message = (
                f"{_batches(first, report.batch - 1)} not reported, measured or audited: Spark no longer had, or never "
                "wrote, the progress; raise spark.sql.streaming.numRecentProgressUpdates, or look for a listener "
                "that takes too long"
            )
            failures.append(AuditFailure("batches-unreported", first, None, message))
        self._last = report.batch
        if not report.unaudited:
            failures += self.end()
        else:
            self._unaudited.append(report.batch)
            failures += [_unaudited(self._unaudited)] if len(self._unaudited) == 1 else []
        return replace(report, unreported=max(report.batch - first, 0)), failures

    def begin_anew(self) -> None:
        """Another start of the query: a repartition of its state may have taken batches in between."""
        self._last = None

    def end(self) -> list[AuditFailure]:
        """All batches that could not be audited, if only the first one was told; none is left to be told."""
        missed, self._unaudited = self._unaudited, []
        return [_unaudited(missed)] if len(missed) > 1 else []


def _unaudited(missed: Sequence[int]) -> AuditFailure:
    message = (
        f"{_batches(missed[0], missed[-1])} not audited or measured task by task: Spark had dropped the executions "
        "before they were read; raise spark.sql.ui.retainedExecutions, or run other work in another application"
    )
    return AuditFailure("batches-unaudited", missed[0], None, message)


def _batches(first: int, last: int) -> str:
    return f"batch {first} was" if first == last else f"batches {first} to {last} ({last - first + 1}) were"


ID_SECONDS = 1e-6
"""CPU time that the ids of a row of 20 columns take on both sides of an edge together; fewer columns take less.

`benchmarks/engine.py` measures it: 0.12 us for 2 columns, 1.1 us for 20.
"""


def id_share(rows: int, duration: float, cores: int) -> float:
    """The share of a batch that the XOR of tuple ids takes for so many rows over all edges.

    >>> id_share(rows=10_000, duration=0.5, cores=2)
    0.01
    """
    return rows * ID_SECONDS / (duration * cores) if duration > 0 else 0.0


PATIENCE = 50
"""Batches over which the gain of a loop is taken. A loop of N fixed rounds grows for N batches: raise it then."""


@dataclass
class LoopGain:
    """The gain of a loop over the last batches: tuples returned / tuples that had entered a batch before."""

    patience: int = PATIENCE
    _entered: deque[int] = field(default_factory=deque)
    _returned: deque[int] = field(default_factory=deque)
    _held: deque[int] = field(default_factory=deque)

    def see(self, returned: int, entered: int, held: int | None = None) -> None:
        """Note a batch: tuples that it returned, and all tuples that entered the loop in it (those included).

        `held` are those that are in the loop afterwards, if that is not what it has returned.
        """
        if entered or returned:
            self._entered.append(entered)
            self._returned.append(returned)
            self._held.append(returned if held is None else held)
        while len(self._entered) > self.patience + 1:
            for noted in (self._entered, self._returned, self._held):
                noted.popleft()

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
        return gain is not None and gain >= 1 and self._held[-1] >= 2 * max(1, self._held[0])
