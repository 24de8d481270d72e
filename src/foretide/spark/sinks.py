"""Sinks at run time: writing a query's output, and reading it back. Each kind implements what it can.

A new kind is a record in `foretide.topology.sinks`, a port, and a line in `PORTS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.sql import functions as F

from foretide.control_folder.filesystem import local_path, make_folder
from foretide.errors import Problem, TopologyError
from foretide.secrets import hide_options
from foretide.spark.groupings import quoted
from foretide.spark.hadoop import HadoopFolder
from foretide.spark.jars import KAFKA_CONNECTOR, add_library, use_libraries
from foretide.spark.session import in_mode, with_trigger
from foretide.topology.graph import STREAM_COLUMN
from foretide.topology.modes import MICRO_BATCH, ExecutionMode
from foretide.topology.sinks import Console, Json, KafkaSink, Memory, Parquet, Sink, Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from foretide.spark.compile.topology import Compiled

S = TypeVar("S", bound=Sink)

_LOG_VERSION = 1
_STREAM = "{stream}"
_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""Spark would write milliseconds only."""


class SinkPort(Generic[S]):
    """A sink at run time.

    Attributes:
        can_skip_batches: Whether the checkpoint may have a batch that the sink is never given.
    """

    can_skip_batches = True

    def __init__(self, sink: S) -> None:
        self.sink = sink

    def check(self, query: str, checkpoint: str) -> None:
        """Raise when the query must not write there."""

    def records(self, frame: DataFrame) -> DataFrame:
        """The output as the sink takes it."""
        return frame

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start the query that the writer describes."""
        raise NotImplementedError

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:  # noqa: ARG002
        """Everything that was committed."""
        name = self.sink.format
        raise TopologyError("sink", [Problem("sink", f"a {name} cannot be read back", "Use Parquet or Json")])

    def read_stream(self, spark: SparkSession, schema: str, stream: str) -> DataFrame:
        """What is committed from now on, as a stream: the way of feedback. Other output streams may be in it."""
        raise NotImplementedError

    def skip_batch(self, spark: Any, batch: int) -> None:
        """Note a batch of the checkpoint that writes nothing, where the sink counts batches of its own."""

    def missing_batches(self, spark: Any, last: int) -> list[int]:  # noqa: ARG002
        """Batches up to `last` that the sink should know and does not."""
        return []


class FileSink(SinkPort[Parquet | Json]):
    """Files in a folder for each stream, and Spark's log of the files of each batch."""

    def check(self, query: str, checkpoint: str) -> None:
        """Refuse a new checkpoint on another's output: Spark would skip batches without a word."""
        output, known = local_path(self.sink.path), local_path(checkpoint)
        if output is None or known is None:
            return
        log = output / "_spark_metadata"
        if log.is_dir() and any(log.iterdir()) and not (known / "commits").is_dir():
            problem = Problem(
                "sink",
                f"'{self.sink.path}' holds the output of another checkpoint, and Spark would skip batches without a "
                "word",
                "Use a new output folder, or the checkpoint that belongs to it",
            )
            raise TopologyError(query, [problem])

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Write a folder for each stream."""
        return writer.partitionBy(STREAM_COLUMN).start(self.sink.path)

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """The files of committed batches."""
        return spark.read.schema(schema).format(self.sink.format).load(self.sink.path)

    def read_stream(self, spark: SparkSession, schema: str, stream: str) -> DataFrame:  # noqa: ARG002
        """The files of each batch once it is committed."""
        make_folder(self.sink.path)
        return spark.readStream.schema(schema).format(self.sink.format).load(self.sink.path)

    def skip_batch(self, spark: Any, batch: int) -> None:
        """Enter a batch without files into Spark's log, or Spark reads its output no more."""
        jvm, gateway = spark._jvm, spark.sparkContext._gateway  # noqa: SLF001 - Spark's log is known to its JVM only
        sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
        no_retention = jvm.scala.Option.empty()
        log = sinks.FileStreamSinkLog(_LOG_VERSION, spark._jsparkSession, self._log, no_retention)  # noqa: SLF001
        log.add(batch, gateway.new_array(sinks.SinkFileStatus, 0))

    def missing_batches(self, spark: Any, last: int) -> list[int]:
        """Batches since the log was compacted last that have no entry in it."""
        names = [name for name in HadoopFolder(spark, self._log).names() if name.removesuffix(".compact").isdecimal()]
        known = {int(name.removesuffix(".compact")) for name in names}
        compacted = [int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")]
        first = max(compacted, default=min(known, default=last + 1))
        return [batch for batch in range(first, last + 1) if batch not in known]

    @property
    def _log(self) -> str:
        return f"{self.sink.path}/_spark_metadata"


class TableSink(SinkPort[Table]):
    """A table in Spark's catalogue, partitioned by stream."""

    can_skip_batches = False  # the table's own log is not known

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Write to the table; it is created when it does not exist."""
        return writer.partitionBy(STREAM_COLUMN).toTable(self.sink.name)

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:  # noqa: ARG002
        """The table."""
        return spark.table(self.sink.name)


class MemorySink(SinkPort[Memory]):
    """A table in the driver's memory; Spark gives it the name of the query."""

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Write to the table."""
        return writer.queryName(self.sink.name).start()

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:  # noqa: ARG002
        """The table."""
        return spark.table(self.sink.name)


class KafkaPort(SinkPort[KafkaSink]):
    """Records in Kafka topics: JSON without nulls, the stream in the name of the topic or beside the columns."""

    def records(self, frame: DataFrame) -> DataFrame:
        """Columns `topic`, `key` and `value`."""
        add_library(frame.sparkSession, KAFKA_CONNECTOR)
        sink = self.sink
        hide_options(sink.options)
        if sink.key is not None and sink.key not in frame.columns:
            known = ", ".join(frame.columns)
            raise TopologyError(
                "sink", [Problem("sink", f"has no column '{sink.key}' for its key", f"It has: {known}")]
            )
        names = [name for name in frame.columns if name != STREAM_COLUMN or not self._per_stream]
        value = F.to_json(F.struct(*map(quoted, names)), _JSON)
        key = F.lit(None) if sink.key is None else F.col(quoted(sink.key))
        return frame.select(
            self._topic(F.col(STREAM_COLUMN)).alias("topic"), key.cast("string").alias("key"), value.alias("value")
        )

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Write to the brokers, each record at once."""
        options = {"kafka.bootstrap.servers": self.sink.servers, "kafka.linger.ms": "0", **self.sink.options}
        return writer.options(**options).start()

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """All records of the topics, those that were written twice as well."""
        add_library(spark, KAFKA_CONNECTOR)
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", self.sink.servers)
        pattern = re.escape(self.sink.topic).replace(re.escape(_STREAM), "(.+)")
        records = reader.options(**self.sink.options).option("subscribePattern", pattern).load()
        row = F.from_json(F.col("value").cast("string"), schema, _JSON).alias("row")
        if not self._per_stream:
            return records.select(row).select("row.*")
        stream = F.regexp_extract("topic", f"^{pattern}$", 1)
        names = [name for name in schema.names if name != STREAM_COLUMN]  # maybe a `topic`, as Kafka has
        fields = (F.col("row").getField(name).alias(name) for name in names)
        return records.select(row, stream.alias(STREAM_COLUMN)).select(*fields, STREAM_COLUMN)

    def read_stream(self, spark: SparkSession, schema: str, stream: str) -> DataFrame:
        """The records of the stream's topic that are written from the query's first start on."""
        hide_options(self.sink.options)
        add_library(spark, KAFKA_CONNECTOR)
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.sink.servers)
        reader = reader.option("startingOffsets", "latest").options(**self.sink.options)
        records = reader.option("subscribe", self.sink.topic_of(stream)).load()
        row = F.from_json(F.col("value").cast("string"), schema, _JSON).alias("row")
        return records.select(row).select("row.*").withColumn(STREAM_COLUMN, F.lit(stream))

    @property
    def _per_stream(self) -> bool:
        return _STREAM in self.sink.topic

    def _topic(self, stream: Column) -> Column:
        before, _, after = self.sink.topic.partition(_STREAM)
        return F.concat(F.lit(before), stream, F.lit(after)) if self._per_stream else F.lit(self.sink.topic)


