"""A topology in real-time mode between a feed and a collector: what the benchmarks of its control share."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import foretide as ft
from benchmarks.real_time_run import start_session
from foretide.kafka.children import Collector, Feed
from foretide.spark.kafka_broker import Broker, create_topics
from foretide.workloads.requests import RequestLines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 60.0
"""The length of a batch, as in the tables of latency."""

PARTITIONS = 2
_SCHEMA = "row long, due long, line string"
_QUIET_SECONDS = 15.0
_numbers = itertools.count()


@dataclass
class Running:
    """A pipeline whose last bolt is called `out`, a feed that can be started, and a collector that receives already."""

    pipeline: ft.Pipeline
    feed: Feed
    collector: Collector
    topic: str

    def drain(self) -> None:
        """Wait until nothing has come out for some seconds."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < _QUIET_SECONDS:
            live = self.collector.live()
            count = live.received if live else 0
            if count > last:
                last, since = count, time.monotonic()
            time.sleep(0.2)


@contextmanager
def session(master: str) -> Iterator[tuple[SparkSession, Broker]]:
    """A broker and a session of its own."""
    with tempfile.TemporaryDirectory(prefix="foretide-bench-") as data, Broker(Path(data)) as broker:
        spark = start_session(master)
        spark.sparkContext.setLogLevel("OFF")  # a query that is stopped in the middle of a batch logs errors
        try:
            yield spark, broker
        finally:
            spark.stop()


@contextmanager
def running(
    spark: SparkSession,
    servers: str,
    bolts: Callable[[], Sequence[ft.Bolt]],
    curve: ft.Curve,
    *,
    batch: float = BATCH,
    monitored: bool = True,
) -> Iterator[Running]:
    """Start a topology of these bolts, which read the spout `requests`."""
    name = f"bench-{os.getpid()}-{next(_numbers)}"
    create_topics(servers, [f"{name}-in", f"{name}-out", f"{name}-dead_letters"], PARTITIONS)
    source = ft.KafkaSource(servers, f"{name}-in", _SCHEMA, start="earliest")
    topology = ft.Topology(name, [ft.Spout("requests", source)], list(bolts()))
    measured = ft.MonitorSettings() if monitored else None
    settings = ft.RunSettings(batch=f"{batch:g} seconds", monitoring=measured).in_mode("real-time")
    with (
        tempfile.TemporaryDirectory(prefix="foretide-bench-") as folder,
        Collector(servers, f"{name}-out") as collector,
    ):
        collector.start()
        sink = ft.KafkaSink(servers, f"{name}-{{stream}}")
        pipeline = ft.submit(spark, topology, sink, f"{folder}/checkpoint", settings)
        try:
            with Feed(servers, f"{name}-in", RequestLines(seed=5), curve) as feed:
                yield Running(pipeline, feed, collector, f"{name}-in")
        finally:
            pipeline.stop()
