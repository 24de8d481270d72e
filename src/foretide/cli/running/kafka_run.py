"""An application that is fed through Kafka and measured where its output arrives, in either mode."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from foretide.apps.app import APPS, RATES, App, Load, RealTime
from foretide.apps.experiment import replay_of
from foretide.cli.console import Console
from foretide.cli.progress import progress
from foretide.cli.running.application import STOP_SECONDS
from foretide.cli.running.result_latency import ResultLatency
from foretide.errors import PipelineFailedError, WorkloadError
from foretide.kafka.children import Collector, Feed
from foretide.runtime.pipeline.submit import Pipeline, submit
from foretide.runtime.shutdown import within
from foretide.spark.kafka_broker import Broker, create_topics, list_topics
from foretide.spark.kafka_options import client_options
from foretide.topology.graph import DEAD_LETTERS
from foretide.topology.modes import MICRO_BATCH, REAL_TIME, Mode
from foretide.topology.sinks import KafkaSink
from foretide.topology.sources import KafkaSource

if TYPE_CHECKING:
    from foretide.settings.run import RunSettings
    from foretide.workloads.curve import Curve
    from foretide.workloads.generator import Generator

SLOTS = 24
"""Slots of a local session for real-time mode: a slot is a thread, and an idle one costs nothing."""

PARTITIONS = 2
_WARM_UP_SECONDS = {REAL_TIME.name: 20.0, MICRO_BATCH.name: 5.0}
_TASKS_SECONDS = 60.0
_QUIET_SECONDS = 2.0
_QUIET_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.1
_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double"}


@dataclass(frozen=True)
class Second:
    """What a moment of a run was like: tuples per second, and latency in milliseconds over the last seconds."""

    at: float
    rate: float
    p50: float | None
    p99: float | None
    version: int | None
    per_task: tuple[int, ...] | None


@dataclass(frozen=True)
class Brokers:
    """The addresses of brokers, and what their clients have to be told: options of Spark's source and sink."""

    servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def client(self) -> Mapping[str, str]:
        """The same options for clients of librdkafka."""
        return client_options(self.options)[0]


@contextlib.contextmanager
def brokers_at(given: Brokers | None, folder: Path, console: Console) -> Iterator[Brokers]:
    """The brokers that were given, or one of this run's own."""
    if given is not None:
        list_topics(given.servers, given.options)  # an error if none of them answers
        yield given
        return
    console.print("Starting a Kafka broker ...", highlight=False)
    with progress("starting a Kafka broker"):
        broker = Broker(folder / "kafka").start()
    try:
        yield Brokers(broker.address)
    finally:
        broker.stop()


def real_time_of(app: App) -> RealTime:
    """The application's form for Kafka and real-time mode, or an error that says what to do without one."""
    if app.real_time is None:
        raise WorkloadError(
            f"'{app.name}' has no form for Kafka and real-time mode; run it with --mode micro-batch and without --kafka"
        )
    return app.real_time


