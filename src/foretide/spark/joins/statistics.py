"""What is known of a running join: the statistics that each batch reports, and the event times in its state.

Statistics are taken before rows are copied. The frequent keys come from Spark's own sketch of heavy hitters, over the
hashes of the keys and, behind them, the keys as text: a count is too low by at most the share of rows that the sketch
could not track.

The state is read for batches that nobody has reported. Rows that Spark has dropped from it are behind the watermark, so
what is left has the highest event times that matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from foretide.errors import JoinPlanError
from foretide.joins.placement.plan_change import Maxima
from foretide.metrics.batch import JoinBatch, JoinSide
from foretide.spark.groupings import quoted
from foretide.spark.joins.cells import OBSERVATION, SALT
from foretide.spark.state import WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

TOP_KEYS, TRACKED = 100, 1000
_LEFT, _RIGHT = "foretide_join_left_", "foretide_join_right_"
_PLAN = f"{OBSERVATION}_"
_MAX_NAME_LENGTH = 40
_SEPARATOR = "\x1f"
JOIN_OPERATOR = "symmetricHashJoin"
"""Spark's name of a stream-stream join among its stateful operators."""


def plan_observation(name: str) -> str:
    """The name of the metric with the version of the plan that a batch read."""
    return f"{_PLAN}{name}"


def left_observation(name: str) -> str:
    """The name of the metric with the statistics of the left side."""
    return f"{_LEFT}{name}"


def observed(
    frame: DataFrame, name: str, keys: Sequence[Column], time: Column, *, is_left: bool, statistics: bool
) -> DataFrame:
    """The same rows, of which every batch reports statistics."""
    top = F.call_function("approx_top_k", _hash_and_name(keys), F.lit(TOP_KEYS), F.lit(TRACKED)).alias("keys")
    seen = [F.count(F.lit(1)).alias("rows"), F.max(time).alias("latest"), *([top] if statistics else [])]
    return frame.observe(f"{_LEFT if is_left else _RIGHT}{name}", *seen)


def _hash_and_name(keys: Sequence[Column]) -> Column:
    """The hash of a key, and behind it the start of the key as text."""
    texts = [F.coalesce(F.left(key.cast("string"), F.lit(_MAX_NAME_LENGTH)), F.lit("null")) for key in keys]
    return F.concat_ws(_SEPARATOR, F.hash(*keys).cast("string"), *texts)


def joins_seen(metrics: Mapping[str, Any]) -> dict[str, JoinBatch]:
    """What a batch reported of each join, by its name."""
    names = {
        name.removeprefix(prefix) for prefix in (_PLAN, _LEFT, _RIGHT) for name in metrics if name.startswith(prefix)
    }
    return {
        name: JoinBatch(
            row["version"] if (row := metrics.get(plan_observation(name))) is not None else None,
            _side(metrics.get(f"{_LEFT}{name}")),
            _side(metrics.get(f"{_RIGHT}{name}")),
        )
        for name in sorted(names)
    }


def _side(row: Any) -> JoinSide | None:
    if row is None:
        return None
    keys = row.asDict().get("keys")
    if keys is None:
        return JoinSide(row["rows"], row["latest"])
    counts: Counter[int] = Counter()
    names: dict[int, str] = {}
    for entry in keys:
        key_hash, *texts = entry["item"].split(_SEPARATOR)
        counts[int(key_hash)] += entry["count"]
        names.setdefault(int(key_hash), ", ".join(texts))
    return JoinSide(row["rows"], row["latest"], dict(counts), names)


# ---- from the state of the join


def checkpoint_of(query: Any) -> str:
    """Where a running query keeps its checkpoint."""
    return str(query._jsq.streamingQuery().resolvedCheckpointRoot())  # noqa: SLF001 - Spark shows it only there


def highest_times(spark: SparkSession, checkpoint: str, name: str, batch: int) -> Maxima:
    """The highest event times of both sides that a join holds after a batch."""
    operator = _operator(spark, checkpoint, name, batch)
    left, right = (_highest(_state(spark, checkpoint, operator, side, batch)) for side in ("left", "right"))
    return Maxima(left, right)


def _operator(spark: SparkSession, checkpoint: str, name: str, batch: int) -> int:
    """The stateful operator that is this join: the one whose rows carry its salts."""
    known = spark.read.format("state-metadata").load(checkpoint).where(F.col("operatorName") == JOIN_OPERATOR)
    for row in known.select("operatorId").distinct().collect():
        held = _state(spark, checkpoint, row["operatorId"], "left", batch)
        if f"{SALT}{name}" in _values(held).fieldNames():
            return int(row["operatorId"])
    raise JoinPlanError(f"'{checkpoint}' holds no state of join '{name}'")


def _state(spark: SparkSession, checkpoint: str, operator: int, side: str, batch: int) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", operator).option("joinSide", side)
    return reader.option("batchId", batch).load(checkpoint)


def _values(held: DataFrame) -> StructType:
    kind: Any = held.schema["value"].dataType
    return kind  # type: ignore[no-any-return]


def _highest(held: DataFrame) -> int | None:
    times = [field.name for field in _values(held).fields if WATERMARK in field.metadata]
    if not times:
        raise JoinPlanError("its state does not say which column is the event time")
    tops = [F.max(F.unix_micros(F.col(f"value.{quoted(name)}"))) for name in times]
    found = held.select(*tops).collect()[0]
    return max((time for time in found if time is not None), default=None)


def highest_times_of(query: Any, name: str, batch: int) -> Maxima:
    """The same for a running query."""
    return highest_times(SparkSession.active(), checkpoint_of(query), name, batch)
