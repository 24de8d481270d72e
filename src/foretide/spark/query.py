"""Starting the one query of a compiled topology, and reading its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.errors import Problem, TopologyError
from foretide.spark.edges import quoted
from foretide.spark.session import with_trigger
from foretide.spark.sinks import sink_port
from foretide.topology.graph import STREAM_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from foretide.spark.compile.topology import Compiled
    from foretide.topology.sinks import Sink


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
