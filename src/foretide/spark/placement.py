"""From a grouping to the number of a task: one Column expression for each kind, all native, all deterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from foretide.topology.grouping import All, Custom, Direct, Global, Grouping, PartialKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

_SECOND_CHOICE = 1


def task_of(grouping: Grouping, frame: DataFrame, pool: int, ring: Column | None, slots: int) -> Column:
    """The task a tuple goes to. `ring` is the edge's live ring, needed by controllable groupings only."""
    match grouping:
        case All():
            return F.explode(F.sequence(F.lit(0), F.lit(pool - 1)))
        case Global():
            return F.spark_partition_id() * 0  # a constant that the optimizer cannot fold away with its name
        case Direct(task):
            return F.col(_quoted(task)).cast("int")
        case Custom(task):
            return (F.expr(task) if isinstance(task, str) else task()).cast("int")
        case PartialKey(keys):
            return _two_choices(frame, keys, ring, slots, pool)
        case _:
            return _by_ring(slot_of(frame, grouping.keys or frame.columns, slots), ring, pool)


def slot_of(frame: DataFrame, columns: Iterable[str], slots: int, salt: int = 0) -> Column:
    """The identifier on the ring for the values of these columns. Nulls have one too."""
    hashed = [*hashable(frame, columns), *([F.lit(salt)] if salt else [])]
    return F.pmod(F.xxhash64(*hashed), F.lit(slots)).cast("int")


def _by_ring(slot: Column, ring: Column | None, pool: int) -> Column:
    default = slot % pool
    return default if ring is None else F.coalesce(F.get(ring, slot), default)


def _two_choices(frame: DataFrame, keys: tuple[str, ...], ring: Column | None, slots: int, pool: int) -> Column:
    """Two tasks a key; a tuple's own content decides between them, so a retry decides the same."""
    first = slot_of(frame, keys, slots)
    second = slot_of(frame, keys, slots, salt=_SECOND_CHOICE)
    coin = F.xxhash64(*hashable(frame, frame.columns)).bitwiseAND(F.lit(1))
    return _by_ring(F.when(coin == 0, first).otherwise(second), ring, pool)


def hashable(frame: DataFrame, columns: Iterable[str]) -> list[Column]:
    """The columns in a form that Spark can hash (it refuses maps and variants)."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    return [_hashable(name, types.get(name)) for name in columns]


def _hashable(name: str, kind: DataType | None) -> Column:
    column = F.col(_quoted(name))
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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