class ConsoleSink(SinkPort[Console]):
    """Printed to the driver's standard output."""

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Print the first rows of each batch, in full."""
        return writer.option("numRows", self.sink.rows).option("truncate", value=False).start()


PORTS: Mapping[type[Sink], type[SinkPort[Any]]] = {
    Parquet: FileSink,
    Json: FileSink,
    Table: TableSink,
    Memory: MemorySink,
    Console: ConsoleSink,
    KafkaSink: KafkaPort,
}


def sink_port(sink: Sink) -> SinkPort[Any]:
    """The port of a sink."""
    return PORTS[type(sink)](sink)


def start_query(
    compiled: Compiled,
    name: str,
    sink: Sink,
    checkpoint: str,
    trigger: str | None,
    output_mode: str = "append",
    mode: ExecutionMode = MICRO_BATCH,
) -> StreamingQuery:
    """Start writing; `foretide.spark.session.with_trigger` says what a trigger may be."""
    port = sink_port(sink)
    port.check(name, checkpoint)
    writer = port.records(compiled.frame).writeStream.queryName(name).outputMode(output_mode).format(sink.format)
    use_libraries(compiled.frame.sparkSession)
    with in_mode(compiled.frame.sparkSession, mode):
        return port.start(with_trigger(writer.option("checkpointLocation", checkpoint), trigger, mode))


def read_output(compiled: Compiled, sink: Sink, stream: str) -> DataFrame:
    """An output stream as the sink has it, with its own columns only."""
    written = sink_port(sink).read(compiled.frame.sparkSession, compiled.frame.schema)
    if stream not in compiled.columns:
        known = ", ".join(sorted(compiled.columns))
        raise TopologyError(stream, [Problem(stream, "is not an output stream", f"There are: {known}")])
    return written.where(written[STREAM_COLUMN] == stream).select(*map(quoted, compiled.columns[stream]))
