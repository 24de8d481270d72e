"""Spark's own state: stateful operators in a plan, and the partitions of the state in a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretide.control_folder.filesystem import open_filesystem
from foretide.errors import ActionError
from foretide.spark.sinks import sink_port

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from foretide.topology.sinks import Sink

WATERMARK = "spark.watermarkDelayMs"
"""What a column with a watermark has in its metadata."""

_STATEFUL = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)


def is_stateful(frame: DataFrame, work: Callable[[Any], Any]) -> bool:
    """Whether the work adds a stateful streaming operator to what the frame already has."""
    return _count(work(frame)) > _count(frame)


def has_state(frame: DataFrame) -> bool:
    """Whether a stateful streaming operator comes before this frame."""
    return _count(frame) > 0


def has_watermark(frame: DataFrame) -> bool:
    """Whether a column carries a watermark."""
    return any(WATERMARK in field.metadata for field in frame.schema.fields)


def _count(frame: DataFrame) -> int:
    return _stateful_nodes(frame._jdf.queryExecution().analyzed())  # noqa: SLF001 - Spark shows its plan only there


def _stateful_nodes(plan: Any) -> int:
    if not plan.isStreaming():
        return 0
    children = plan.children()
    below = [children.apply(index) for index in range(children.size())]
    kind = plan.getClass().getSimpleName()
    joined = kind == "Join" and all(child.isStreaming() for child in below)
    return (kind in _STATEFUL or joined) + sum(_stateful_nodes(child) for child in below)


# ---- partitions of the state in a checkpoint


def repartition_state(spark: Any, checkpoint: str, sink: Sink, partitions: int) -> None:
    """Give the state of a stopped query another number of partitions: Spark's own offline repartition.

    The query's last batch has to be committed. Spark rewrites the state as one more batch of the checkpoint.
    """
    offsets = open_filesystem(f"{checkpoint}/offsets")
    last = last_entry(spark, checkpoint, "offsets")
    if partitions_of(offsets.read(str(last)) or "") == partitions:
        return
    try:
        spark._streamingCheckpointManager.repartition(checkpoint, partitions)  # noqa: SLF001 - no public name yet
    except Exception as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise ActionError(f"Spark could not give the state {partitions} partitions: {reason}") from error
    sink_port(sink).skip_batch(spark, last + 1)


def partitions_of(entry: str) -> int | None:
    r"""The state partitions that an entry of the offset log names.

    >>> partitions_of('v1\n{"conf":{"spark.sql.shuffle.partitions":"4"}}\n{}')
    4
    """
    for line in entry.splitlines():
        if '"spark.sql.shuffle.partitions"' in line:
            return int(json.loads(line)["conf"]["spark.sql.shuffle.partitions"])
    return None


def is_settled(spark: Any, checkpoint: str) -> bool:
    """Whether the last batch that was planned was committed too; Spark repartitions nothing else."""
    return last_entry(spark, checkpoint, "offsets") == last_entry(spark, checkpoint, "commits")


def last_entry(spark: Any, checkpoint: str, log: str) -> int:
    """The last batch in one of the checkpoint's logs; -1 when there is none."""
    jvm = spark._jvm  # noqa: SLF001 - files of any file system that Spark knows
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/{log}")
    filesystem = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    listed = filesystem.listStatus(path) if filesystem.exists(path) else []
    numbers = [name for entry in listed if (name := entry.getPath().getName()).isdigit()]
    return max(map(int, numbers), default=-1)
