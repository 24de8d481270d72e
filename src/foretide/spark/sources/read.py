"""From a source as data to a streaming DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from foretide.control_folder.filesystem import local_path
from foretide.errors import WorkloadError
from foretide.spark.sources.replay import FORMAT, ReplayPlan, ReplaySource
from foretide.topology.sources import Files, Rate, Replay, Socket, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder


def load(
    spark: SparkSession, spout: str, source: Source, folder: ControlFolder, *, once_only: bool = False
) -> DataFrame:
    """The stream of a spout. `once_only` (at-most-once) is for the replay source alone."""
    reader = spark.readStream
    match source:
        case Replay():
            return _replay(spark, spout, source, folder, once_only=once_only)
        case Rate(rows_per_second):
            return reader.format("rate").option("rowsPerSecond", rows_per_second).load()
        case Files(path, schema, kind, max_files):
            files = reader.schema(schema).format(kind)
            return (files if max_files is None else files.option("maxFilesPerTrigger", max_files)).load(path)
        case Socket(host, port):
            return reader.format("socket").option("host", host).option("port", port).load()
        case _:
            loaded: DataFrame = source.load(spark)
            return loaded


def _replay(spark: SparkSession, spout: str, source: Replay, folder: ControlFolder, *, once_only: bool) -> DataFrame:
    spark.dataSource.register(ReplaySource)
    plan = ReplayPlan(source)
    plan.schema  # noqa: B018 - a file that is gone is found here, with a clear error
    reader = spark.readStream.format(FORMAT).option("plan", plan.to_json())
    reader = reader.option("spout", spout).option("control", folder.location)
    if once_only:
        reader = reader.option("once_only", str(_markers(folder, spout)))
    return reader.load()


def _markers(folder: ControlFolder, spout: str) -> Path:
    """Where rows that were handed out are marked: a disk that all executors see."""
    path = local_path(folder.location)
    if path is None:
        raise WorkloadError(
            f"at-most-once needs a checkpoint on a disk that all executors see, not '{folder.location}'"
        )
    return path / "handed-out" / spout


def partitions_of(spark: SparkSession, source: Source) -> int:
    """How many tasks the source is read by, as far as it can be known before it runs."""
    return source.partitions if isinstance(source, Replay) else spark.sparkContext.defaultParallelism
