"""Sources of Spark's own, and any streaming DataFrame. Their offsets do not count rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.spark.sources.port import LoadContext, SourcePort
from foretide.topology.sources import Files, Rate, Socket, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
