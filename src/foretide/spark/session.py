"""Starting Spark the way Foretide needs it, and what an execution mode means to Spark: settings and triggers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from foretide.durations import interval_text, parse_duration
from foretide.errors import EnvironmentNotReadyError
from foretide.probes.executor_metrics import ExecutorMetrics, own_address
from foretide.spark.executors import QUARANTINE_SETTINGS
from foretide.spark.jars import KAFKA_CONNECTOR, jars_of
from foretide.spark.java import check_java
from foretide.spark.versions import REAL_TIME as REAL_TIME_FEATURE
from foretide.spark.versions import check_has, check_spark
from foretide.topology.modes import MICRO_BATCH, REAL_TIME, ExecutionMode, Mode

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

ONCE = "once"
"""The trigger of a query that takes one batch and ends."""

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SHUFFLE_MANAGER = "spark.shuffle.manager"
_JARS, _PACKAGES, _CONNECTOR = "spark.jars", "spark.jars.packages", "spark-sql-kafka"

MODE_SETTINGS: Mapping[str, Mapping[str, str]] = {
    MICRO_BATCH.name: {
        "spark.sql.adaptive.streaming.stateless.enabled": "false",  # adaptive execution would merge an edge's tasks
    },
    REAL_TIME.name: {
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # a short end of a batch
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",  # routes are read from a file at each batch's start
        "spark.sql.streaming.realTimeMode.minBatchDuration": "1s",
    },
}
"""Session settings that queries of a mode rely on."""

QUERY_SETTINGS: Mapping[str, Mapping[str, str]] = {
    MICRO_BATCH.name: {},
    REAL_TIME.name: {  # Python bolts get a tuple when it comes, not at the end of a batch
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.sql.execution.pandas.udf.buffer.size": "64",
    },
}
"""Session settings of a mode that would slow down other queries: set while a query starts, which keeps them."""

START_SETTINGS: Mapping[str, Mapping[str, str]] = {
    MICRO_BATCH.name: {},
    REAL_TIME.name: {
        _SHUFFLE_MANAGER: "org.apache.spark.shuffle.streaming.MultiShuffleManager",
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",  # a tuple waits at most this long; 0 would spin
        "spark.python.udf.pipelined.enabled": "true",  # Python workers read and write at the same time
    },
}
"""Settings that a mode relies on and that take effect only when a session starts."""

SETTINGS: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",  # a Python task costs a third of what it costs over TCP
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    **QUARANTINE_SETTINGS,
    **MODE_SETTINGS[MICRO_BATCH.name],
}
"""What `session` sets; its argument `settings` goes before them."""

_LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.python.daemon.module": "foretide.spark.python_daemon",  # prints no BrokenPipeError into the terminal
}
"""What it sets for local masters, too: executors elsewhere may have no Foretide, and have no terminal."""


def session(
    master: str = "local[*]",
    name: str = "foretide",
    settings: Mapping[str, str] | None = None,
    mode: Mode = "micro-batch",
) -> SparkSession:
    """A Spark session ready for Foretide; `local-cluster[2,2,1024]` gives real executors on one machine.

    With `mode="real-time"` it can run queries of both modes. Real-time mode needs a slot for every task: `local[8]`
    gives eight of them, on however many cores there are.
    """
    check_spark()
    if mode == REAL_TIME.name:
        check_has(REAL_TIME_FEATURE)
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(name)
    of_mode = {**START_SETTINGS[mode], **MODE_SETTINGS[mode]}
    placed = _LOCAL_SETTINGS if local else _remote_settings(master, settings or {})
    chosen = {**SETTINGS, **of_mode, **placed, **(settings or {})}
    if mode == REAL_TIME.name:
        chosen |= _with_connector(chosen)
    # level ERROR from the first line of Spark's log on
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    chosen[_JAVA_OPTIONS] = f"{quiet} {chosen.get(_JAVA_OPTIONS, '')}".strip()
    for key, value in chosen.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _with_connector(chosen: Mapping[str, str]) -> dict[str, str]:
    """The Kafka connector among the jars of a session.

    Tasks of real-time mode report offsets in the connector's own class, which the driver's threads know only if it was
    there when they started. A jar that is added later ends every query with its first batch.
    """
    given = [jar for jar in chosen.get(_JARS, "").split(",") if jar]
    if any(_CONNECTOR in name for name in (*given, chosen.get(_PACKAGES, ""))):
        return {}
    return {_JARS: ",".join([*given, *map(str, jars_of(KAFKA_CONNECTOR))])}


def _remote_settings(master: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    """What it sets for executors on other hosts: they send metrics of their JVM, which cannot be read from here."""
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - PySpark has no other way to ask
        return {}
    first = re.match(r"spark://([^:,/]+)", master)
    host = settings.get("spark.driver.host") or os.environ.get("SPARK_LOCAL_IP")
    return ExecutorMetrics.open(host or own_address(first[1] if first else None)).settings()


def apply_mode(spark: SparkSession, mode: ExecutionMode = MICRO_BATCH) -> None:
    """Set what queries of the mode rely on, where the session has it otherwise."""
    for name, value in MODE_SETTINGS[mode.name].items():
        if spark.conf.get(name, None) != value:
            spark.conf.set(name, value)


@contextmanager
def in_mode(spark: SparkSession, mode: ExecutionMode) -> Iterator[None]:
    """A session with the settings of a mode, in which a query is started; the query keeps them."""
    apply_mode(spark, mode)
    before = {name: spark.conf.get(name, None) for name in QUERY_SETTINGS[mode.name]}
    for name, value in QUERY_SETTINGS[mode.name].items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)


def check_mode(spark: SparkSession, mode: ExecutionMode) -> None:
    """Raise an error that says what to do unless the session was started with what the mode needs."""
    if mode is REAL_TIME:
        check_has(REAL_TIME_FEATURE)
    for name, value in START_SETTINGS[mode.name].items():
        if name == _SHUFFLE_MANAGER and spark.sparkContext.getConf().get(name, None) != value:
            raise EnvironmentNotReadyError(
                f"{mode.name} mode needs a session that was started for it: stop this one and use "
                f"ft.session(..., mode='{mode.name}'), or start it with {name}={value}"
            )


def with_trigger(writer: DataStreamWriter, trigger: str | None, mode: ExecutionMode = MICRO_BATCH) -> DataStreamWriter:
    """Give a query its trigger: an interval between batches, None to take what is there and end, or `once`.

    In real-time mode the trigger is the length of a batch.
    """
    if mode is REAL_TIME and trigger is not None:
        real_time: Any = writer  # PySpark's overloads lack this trigger
        return cast("DataStreamWriter", real_time.trigger(realTime=interval_text(parse_duration(trigger))))
    if trigger is None:
        return writer.trigger(availableNow=True)
    if trigger == ONCE:
        return writer.trigger(once=True)
    return writer.trigger(processingTime=interval_text(parse_duration(trigger)))