@dataclass
class KafkaRun:
    """A running application that is fed through a topic. Left by an error, it stops the pipeline.

    Attributes:
        seconds: What was seen so far, about once a second.
        results: The latency of the results that have arrived; empty before the end.
    """

    app: App
    rows: Generator
    curve: Curve
    pipeline: Pipeline
    brokers: Brokers
    topics: dict[str, str]
    mode: Mode = "real-time"
    seconds: list[Second] = field(default_factory=list)
    results: ResultLatency = field(default_factory=ResultLatency.none)
    origin: float = 0.0

    @classmethod
    def start(
        cls,
        spark: Any,
        app: App,
        load: Load,
        folder: Path,
        settings: RunSettings,
        brokers: Brokers,
        name: str | None = None,
        mode: Mode = "real-time",
        curve: Curve | None = None,
    ) -> KafkaRun:
        """Create topics and start the application, under another `name` and with another `curve` if given."""
        form, replay = real_time_of(app), replay_of(app.build(load)).source
        prefix = f"{app.name}-{uuid.uuid4().hex[:8]}"
        topics = {stream: f"{prefix}-{stream}" for stream in ("input", form.result, DEAD_LETTERS)}
        servers, options = brokers.servers, brokers.options
        create_topics(servers, topics.values(), PARTITIONS, options)
        rows: Generator = replay.rows
        source = KafkaSource(servers, topics["input"], _schema(rows), metadata=(), start="earliest", options=options)
        built = form.build(source)
        topology = built if name is None else replace(built, name=name)
        sink = KafkaSink(servers, f"{prefix}-{{stream}}", options=options)
        pipeline = submit(spark, topology, sink, str(folder / "checkpoint"), _for_kafka(settings, mode))
        return cls(app, rows, curve or replay.curve, pipeline, brokers, topics, mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            stopped = within(STOP_SECONDS, self.pipeline.stop, "stopping the pipeline")
            error.add_note("the pipeline was stopped" if stopped else "the pipeline did not stop in time")

    @property
    def edge(self) -> str:
        """The edge that is split anew."""
        return self.app.edge

    @contextlib.contextmanager
    def feeding(self, *, to_the_end: bool = True) -> Iterator[Callable[[], bool]]:
        """Feed all rows, and at the end wait for all results, unless they are not wanted `to_the_end`.

        Yields a function that notes what is seen at the moment, and says whether there are more rows to come.
        """
        self.pipeline.await_tasks(_TASKS_SECONDS)
        servers, client, result = self.brokers.servers, self.brokers.client, real_time_of(self.app).result
        with (  # what is cut off leaves neither process nor folder
            Collector(servers, self.topics[result], options=client).start() as collector,
            Feed(servers, self.topics["input"], self.rows, self.curve, client).start() as feed,
        ):
            self.origin = feed.start_time / 1e6

            def look() -> bool:
                self._look(collector)
                return feed.running and self.pipeline.running

            yield look
            if to_the_end:
                self._await_quiet(collector)
            feed.stop()
            self.results = ResultLatency.of(collector.stop(), self.origin)

    def _look(self, collector: Collector) -> None:
        at = time.time() - self.origin
        live = collector.live()
        if live is None or (self.seconds and at < self.seconds[-1].at + 1):
            return
        known = live.latency.tuples > 0
        last = self.pipeline.reports[-1] if self.pipeline.reports else None
        runs = [] if last is None else [run for run in last.tasks or () if run.operator == self.edge]
        per_task = tuple(run.rows_in for run in sorted(runs, key=lambda run: run.task or 0)) or None
        self.seconds.append(
            Second(
                at,
                live.rate,
                live.latency.p50 if known else None,
                live.latency.p99 if known else None,
                last.route_version if last else None,
                per_task,
            )
        )

    def _await_quiet(self, collector: Collector) -> None:
        """Wait until no more results come, or the pipeline has ended."""
        end, before = time.monotonic() + _QUIET_TIMEOUT_SECONDS, (-1, time.monotonic())
        while time.monotonic() < end and self.pipeline.running:
            live = collector.live()
            count = 0 if live is None else live.received
            if count != before[0]:
                before = count, time.monotonic()
            elif time.monotonic() > before[1] + _QUIET_SECONDS:
                return
            time.sleep(_POLL_SECONDS)

    def by_second(self) -> list[tuple[float, float, float]]:
        """Second of the run, p50 and p99 in milliseconds of the results of tuples that were due in it."""
        both = zip(self.results.by_second(0.5), self.results.by_second(0.99), strict=True)
        return [(at + 0.5, p50 * 1000, p99 * 1000) for (at, p50), (_, p99) in both]

    def stop(self) -> None:
        """Stop the pipeline; raise the error that ended it, if any."""
        try:
            self.pipeline.stop()
            self.pipeline.raise_failure()
        except Exception as error:
            cause = str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__
            raise PipelineFailedError(self.pipeline.topology.name, self.pipeline.last_batch, cause) from error


def warm_up(
    spark: Any,
    app: App,
    brokers: Brokers,
    folder: Path,
    settings: RunSettings,
    console: Console,
    mode: Mode = "real-time",
    rate: float | None = None,
) -> None:
    """Process rows for some seconds, so that the run does not begin while the JVM is still compiling."""
    seconds = _WARM_UP_SECONDS[mode]
    console.print(f"Warming up for {seconds:g} s ...", highlight=False)
    load = Load(seconds, RATES.get(app.name, 1000.0) if rate is None else rate)
    with (
        progress("warming up"),
        KafkaRun.start(spark, app, load, folder / "warm-up", settings, brokers, f"{app.name}-warm-up", mode) as run,
    ):
        with run.feeding(to_the_end=False) as look:
            while look():
                time.sleep(_POLL_SECONDS)
        run.stop()


def watch(runs: Sequence[KafkaRun], turn: Callable[[], None], at_end: Callable[[], None] = lambda: None) -> None:
    """Feed all rows to runs side by side, and call `turn` meanwhile.

    At the end of the load `at_end` is called, and then all results are waited for.
    """
    with contextlib.ExitStack() as stack:
        looks = [stack.enter_context(run.feeding()) for run in runs]
        while any([look() for look in looks]):  # noqa: C419 - each of them looks
            turn()
            time.sleep(_POLL_SECONDS)
        at_end()


def introduction(run: KafkaRun) -> str:
    """What is going to happen."""
    app, curve = run.app, run.curve
    return (
        f"{app.name}: {APPS[app.name]}. {curve.total_rows or 0:,} tuples in {curve.duration:g} s from Kafka to Kafka, "
        f"in {run.mode} mode; latency is from the time a tuple is due to the arrival of its result."
    )


def line(second: Second, edge: str) -> str:
    """A moment of a run in one line."""
    tasks = "" if second.per_task is None else f"  {edge} " + " : ".join(f"{rows:,}" for rows in second.per_task)
    version = "" if second.version is None else f"  routes v{second.version}"
    return (
        f"t={second.at:5.1f} s  {second.rate:7,.0f} results/s  latency p50 {_milliseconds(second.p50)}  "
        f"p99 {_milliseconds(second.p99)}{version}{tasks}"
    )


def _milliseconds(value: float | None) -> str:
    return "     -   " if value is None else f"{value:6,.1f} ms"


def _for_kafka(settings: RunSettings, mode: Mode) -> RunSettings:
    """The settings with what Kafka's sink can keep; micro-batches write updates, as real-time mode does."""
    known = replace(settings, output_mode="update") if mode == MICRO_BATCH.name else settings
    return replace(known.in_mode(mode), guarantee="at-least-once")


def _schema(rows: Generator) -> str:
    """The columns of the records that the feed sends."""
    given = ", ".join(f"{each.name} {_TYPES.get(each.type, 'string')}" for each in rows.schema)
    return f"row bigint, due bigint, {given}"
