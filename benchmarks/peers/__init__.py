"""Foretide beside Apache Storm, Apache Flink and Kafka Streams: the same URL count, machine, load and reader.

    python -m benchmarks peers --quick

Each side is a process of its own with the same heap. Throughput: rows are made in memory and counted as fast as
possible. Latency: from a Kafka topic to another, from record to record. One slow task: one of four tasks behind an edge
takes 30 ms for each tuple from a moment on. The peers are small Java programs in this folder; Maven builds them once,
into a cache folder. Sides take turns, in reversed order every second time; raw samples are kept beside the tables.
"""

from __future__ import annotations

import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers import latency, slow_task, throughput
from benchmarks.peers.build import build
from benchmarks.peers.process import PeerError
from benchmarks.peers.sides import LATENCY, SLOW_TASK, THROUGHPUT, Side
from benchmarks.report import markdown
from foretide.errors import EnvironmentNotReadyError, KafkaError
from foretide.spark.kafka_broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

PARTS = ("throughput", "latency", "slow_task")


def run(*, quick: bool, folder: Path, parts: Sequence[str] = PARTS, only: Sequence[str] = ()) -> dict[str, Any]:
    """The tables of these parts, with the sides that are named (all by default); why not, where they cannot be had."""
    try:
        build({each.profile for each in (*THROUGHPUT, *LATENCY, *SLOW_TASK) if each.profile and _chosen(each, only)})
    except EnvironmentNotReadyError as error:
        return {"skipped": str(error)}
    found = Found(folder)
    rounds = 1 if quick else 3
    with tempfile.TemporaryDirectory(prefix="foretide-peers-") as data, Broker(Path(data)) as broker:
        if "throughput" in parts:
            one = partial(throughput.measure, servers=broker.address, quick=quick)
            found.add("throughput, rows/s, median of the runs", throughput, one, turns(THROUGHPUT, rounds, only))
        if "latency" in parts:
            one = partial(latency.measure, servers=broker.address, quick=quick)
            found.add("from topic to topic, ms from record to record", latency, one, turns(LATENCY, rounds, only))
        for rate in slow_task.rates(quick=quick) if "slow_task" in parts else ():
            title = f"one of four tasks takes {slow_task.SLOW_MS} ms a tuple, {rate:,} tuples/s, ms from due time"
            one = partial(slow_task.measure, servers=broker.address, rate=rate, quick=quick)
            found.add(title, slow_task, one, turns(SLOW_TASK, 1, only))
    return found.figures | {"raw samples": str(found.raw_path)}


class Found:
    """What was measured; written to the folder after each table, so that nothing is lost if a later one fails."""

    def __init__(self, folder: Path) -> None:
        self.figures: dict[str, Any] = {}
        self.raw_path = folder / "peers_raw.json"
        self._raw: dict[str, Any] = {}
        self._failed: list[dict[str, str]] = []

    def add(self, title: str, part: Any, measure: Callable[[Side], Sequence[Any]], sides: Iterable[Side]) -> None:
        """Measure these sides and add their table. A side that fails is named, and the others go on."""
        runs = []
        for side in sides:
            try:
                runs += measure(side)
            except (PeerError, KafkaError) as error:
                print(f"{side.title} failed: {error}", flush=True)
                self._failed.append({"table": title, "side": side.title, "why": str(error)[:200]})
        if runs:
            self.figures[title] = part.table(runs)
            self._raw[title] = [each.raw() for each in runs]
        if self._failed:
            self.figures["failed"] = self._failed
        self.figures["machine"] = f"{os.cpu_count()} processors, load {os.getloadavg()[2]:.1f} in the last 15 minutes"
        self.raw_path.parent.mkdir(parents=True, exist_ok=True)
        self.raw_path.with_name("peers.md").write_text(markdown(self.figures), encoding="utf-8")
        self.raw_path.write_text(json.dumps(self._raw), encoding="utf-8")


def turns(sides: Sequence[Side], rounds: int, only: Sequence[str]) -> Iterator[Side]:
    """The chosen sides, to and fro."""
    chosen = [each for each in sides if _chosen(each, only)]
    for place in range(rounds):
        yield from chosen[:: 1 if place % 2 == 0 else -1]


def _chosen(side: Side, only: Sequence[str]) -> bool:
    return not only or side.name in only
