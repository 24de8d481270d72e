"""One run for the benchmark of real-time mode: a query from topic to topic, a feed, a collector, and what they saw."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pyspark.sql import functions as F

import foretide as ft
from foretide.control_folder.folder import ControlFolder
from foretide.kafka.children import Collector, Feed
from foretide.kafka.latency import Account, Latency, Received, Sent
from foretide.metrics.task_meters import property_of, size_of
from foretide.spark.edges import barrier
from foretide.spark.jars import KAFKA_CONNECTOR, jars_of
from foretide.spark.kafka_broker import create_topics
from foretide.spark.realtime.agent import LocalAgent, is_local
from foretide.spark.realtime.edges import key_of
from foretide.spark.realtime.push_job import JobAgent
from foretide.spark.realtime.routes import route_property, route_text
from foretide.spark.session import with_trigger
from foretide.topology.modes import MICRO_BATCH, REAL_TIME
from foretide.workloads.requests import RequestLines

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

NO_EDGE, REPARTITION, ROUTED = "no edge", "repartition(n)", "routed edge"
ROUTED_TOPOLOGY = "routed edge, as a topology with meters"
URL_COUNT, TOPOLOGY = "routed edge, count by URL", "the same as a topology, with meters"
TASKS = 2
_EDGE = "extract"
_WARM_SECONDS = 6.0
_ACK_SECONDS = 30.0
_QUIET_SECONDS = 15.0
_JAVA = "-XX:+UseSerialGC"
_numbers = itertools.count()

SETTINGS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": str(TASKS),
    "spark.driver.memory": "2g",
    "spark.executor.memory": "900m",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}
SOURCE: Mapping[str, str] = {}
SINK: Mapping[str, str] = {}


@dataclass(frozen=True)
class Variant:
    """What is run.

    Attributes:
        edge: What is between the source and the sink.
        rate: Tuples per second.
        seconds: The span that is measured.
        batch: The length of a batch in real time; None for micro-batches.
        trigger: The trigger of micro-batches.
        source: More options of the source.
        sink: More options of the sink.
        conf: Settings of Spark that differ: those of the shuffle take effect in local mode only.
    """

    edge: str = ROUTED
    rate: float = 1000.0
    seconds: float = 60.0
    batch: float | None = 60.0
    trigger: str = "0 seconds"
    source: Mapping[str, str] = field(default_factory=dict)
    sink: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What came out: all tuples that were due in the measured span, boundaries included.

    Attributes:
        variant: What was run.
        milliseconds: From due time to receipt, each tuple.
        records: From timestamp to timestamp of the records, each tuple.
        inside: Whether each tuple was due while nothing came out between two batches.
        boundaries: How long that was, in milliseconds, at each boundary.
        account: What became of the rows.
        feed: How late the rows were sent.
        cores: The processors that Spark kept busy.
        load: The load of the machine in the minute before the run ended.
    """

    variant: Variant
    milliseconds: NDArray[np.float64]
    records: NDArray[np.int64]
    inside: NDArray[np.bool_]
    boundaries: tuple[float, ...]
    account: Account
    feed: Latency
    cores: float
    load: float


def pooled(runs: Sequence[Measured]) -> Measured:
    """Several runs of a variant as one."""
    first, late = runs[0], [each.feed for each in runs]
    return replace(
        first,
        milliseconds=np.concatenate([each.milliseconds for each in runs]),
        records=np.concatenate([each.records for each in runs]),
        inside=np.concatenate([each.inside for each in runs]),
        boundaries=tuple(gap for each in runs for gap in each.boundaries),
        account=Account(*(sum(each) for each in zip(*(astuple(run.account) for run in runs), strict=True))),
        feed=max(late, key=lambda feed: feed.p99),
        cores=float(np.mean([each.cores for each in runs])),
        load=float(np.mean([each.load for each in runs])),
    )


