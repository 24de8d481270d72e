"""The live route table inside a query plan: read again by every batch, once, whatever the number of edges."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F

from foretide.routing.table import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from foretide.control_folder.folder import ControlFolder

OBSERVATION = "foretide_routes"
"""Name of the metric in a query's progress that confirms which version a batch read."""

_SCHEMA = "format int, version long, edges map<string, struct<pool int, ring array<int>>>"
_tables: WeakKeyDictionary[SparkSession, dict[str, DataFrame]] = WeakKeyDictionary()


def ring_of(spark: SparkSession, folder: ControlFolder, edge: str) -> Column:
    """The ring of an edge as an expression that every batch evaluates anew.

    It is null when the table is missing, truncated, empty or of a newer format, or has no such edge: the caller falls
    back to a default split, so rows never vanish. Spark merges the subqueries of all edges into one, with one scan.
    """
    ring = F.try_element_at("edges", F.lit(edge))["ring"]
    return _live_table(spark, folder).select(F.when(F.col("format") == FORMAT, ring).alias(edge)).scalar()


def _live_table(spark: SparkSession, folder: ControlFolder) -> DataFrame:
    """One DataFrame a control folder, so that all edges of a query share one scan and one confirmation.

    The file has to exist by now: Spark ignores for ever what was empty when the DataFrame was made.
    """
    tables = _tables.setdefault(spark, {})
    if folder.routes_url not in tables:
        table = (
            spark.read.schema(_SCHEMA)
            .option("multiLine", value=True)
            .option("ignoreMissingFiles", value=True)
            .json(folder.routes_url)
        )
        version = F.expr(f"max(if(format = {FORMAT} AND edges IS NOT NULL, version, null))")
        tables[folder.routes_url] = table.observe(OBSERVATION, version.alias("version"))
    return tables[folder.routes_url]
