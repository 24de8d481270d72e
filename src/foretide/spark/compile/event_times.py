"""Event times of a spout's tuples, measured on request where the source cannot tell them: it costs some 60 ns a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from foretide.metrics.batch import EventTimes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT_TIMES = "foretide_event_times_"
_LEVELS = (0.01, 0.05, 0.5)
"""The oldest tuples have waited longest: latency at 0.99 is told by event time at 0.01."""


def observe_event_times(frame: DataFrame, spout: str, column: str) -> DataFrame:
    """The same frame; each batch reports its event times under the spout's name."""
    seconds = F.col(f"`{column}`").cast("double")
    levels = F.array(*(F.lit(level) for level in _LEVELS))
    return frame.observe(
        f"{EVENT_TIMES}{spout}",
        F.count(seconds).alias("tuples"),
        F.avg(seconds).alias("mean"),
        F.percentile_approx(seconds, levels, 10_000).alias("at"),
    )


def read_event_times(observed: Any) -> EventTimes | None:
    """What a batch reported; None when it had no tuples."""
    if not observed["tuples"]:
        return None
    return EventTimes(observed["tuples"], observed["mean"], dict(zip(_LEVELS, observed["at"], strict=True)))
