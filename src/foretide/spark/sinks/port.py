"""The port of a sink: writing a query's output, and reading it back. Each kind implements what it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from foretide.errors import Problem, TopologyError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from foretide.topology.sinks import Sink

S = TypeVar("S", bound="Sink")


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
