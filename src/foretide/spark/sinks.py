"""Sinks at run time: writing a query's output, and reading it back. Each kind implements what it can.

A new kind is a record in `foretide.topology.sinks`, a port, and a line in `PORTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from foretide.control_folder.filesystem import local_path, make_folder, open_filesystem
from foretide.errors import Problem, TopologyError
from foretide.spark.groupings import quoted
from foretide.spark.session import with_trigger
from foretide.topology.graph import STREAM_COLUMN
from foretide.topology.sinks import Console, Json, Memory, Parquet, Sink, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from foretide.control_folder.filesystem import Filesystem
    from foretide.spark.compile.topology import Compiled

S = TypeVar("S", bound=Sink)

_COMPACT_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"
_LOG_VERSION = "v1"


class SinkPort(Generic[S]):
    """A sink at run time."""

    def __init__(self, sink: S) -> None:
        self.sink = sink

    def check(self, query: str, checkpoint: str) -> None:
        """Raise when the query must not write there."""

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start the query that the writer describes."""
        raise NotImplementedError

    def read(self, spark: SparkSession, schema: StructType) -> DataFrame:  # noqa: ARG002
        """Everything that was committed."""
        name = self.sink.format
        raise TopologyError("sink", [Problem("sink", f"a {name} cannot be read back", "Use Parquet or Json")])

    def read_stream(self, spark: SparkSession, schema: str) -> DataFrame:
        """What is committed from now on, as a stream: the way of feedback."""
        raise NotImplementedError

    def skip_batch(self, spark: Any, batch: int) -> None:
        """Note a batch of the checkpoint that writes nothing, where the sink counts batches of its own."""


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

    def read_stream(self, spark: SparkSession, schema: str) -> DataFrame:
        """The files of each batch once it is committed."""
        make_folder(self.sink.path)
        return spark.readStream.schema(schema).format(self.sink.format).load(self.sink.path)

    def skip_batch(self, spark: Any, batch: int) -> None:
        """Enter a batch without files, or Spark reads its output no more."""
        interval = int(spark.conf.get(_COMPACT_INTERVAL, "10"))
        enter_empty_batch(open_filesystem(f"{self.sink.path}/_spark_metadata"), batch, interval)


def enter_empty_batch(log: Filesystem, batch: int, interval: int) -> None:
    """Enter a batch without files into the sink's log; every `interval` batches it repeats all that was before."""
    if (batch + 1) % interval:
        log.write(str(batch), _LOG_VERSION)
        return
    before = [log.read(f"{batch - interval}.compact"), *(log.read(str(n)) for n in range(batch - interval + 1, batch))]
    entries = [line for text in before for line in (text or "").splitlines() if line and line != _LOG_VERSION]
    log.write(f"{batch}.compact", "\n".join([_LOG_VERSION, *entries]))


class TableSink(SinkPort[Table]):
    """A table in Spark's catalogue, partitioned by stream."""

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
) -> StreamingQuery:
    """Start writing; `foretide.spark.session.with_trigger` says what a trigger may be."""
    port = sink_port(sink)
    port.check(name, checkpoint)
    writer = compiled.frame.writeStream.queryName(name).outputMode(output_mode).format(sink.format)
    return port.start(with_trigger(writer.option("checkpointLocation", checkpoint), trigger))


def read_output(compiled: Compiled, sink: Sink, stream: str) -> DataFrame:
    """An output stream as the sink has it, with its own columns only."""
    written = sink_port(sink).read(compiled.frame.sparkSession, compiled.frame.schema)
    if stream not in compiled.columns:
        known = ", ".join(sorted(compiled.columns))
        raise TopologyError(stream, [Problem(stream, "is not an output stream", f"There are: {known}")])
    return written.where(written[STREAM_COLUMN] == stream).select(*map(quoted, compiled.columns[stream]))
