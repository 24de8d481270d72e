"""Finding Spark's own stateful operators in a bolt's native work: they bring their own exchange and partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
