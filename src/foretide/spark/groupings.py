"""From a grouping to the number of a task: one Column expression for each kind, all native, all deterministic.

Python workers load this module with a bolt, so it imports little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from foretide.topology.groupings import All, Custom, Direct, Global, Grouping, PartialKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame


LiveRoute = Callable[["Column", "Column"], "Column"]
"""From the slot of a tuple and the ring of the batch to its task, by a route that running tasks see."""


def task_of(
    grouping: Grouping, frame: DataFrame, pool: int, ring: Column | None, slots: int, live: LiveRoute | None = None
) -> Column:
    """The task a tuple goes to. `ring` is the edge's ring in this batch, needed by controllable groupings only."""
    match grouping:
        case All():
            return F.explode(F.sequence(F.lit(0), F.lit(pool - 1)))
        case Global():
            return F.spark_partition_id() * 0  # a constant that the optimizer cannot fold away with its name
        case Direct(task):
            return F.col(quoted(task)).cast("int")
        case Custom(task):
            return (F.expr(task) if isinstance(task, str) else task()).cast("int")
        case PartialKey():
            return _by_ring(_one_of_its_slots(frame, grouping, slots), ring, pool, live)
        case _:
            return _by_ring(slot_of(frame, grouping.keys or frame.columns, slots), ring, pool, live)


def slot_of(frame: DataFrame, columns: Iterable[str], slots: int) -> Column:
    """The identifier on the ring for the values of these columns. Nulls have one too."""
    return F.pmod(F.xxhash64(*hashable(frame, columns)), F.lit(slots)).cast("int")


def _by_ring(slot: Column, ring: Column | None, pool: int, live: LiveRoute | None) -> Column:
    if ring is None:
        return slot % pool
    return F.coalesce(F.get(ring, slot), slot % pool) if live is None else live(slot, ring)


def _one_of_its_slots(frame: DataFrame, grouping: PartialKey, slots: int) -> Column:
    """Slots of a key lie evenly around the ring; a tuple's own content picks one, so a retry picks the same."""
    first = slot_of(frame, grouping.keys, slots)
    picked = F.pmod(F.xxhash64(*hashable(frame, frame.columns)), F.lit(grouping.choices))
    return F.pmod(first + F.floor(picked * slots / grouping.choices), F.lit(slots)).cast("int")


def hashable(frame: DataFrame, columns: Iterable[str]) -> list[Column]:
    """The columns in a form that Spark can hash (it refuses maps and variants)."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    return [_hashable(name, types.get(name)) for name in columns]


def _hashable(name: str, kind: DataType | None) -> Column:
    column = F.col(quoted(name))
    return F.to_json(F.struct(column)) if kind is not None and _has_no_hash(kind) else column


def _has_no_hash(kind: Any) -> bool:
    match kind:
        case MapType() | VariantType():
            return True
        case ArrayType():
            return _has_no_hash(kind.elementType)
        case StructType():
            return any(_has_no_hash(field.dataType) for field in kind.fields)
        case _:
            return False


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
