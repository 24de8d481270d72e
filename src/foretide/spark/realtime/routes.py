"""The route of an edge that running tasks see: a system property of each executor's JVM, one character a slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from foretide.control_folder.filesystem import local_path
from foretide.routing.table import FORMAT
from foretide.spark.edges import ROUTES_SCHEMA, ring_of
from foretide.spark.realtime.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from foretide.control_folder.folder import ControlFolder

_FIRST = ord("0")


def route_property(key: str, edge: str) -> str:
    """The system property that holds the live route of an edge. `key` tells the queries of an application apart."""
    return f"foretide.route.{key}.{edge}"


def route_text(ring: Sequence[int]) -> str:
    """The value of that property: a character for each slot of the ring.

    >>> route_text([0, 1, 1, 12])
    '011<'
    """
    return "".join(chr(_FIRST + task) for task in ring)


def ring_of_batch(spark: SparkSession, folder: ControlFolder, edge: str) -> Column:
    """The ring of an edge when Spark plans a batch; null where the table cannot be read, or has no such edge.

    The driver reads a local table while it plans. A scan of it, as in micro-batches, is a job of its own before the
    tasks of the batch can start, and makes the boundary between two batches longer.
    """
    path = local_path(folder.routes_url)
    if path is None:
        return ring_of(spark, folder, edge)
    table = F.from_json(Jvm(spark).file_text(str(path)), ROUTES_SCHEMA)
    return F.when(table["format"] == FORMAT, F.try_element_at(table["edges"], F.lit(edge))["ring"])


def live_task(spark: SparkSession, key: str, edge: str, slot: Column, ring: Column | None, pool: int) -> Column:
    """The task for a slot: by the live route, by the ring of the batch where that has none, else `slot % pool`.

    Each of them is skipped for a row where it names no task of the pool, so no row is lost.
    """
    tasks = F.sequence(F.lit(0), F.lit(pool - 1))  # `get` reads the property once, where a comparison would twice
    live = F.get(tasks, Jvm(spark).property_code(route_property(key, edge), slot) - _FIRST)
    of_batch = [] if ring is None else [F.get(tasks, F.get(ring, slot))]
    return F.coalesce(live, *of_batch, slot % pool)
