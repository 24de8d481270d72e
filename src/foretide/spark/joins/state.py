"""How far a join got, read from its state: for batches that nobody has reported.

Rows that Spark has dropped from the state are behind the watermark, so what is left has the highest event times that
matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from foretide.errors import JoinPlanError
from foretide.joins.placement.plan_change import Maxima
from foretide.spark.edges.groupings import quoted
from foretide.spark.joins.names import SALT
from foretide.spark.state import WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_OPERATOR = "symmetricHashJoin"


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
    known = spark.read.format("state-metadata").load(checkpoint).where(F.col("operatorName") == _OPERATOR)
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
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only annotations need it elsewhere in here

    return highest_times(SparkSession.active(), checkpoint_of(query), name, batch)
