"""How many rows a second each side counts by URL."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks.peers.process import PeerError, Running
from benchmarks.peers.rows import checksum
from foretide.spark.kafka_broker import create_topics

if TYPE_CHECKING:
    from benchmarks.peers.sides import Side

TASKS = 2
WARM_SHARE = 0.4
"""The part of the rows that is left out at the beginning: Java compiles meanwhile."""

_SECONDS = 900.0
_numbers = count()
Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run of a side: how many rows were counted at which seconds."""

    side: Side
    samples: tuple[tuple[float, int], ...]
    load: float

    @property
    def rate(self) -> float:
        """Rows a second after the warm-up."""
        return rate(self.samples, WARM_SHARE)

    def raw(self) -> Row:
        """All of it, as JSON."""
        return {"side": self.side.title, "samples": self.samples, "load": self.load}


def rate(samples: Sequence[tuple[float, int]], skipped: float) -> float:
    """Rows a second from the first sample on at which that share of the rows was counted.

    >>> rate([(1.0, 10), (2.0, 50), (4.0, 90), (5.0, 110)], 0.4)
    20.0
    """
    total = samples[-1][1]
    begin, before = next(each for each in samples if each[1] >= skipped * total)
    end, after = samples[-1]
    if end <= begin:
        raise PeerError(f"{total:,} rows are too few: all of them were counted within a sample")
    return (after - before) / (end - begin)


def measure(side: Side, servers: str, *, quick: bool) -> list[Run]:
    """Run a side."""
    rows = side.rows // 10 if quick else side.rows
    topic = f"peers-rows-{os.getpid()}-{next(_numbers)}"
    create_topics(servers, [topic], TASKS)
    options = {"mode": "throughput", "rows": str(rows), "tasks": str(TASKS), "servers": servers, "in": topic}
    with Running(side, {**options, "slow_from": str(rows), "slow_ms": "0"}) as process:
        found = process.answer(_SECONDS)
    run = Run(side, tuple((float(at), int(rows)) for at, rows in found["samples"]), os.getloadavg()[0])
    counted = run.samples[-1][1]
    if counted < rows or found["checksum"] != checksum(counted):
        raise PeerError(f"{side.title} has counted wrongly: {counted:,} rows, checksum {found['checksum']}")
    print(f"{side.title}: {run.rate:,.0f} rows/s", flush=True)
    return [run]


def table(runs: Sequence[Run]) -> list[Row]:
    """A row for each side, in the order of their first runs; the first one is what others are compared with."""
    by_side: dict[str, list[Run]] = defaultdict(list)
    for each in runs:
        by_side[each.side.title].append(each)
    usual = statistics.median(each.rate for each in next(iter(by_side.values())))
    return [_row(title, found, usual) for title, found in by_side.items()]


def _row(title: str, runs: Sequence[Run], usual: float) -> Row:
    rates = [each.rate for each in runs]
    middle = statistics.median(rates)
    return {
        "side": title,
        "runs": len(runs),
        "rows/s": round(middle),
        "lowest": round(min(rates)),
        "highest": round(max(rates)),
        "of the first": middle / usual,
        "load of the machine": statistics.median(each.load for each in runs),
    }
