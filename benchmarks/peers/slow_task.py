"""One of four tasks behind an edge becomes slow: what tuples take then, and how many are failed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peers.kafka import SETTLE_SECONDS, Outcome, between
from foretide.kafka.latency import Account, Latency

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.peers.sides import Side

SLOW_MS = 30
TASKS = PARTITIONS = 4
PERIOD_SECONDS = 2.0
"""A control period in real time: a report of half a second, a split of one second, and its way to the executors."""

TIMEOUT_MS = 30_000.0
_PATIENCE_SECONDS = 35.0  # longer than the time-out: what has not come out by then is failed
Row = dict[str, Any]


@dataclass(frozen=True)
class Slowed:
    """A run: milliseconds from due time to receipt of tuples before and after the moment, and the seconds since it.

    A tuple that had not come out by the end counts with its age then.
    """

    side: Side
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    seconds: NDArray[np.float64]
    account: Account
    load: float

    def raw(self) -> Row:
        """All of it, as JSON."""
        return {
            "side": self.side.title, "before": np.round(self.before, 2).tolist(), "load": self.load,
            "after": np.round(self.after, 2).tolist(), "seconds": np.round(self.seconds, 3).tolist(),
        }  # fmt: skip


def rates(*, quick: bool) -> tuple[int, ...]:
    """Tuples per second; the slow task can take 33 of them."""
    return (500,) if quick else (500, 2000)


def measure(side: Side, servers: str, rate: int, *, quick: bool) -> list[Slowed]:
    """Run a side whose task 0 is slow from a row on."""
    before, slow = (10.0, 15.0) if quick else (20.0, 60.0)
    begin = SETTLE_SECONDS + before
    with between(side, servers, TASKS, PARTITIONS, slow_from=round(begin * rate), slow_ms=SLOW_MS) as running:
        running.load(rate, before, _PATIENCE_SECONDS)  # Java compiles what runs often; no task is slow yet
        outcome = running.load(rate, begin + slow, _PATIENCE_SECONDS)
    found = slowed(side, outcome, outcome.start + round(SETTLE_SECONDS * 1e6), outcome.start + round(begin * 1e6))
    late = Latency.of(found.after[found.seconds >= PERIOD_SECONDS])
    print(f"{side.title}, {rate} tuples/s: p99 {late.p99:,.0f} ms with a slow task", flush=True)
    return [found]


def slowed(side: Side, outcome: Outcome, first: int, moment: int) -> Slowed:
    """What tuples took that were due from `first` on, before and after the moment at which a task became slow."""
    due, took = latencies(outcome)
    before, after = (due >= first) & (due < moment), due >= moment
    account = Account.of(outcome.sent, outcome.received)
    since = (due[after] - moment) / 1e6
    return Slowed(side, took[before], took[after], since, account, os.getloadavg()[0])


def latencies(outcome: Outcome) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The due time of each tuple, and milliseconds until it came out first, or until the end."""
    due = outcome.sent.due
    out = np.full(due.size, outcome.end, dtype=np.int64)
    known = outcome.received.where((outcome.received.row >= 0) & (outcome.received.row < due.size))
    np.minimum.at(out, known.row, known.received)
    return due, (out - due) / 1000


def table(found: Sequence[Slowed]) -> list[Row]:
    """A row for each side."""
    return [_row(each) for each in found]


def _row(found: Slowed) -> Row:
    usual = Latency.of(found.before)
    late = Latency.of(found.after[found.seconds >= PERIOD_SECONDS])
    return {
        "side": found.side.title,
        "p50 before": usual.p50,
        "p99 before": usual.p99,
        f"p50 from {PERIOD_SECONDS:g} s on": late.p50,
        f"p99 from {PERIOD_SECONDS:g} s on": late.p99,
        "p99 of all from 0 s on": Latency.of(found.after).p99,
        f"failed (over {TIMEOUT_MS / 1000:g} s)": int((found.after > TIMEOUT_MS).sum()),
        "of": found.after.size,
        "not out at the end": found.account.lost,
        "doubled": found.account.doubled,
        "load of the machine": found.load,
    }
