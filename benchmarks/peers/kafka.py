"""A side between two topics, the load that it gets, and what comes out: the same processes for all sides."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import foretide as ft
from benchmarks.peers.process import Running
from foretide.kafka.children import Collector, Feed
from foretide.kafka.latency import Received, Sent
from foretide.spark.kafka_broker import create_topics
from foretide.workloads.requests import RequestLines

if TYPE_CHECKING:
    from benchmarks.peers.sides import Side

SETTLE_SECONDS = 3.0
"""What is left out at the beginning of a load."""

_READY_SECONDS = 600.0
_POLL_SECONDS = 0.1
_numbers = count()


@dataclass(frozen=True)
class Outcome:
    """What was sent and received; when the feed began and the collector ended, in microseconds since 1970."""

    start: int
    sent: Sent
    received: Received
    end: int


@dataclass
class Between:
    """A side that runs, and its topics."""

    process: Running
    servers: str
    name: str

    def load(self, rate: float, seconds: float, patience: float) -> Outcome:
        """Send rows at a rate, and collect until all have come out, or some seconds after the last one was sent."""
        curve = ft.Curve.constant(rate, seconds)
        with (
            Collector(self.servers, f"{self.name}-out") as collector,
            Feed(self.servers, f"{self.name}-in", RequestLines(seed=5), curve) as feed,
        ):
            collector.start()
            feed.start()
            feed.wait()
            start, sent = feed.start_time, feed.stop()
            _await(collector, sent.due.size, patience)
            return Outcome(start, sent, collector.stop(), time.time_ns() // 1000)


@contextmanager
def between(side: Side, servers: str, tasks: int, partitions: int, slow_from: int, slow_ms: int) -> Iterator[Between]:
    """Start a side between topics of its own."""
    name = f"peers-{os.getpid()}-{next(_numbers)}"
    create_topics(servers, [f"{name}-in", f"{name}-out", f"{name}-dead_letters"], partitions)
    options = {
        "mode": "kafka", "servers": servers, "in": f"{name}-in", "out": f"{name}-out", "tasks": str(tasks),
        "slow_from": str(slow_from), "slow_ms": str(slow_ms),
    }  # fmt: skip
    with Running(side, options) as process:
        process.answer(_READY_SECONDS)
        yield Between(process, servers, name)


def _await(collector: Collector, rows: int, patience: float) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        live = collector.live()
        if live is not None and live.received >= rows:
            return
        time.sleep(_POLL_SECONDS)
