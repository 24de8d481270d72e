"""Which port implements which source, with the ports of Spark's own sources, whose offsets do not count rows.

A new kind is a record in `foretide.topology.sources`, a file beside this one, and a line in `PORTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from foretide.metrics.batch import SourceRange
from foretide.spark.sources.kafka import KafkaPort
from foretide.spark.sources.port import LoadContext, RowCounts, SourcePort
from foretide.spark.sources.replay import ReplaySource
from foretide.topology.sources import Files, KafkaSource, Rate, Replay, Socket, Source, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from foretide.spark.sources.port import Offset


class RateSource(SourcePort[Rate]):
    """Columns `timestamp` and `value`, at a constant rate."""

    def load(self, context: LoadContext) -> DataFrame:
        """Spark's rate source."""
        reader = context.spark.readStream.format("rate")
        return reader.option("rowsPerSecond", self.source.rows_per_second).load()


class FilesSource(SourcePort[Files]):
    """New files in a folder."""

    def load(self, context: LoadContext) -> DataFrame:
        """Spark's file source."""
        source = self.source
        reader = context.spark.readStream.schema(source.schema).format(source.format)
        if source.max_files is not None:
            reader = reader.option("maxFilesPerTrigger", source.max_files)
        return reader.load(source.path)


class SocketSource(SourcePort[Socket]):
    """Lines from a socket, column `value`."""

    def load(self, context: LoadContext) -> DataFrame:
        """Spark's socket source."""
        reader = context.spark.readStream.format("socket")
        return reader.option("host", self.source.host).option("port", self.source.port).load()


class StreamSource(SourcePort[Stream]):
    """Any streaming DataFrame."""

    def load(self, context: LoadContext) -> DataFrame:
        """What the function of the record makes of the session."""
        frame: DataFrame = self.source.load(context.spark)
        return frame


PORTS: Mapping[type[Source], type[SourcePort[Any]]] = {
    Replay: ReplaySource,
    KafkaSource: KafkaPort,
    Rate: RateSource,
    Files: FilesSource,
    Socket: SocketSource,
    Stream: StreamSource,
}


def source_port(source: Source) -> SourcePort[Any]:
    """The port of a source."""
    return PORTS[type(source)](source)


def source_range(
    start: Offset,
    end: Offset,
    latest: Offset,
    input_rows: int,
    description: str = "",
    spout_of: Mapping[str, str] = MappingProxyType({}),
) -> SourceRange:
    """What a batch took from a source, read from the offsets in Spark's progress. Every kind knows its own offsets.

    `spout_of` has the spouts that are told by the topic they read.
    """
    counts = (port.read_offsets(start, end, latest) for port in PORTS.values())
    known = next((each for each in counts if each is not None), RowCounts())
    spout = known.spout or spout_of.get(known.topic or "")
    rows = min(input_rows if known.rows is None else known.rows, input_rows) if known.gaps else known.rows
    return SourceRange(input_rows, description, start, end, spout, rows, known.backlog, known.partition_lag)
