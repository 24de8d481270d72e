"""What an execution mode means to Spark: session settings, and the trigger of a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from foretide.durations import interval_text, parse_duration
from foretide.topology.modes import MICRO_BATCH, ExecutionMode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MODE_SETTINGS: Mapping[str, Mapping[str, str]] = {
    MICRO_BATCH.name: {
        "spark.sql.adaptive.streaming.stateless.enabled": "false",  # adaptive execution would merge an edge's tasks
    }
}
"""Session settings that queries of a mode rely on."""

ONCE = "once"
"""The trigger of a query that takes one batch and ends."""


def apply_mode(spark: SparkSession, mode: ExecutionMode = MICRO_BATCH) -> None:
    """Set what queries of the mode rely on, where the session has it otherwise."""
    for name, value in MODE_SETTINGS[mode.name].items():
        if spark.conf.get(name, None) != value:
            spark.conf.set(name, value)


def with_trigger(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    """Give a query its trigger: an interval between batches, None to take what is there and end, or `once`."""
    if trigger is None:
        return writer.trigger(availableNow=True)
    if trigger == ONCE:
        return writer.trigger(once=True)
    return writer.trigger(processingTime=interval_text(parse_duration(trigger)))
