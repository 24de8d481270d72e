"""Starting the one query of a compiled topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.control_folder.filesystem import local_path
from foretide.errors import Problem, TopologyError
from foretide.topology.graph import STREAM_COLUMN
from foretide.topology.sinks import Console, Json, Memory, Parquet, Sink, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from foretide.spark.compile.topology import Compiled


def start_query(
    compiled: Compiled,
    name: str,
    sink: Sink,
    checkpoint: str,
    trigger: str | None,
    output_mode: str = "append",
) -> StreamingQuery:
    """Start writing.

    `trigger` is an interval such as `500 milliseconds`; None takes what is there and ends, `once` ends after a batch.
    """
    refuse_foreign_output(name, sink, checkpoint)
    writer = compiled.frame.writeStream.queryName(name).outputMode(output_mode).format(sink.format)
    writer = writer.option("checkpointLocation", checkpoint)
    if trigger == "once":
        writer = writer.trigger(once=True)
    else:
        writer = writer.trigger(availableNow=True) if trigger is None else writer.trigger(processingTime=trigger)
    match sink:
        case Parquet(path) | Json(path):
            return writer.partitionBy(STREAM_COLUMN).start(path)
        case Table(table):
            return writer.partitionBy(STREAM_COLUMN).toTable(table)
        case Console(rows):
            return writer.option("numRows", rows).option("truncate", value=False).start()
        case Memory(table):
            return writer.queryName(table).start()


def read_output(compiled: Compiled, sink: Sink, stream: str) -> DataFrame:
    """A stream as the sink has it, with its own columns only."""
    spark = compiled.frame.sparkSession
    match sink:
        case Parquet(path) | Json(path):
            written = spark.read.schema(compiled.frame.schema).format(sink.format).load(path)
        case Table(table) | Memory(table):
            written = spark.table(table)
        case Console():
            raise TopologyError(stream, [Problem("sink", "a console cannot be read back", "Use Parquet or Json")])
    if stream not in compiled.columns:
        known = ", ".join(sorted(compiled.columns))
        raise TopologyError(stream, [Problem(stream, "is no output stream", f"There are: {known}")])
    columns = [f"`{column}`" for column in compiled.columns[stream]]
    return written.where(written[STREAM_COLUMN] == stream).select(*columns)


def refuse_foreign_output(name: str, sink: Sink, checkpoint: str) -> None:
    """A new checkpoint on a sink with another's output would make Spark skip batches without a word."""
    if not isinstance(sink, Parquet | Json):
        return
    output, known = local_path(sink.path), local_path(checkpoint)
    if output is None or known is None:
        return
    log = output / "_spark_metadata"
    if log.is_dir() and any(log.iterdir()) and not (known / "commits").is_dir():
        problem = Problem(
            "sink",
            f"'{sink.path}' holds the output of another checkpoint, and Spark would skip batches without a word",
            "Use a new output folder, or the checkpoint that belongs to it",
        )
        raise TopologyError(name, [problem])
