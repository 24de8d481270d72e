"""The control folder of a session, and the live route table in a query plan: each batch reads it again, once."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from foretide.control_folder.folder import ControlFolder
from foretide.errors import ControlFolderError
from foretide.routing.table import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CONTROL_FOLDER_SETTING = "spark.foretide.controlFolder"
CHECKPOINT_SETTING = "spark.sql.streaming.checkpointLocation"

OBSERVATION = "foretide_routes"
"""Name of the metric in a query's progress that confirms which version a batch read."""

_SCHEMA = "format int, version long, edges map<string, struct<pool int, ring array<int>>>"
_tables: WeakKeyDictionary[SparkSession, dict[str, DataFrame]] = WeakKeyDictionary()


def find_control_folder(spark: SparkSession | None = None, control_folder: str | None = None) -> ControlFolder:
    """The control folder that is given, or that of the session; the active session when none is given."""
    conf = (spark or SparkSession.active()).conf
    checkpoint = conf.get(CHECKPOINT_SETTING, None)
    default = f"{checkpoint}/foretide" if checkpoint else None
    location = control_folder or conf.get(CONTROL_FOLDER_SETTING, None) or default
    if not location:
        raise ControlFolderError(
            "no control folder is known for the routes: pass control_folder=... (best: the folder 'foretide' in the "
            f"query's checkpoint), or set '{CONTROL_FOLDER_SETTING}' on the session"
        )
    return ControlFolder(location)


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
