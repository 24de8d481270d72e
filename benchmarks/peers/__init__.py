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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers import latency, slow_task, throughput
from benchmarks.peers.build import build
from benchmarks.peers.sides import LATENCY, SLOW_TASK, THROUGHPUT, Side
from benchmarks.report import markdown
from foretide.errors import EnvironmentNotReadyError
from foretide.spark.kafka_broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTS = ("throughput", "latency", "slow_task")


def run(*, quick: bool, folder: Path, parts: Sequence[str] = PARTS, only: Sequence[str] = ()) -> dict[str, Any]:
    """The tables of these parts, with the sides that are named (all by default); why not, where they cannot be had."""
    try:
        build({each.profile for each in (*THROUGHPUT, *LATENCY, *SLOW_TASK) if each.profile and _chosen(each, only)})
    except EnvironmentNotReadyError as error:
        return {"skipped": str(error)}
    figures: dict[str, Any] = {}
    raw: dict[str, Any] = {}
    rounds = 1 if quick else 3
    with tempfile.TemporaryDirectory(prefix="foretide-peers-") as data, Broker(Path(data)) as broker:
        if "throughput" in parts:
            runs = [throughput.measure(each, broker.address, quick=quick) for each in turns(THROUGHPUT, rounds, only)]
            figures["throughput, rows/s, median of the runs"] = throughput.table(runs)
            raw["throughput"] = [run.raw() for run in runs]
        if "latency" in parts:
            spans = [
                span
                for each in turns(LATENCY, rounds, only)
                for span in latency.measure(each, broker.address, quick=quick)
            ]
            figures["from topic to topic, ms from record to record"] = latency.table(spans)
            raw["latency"] = [span.raw() for span in spans]
        if "slow_task" in parts:
            for rate in (500,) if quick else (500, 2000):
                found = [
                    slow_task.measure(each, broker.address, rate, quick=quick) for each in turns(SLOW_TASK, 1, only)
                ]
                title = f"one of four tasks takes {slow_task.SLOW_MS} ms a tuple, {rate:,} tuples/s, ms"
                figures[title] = slow_task.table(found)
                raw[f"slow task, {rate} tuples/s"] = [each.raw() for each in found]
    figures["machine"] = f"{os.cpu_count()} processors, load {os.getloadavg()[2]:.1f} in the last 15 minutes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.md").write_text(markdown(figures), encoding="utf-8")
    (folder / "peers_raw.json").write_text(json.dumps(raw), encoding="utf-8")
    figures["raw samples"] = str(folder / "peers_raw.json")
    return figures


def turns(sides: Sequence[Side], rounds: int, only: Sequence[str]) -> Iterator[Side]:
    """The chosen sides, to and fro."""
    chosen = [each for each in sides if _chosen(each, only)]
    for place in range(rounds):
        yield from chosen[:: 1 if place % 2 == 0 else -1]


def _chosen(side: Side, only: Sequence[str]) -> bool:
    return not only or side.name in only