def start_session(master: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    jars = ",".join(map(str, jars_of(KAFKA_CONNECTOR)))
    chosen = {**SETTINGS, "spark.jars": jars, **(settings or {})}
    return ft.session(master, "foretide-bench", chosen, mode="real-time")


def requests(spark: SparkSession, servers: str, topic: str, options: Mapping[str, str]) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    records = reader.option("startingOffsets", "earliest").options(**{**SOURCE, **options}).load()
    row = F.from_json(F.col("value").cast("string"), "row long, due long, line string")
    return records.select(row.alias("r")).select("r.*")


def extracted(frame: DataFrame) -> DataFrame:
    url = F.regexp_extract("line", r"https?://\S+", 0)
    return frame.select(
        "row", "due", url.alias("url"), F.regexp_extract("line", r"https?://([^/\s]+)", 1).alias("host")
    )


def routed(frame: DataFrame, variant: Variant, folder: str) -> DataFrame:
    """An edge that is steered while tasks run, in real time, with all that counts and times its tuples."""
    mode: Literal["micro-batch", "real-time"] = "micro-batch" if variant.batch is None else "real-time"
    edge = ft.edge(_EDGE, ft.Dynamic(by=("row",)), replicas=TASKS, control_folder=folder, mode=mode)
    steered = frame.transform(edge)
    if variant.batch is not None:
        prepare_executors(frame.sparkSession, ControlFolder(folder))
    return steered


def prepare_executors(spark: SparkSession, folder: ControlFolder) -> None:
    """Give every executor the route and the counters of the edge, as a pipeline does before its query starts."""
    agent, key = LocalAgent(spark) if is_local(spark) else JobAgent(spark), key_of(folder)
    route = {route_property(key, _EDGE): route_text(folder.routes().edges[_EDGE].ring)}
    counters = {property_of(key, _EDGE, TASKS): size_of(TASKS)}
    if missing := {*agent.set_properties(route, _ACK_SECONDS).missing, *agent.create_counters(counters).missing}:
        raise RuntimeError(f"executors {sorted(missing)} have no route")


def built(frame: DataFrame, variant: Variant, folder: str) -> DataFrame:
    if variant.edge == NO_EDGE:
        return extracted(frame)
    if variant.edge == REPARTITION:
        return extracted(barrier(frame.repartition(TASKS)))
    urls = extracted(routed(frame, variant, folder))
    if variant.edge == ROUTED:
        return urls
    return counted(urls)


def counted(urls: DataFrame) -> DataFrame:
    """The count of a URL after each request, with the request that led to it."""
    latest = [F.last(name).alias(name) for name in ("row", "due")]
    return urls.groupBy("url").agg(F.count("*").alias("requests"), *latest)


def measure(spark: SparkSession, servers: str, variant: Variant) -> Measured:
    """Start a query, warm it up, and measure."""
    name = f"bench-{os.getpid()}-{next(_numbers)}"
    create_topics(servers, [f"{name}-in", f"{name}-out"], TASKS)
    for key, value in variant.conf.items():
        (spark.sparkContext._jsc.sc().conf() if key.startswith("spark.shuffle") else spark.conf).set(key, value)
    curve = ft.Curve.constant(variant.rate, _WARM_SECONDS + variant.seconds)
    feed, collector = Feed(servers, f"{name}-in", RequestLines(seed=5), curve), Collector(servers, f"{name}-out")
    with tempfile.TemporaryDirectory(prefix="foretide-bench-") as folder, collector.start():
        start = start_topology if variant.edge in {ROUTED_TOPOLOGY, TOPOLOGY} else start_query
        started = start(spark, servers, name, variant, folder)
        query = started.query if isinstance(started, ft.Pipeline) else started
        try:
            _settle(query, variant)
            with feed.start():
                cores = _watch(spark, query, feed)
                sent = feed.stop()
            _drain(collector, sent.due.size)
            ends = batch_ends(query)
        finally:
            started.stop()
        return measured(variant, feed.start_time, sent, collector.stop(), ends, cores)


def start_topology(spark: SparkSession, servers: str, name: str, variant: Variant, folder: str) -> ft.Pipeline:
    source = ft.KafkaSource(servers, f"{name}-in", "row long, due long, line string", start="earliest")
    by_row = [ft.From("requests", ft.Dynamic(by=("row",)))]
    bolts = [ft.Bolt("out", extracted, by_row, pool=TASKS)]
    if variant.edge == TOPOLOGY:
        bolts = [
            ft.Bolt(_EDGE, extracted, by_row, pool=TASKS),
            ft.Bolt("out", counted, [ft.From(_EDGE, ft.Fields("url"))]),
        ]
    create_topics(servers, [f"{name}-dead_letters"], TASKS)
    settings = ft.RunSettings(batch=f"{variant.batch:g} seconds", monitoring=None).in_mode("real-time")
    topology = ft.Topology(name, [ft.Spout("requests", source)], bolts)
    sink = ft.KafkaSink(servers, f"{name}-{{stream}}")
    return ft.submit(spark, topology, sink, f"{folder}/checkpoint", settings)


def start_query(spark: SparkSession, servers: str, name: str, variant: Variant, folder: str) -> Any:
    frame = built(requests(spark, servers, f"{name}-in", variant.source), variant, f"{folder}/control")
    writer = frame.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka").outputMode("update")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", f"{name}-out")
    writer = writer.options(**{**SINK, **variant.sink}).option("checkpointLocation", f"{folder}/checkpoint")
    trigger = variant.trigger if variant.batch is None else f"{variant.batch:g} seconds"
    return with_trigger(writer, trigger, MICRO_BATCH if variant.batch is None else REAL_TIME).start()


