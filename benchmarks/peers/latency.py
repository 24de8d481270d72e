"""Latency of each side from topic to topic, over all tuples after a warm-up."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peers.kafka import SETTLE_SECONDS, Outcome, between
from foretide.kafka.latency import Account, Latency

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.peers.sides import Side

RATES = (500, 1000)
TASKS = PARTITIONS = 2
_WARM_RATE = 2000.0
_PATIENCE_SECONDS = 40.0
Row = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """Some seconds at a rate: of each tuple, milliseconds from record to record, and from due time to receipt."""

    side: Side
    rate: int
    records: NDArray[np.int64]
    milliseconds: NDArray[np.float64]
    account: Account
    feed_late: float
    load: float

    def raw(self) -> Row:
        """All of it, as JSON."""
        return {
            "side": self.side.title, "rate": self.rate, "records": self.records.tolist(),
            "milliseconds": np.round(self.milliseconds, 2).tolist(), "load": self.load,
        }  # fmt: skip


def measure(side: Side, servers: str, *, quick: bool) -> list[Span]:
    """Run a side at each rate, one after the other, in one process."""
    warm, seconds = (8.0, 8.0) if quick else (20.0, 60.0)
    with between(side, servers, TASKS, PARTITIONS, slow_from=2**62, slow_ms=0) as running:
        running.load(_WARM_RATE, warm, _PATIENCE_SECONDS)
        spans = [seen(side, rate, running.load(rate, SETTLE_SECONDS + seconds, _PATIENCE_SECONDS)) for rate in RATES]
    for each in spans:
        print(f"{side.title}, {each.rate} tuples/s: p50 {Latency.of(each.records).p50:g} ms", flush=True)
    return spans


def seen(side: Side, rate: int, outcome: Outcome) -> Span:
    """What came of the tuples that were due after the first seconds."""
    first = outcome.start + round(SETTLE_SECONDS * 1e6)
    found = outcome.received.due_between(first, outcome.end)
    account = Account.of(outcome.sent, outcome.received)
    late, load = outcome.sent.lateness.p99, os.getloadavg()[0]
    return Span(side, rate, found.record_milliseconds(outcome.sent), found.milliseconds, account, late, load)


def table(spans: Sequence[Span]) -> list[Row]:
    """A row for each rate and side, over all tuples of all its runs; p50 of each run beside it."""
    groups: dict[tuple[int, str], list[Span]] = defaultdict(list)
    for each in spans:
        groups[each.rate, each.side.title].append(each)
    return [_row(rate, title, groups[rate, title]) for rate, title in sorted(groups, key=lambda key: key[0])]


def _row(rate: int, title: str, spans: Sequence[Span]) -> Row:
    records = Latency.of(np.concatenate([each.records for each in spans]))
    due = Latency.of(np.concatenate([each.milliseconds for each in spans]))
    middles = [Latency.of(each.records).p50 for each in spans]
    _, lost, doubled, _ = (sum(each) for each in zip(*(astuple(span.account) for span in spans), strict=True))
    return {
        "tuples/s": rate,
        "side": title,
        "tuples": records.tuples,
        "p50": records.p50,
        "p50 of the runs": f"{min(middles):g} to {max(middles):g}",
        "p99": records.p99,
        "max": records.max,
        "p50 from due time to receipt": due.p50,
        "p99 from due time to receipt": due.p99,
        "lost": lost,
        "doubled": doubled,
        "feed late, p99": max(each.feed_late for each in spans),
        "load of the machine": max(each.load for each in spans),
    }