def _watch(spark: SparkSession, query: Any, feed: Feed) -> float:
    """Wait until the feed has ended; the processors that Spark kept busy after warming up."""
    time.sleep(_WARM_SECONDS)
    used, since = cpu_seconds(spark), time.monotonic()
    while not feed.wait(1.0):
        if not query.isActive:
            raise RuntimeError(str(query.exception()))
    return (cpu_seconds(spark) - used) / (time.monotonic() - since)


def measured(variant: Variant, start: int, sent: Sent, received: Received, ends: list[int], cores: float) -> Measured:
    """What the feed and the collector saw, from the end of the warm-up on; `ends` are those of batches."""
    first = start + round(_WARM_SECONDS * 1e6)
    seen = received.due_between(first, first + round(variant.seconds * 1e6))
    gaps = boundaries(received, ends, first) if variant.batch is not None else []
    inside = np.zeros(seen.due.size, dtype=bool)
    for begin, end in gaps:
        inside |= (seen.due >= begin) & (seen.due < end)
    lengths = tuple((end - begin) / 1000 for begin, end in gaps)
    records = seen.record_milliseconds(sent)
    account = Account.of(sent, received)
    load, _, _ = os.getloadavg()
    return Measured(variant, seen.milliseconds, records, inside, lengths, account, sent.lateness, cores, load)


def boundaries(received: Received, ends: list[int], since: int) -> list[tuple[int, int]]:
    """When nothing came out between two batches: the longest gap about the end of each batch."""
    arrived = np.sort(received.received)
    found = []
    for end in ends:
        near = np.flatnonzero((arrived > end - 2_000_000) & (arrived < end + 3_000_000))
        if end > since and near.size > 1:
            longest = near[np.argmax(np.diff(arrived[near]))]
            found.append((int(arrived[longest]), int(arrived[longest + 1])))
    return found


def _settle(query: Any, variant: Variant) -> None:
    """Wait until tasks run: the feed then meets a running query. A batch of real time shows itself only at its end."""
    end = time.monotonic() + 60
    while query.status["message"] in {"Initializing sources", "Initializing StreamExecution"}:
        if time.monotonic() > end or not query.isActive:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.1)
    time.sleep(2.0 if variant.batch else 1.0)


def _drain(collector: Collector, rows: int) -> None:
    """Wait until everything has come out, or nothing has for some seconds."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < _QUIET_SECONDS:
        live = collector.live()
        count = live.received if live else 0
        if count >= rows:
            return
        if count > last:
            last, since = count, time.monotonic()
        time.sleep(0.2)


def batch_ends(query: Any) -> list[int]:
    """When each batch of a query ended, in microseconds since 1970."""
    return [_end(progress) for progress in query.recentProgress]


def _end(progress: Any) -> int:
    began = datetime.fromisoformat(progress.timestamp).timestamp()
    return round(began * 1e6) + 1000 * int(progress.durationMs["triggerExecution"])


def cpu_seconds(spark: SparkSession) -> float:
    """CPU time of Spark's processes so far."""
    found = {int(spark.sparkContext._gateway.proc.pid)}  # type: ignore[union-attr]
    total, tick = 0.0, os.sysconf("SC_CLK_TCK")
    fields = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    while new := {pid for pid, each in fields.items() if int(each[1]) in found} - found:
        found |= new
    for pid in found & fields.keys():
        total += (int(fields[pid][11]) + int(fields[pid][12])) / tick
    return total
