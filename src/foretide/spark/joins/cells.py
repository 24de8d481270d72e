"""The cells of a skewed join's rows as native expressions, by a plan that each batch reads anew.

    live = live_plan(spark, url)                                                          # once, for both sides
    left = left.withColumn("versions", versions_of(plan_of(live, token), F.hash("key")))  # a column of its own
    left = left.withColumn("salt", F.explode(left_cells(F.col("versions"), ...))).drop("versions")

Spark allows no subquery inside a higher-order function, so the versions of a row's key are a column before they
are used. The join's keys are then the key columns, in the order in which they were hashed, and the salt behind them.

A left row uses the plan at its own time. A right row goes to its column in every version in force at some time that a
left row could have and still match it. So each pair within the bound meets in the left row's version, and nowhere else.
A row that reaches a hard end, a plan that cannot be read, or one of another query fails the batch: any default would
put rows where their partners are not. Rows of keys without a plan, nearly all of them, cost one look-up in a map.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from foretide.errors import PastHardEndError
from foretide.joins.placement.salts import TAIL_SALT
from foretide.joins.placement.timeline import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from foretide.joins.placement.spec import JoinBound

OBSERVATION = "foretide_join_plan"
"""Name of the metric in a query's progress with the version of the plan that a batch read."""

RESERVED = "_ft_"
"""Prefix of the join's own columns, which no column of a user may have."""

SALT = f"{RESERVED}salt_"
"""Prefix of columns of salts; the join's name follows, by which its state is found."""

_PAST_HARD_END = "FORETIDE-PAST-HARD-END"
_UNREADABLE = (
    "FORETIDE-PLAN-UNREADABLE: the join's plan is missing, damaged or of another release; put the last one back"
)
_OF_ANOTHER_QUERY = (
    "FORETIDE-PLAN-OF-ANOTHER-QUERY: the control folder of the join belongs to another query, or Foretide did not see "
    "this query start; give each query a control folder of its own, and build its join anew"
)
_SCHEMA = (
    "format int, version long, query string, "
    "plan array<struct<key: int, versions: array<struct<start: long, end: long, rows: array<array<int>>>>>>"
)
_SOUND = """format = {format} AND version IS NOT NULL AND forall(plan, entry ->
    entry.key IS NOT NULL AND size(entry.versions) > 0 AND forall(entry.versions, each ->
        each.start IS NOT NULL AND each.end IS NOT NULL AND size(each.rows) > 0 AND forall(each.rows, cells ->
            size(cells) = size(each.rows[0]) AND size(cells) > 0 AND forall(cells, salt -> salt IS NOT NULL))))"""


def live_plan(spark: SparkSession, url: str, observation: str = OBSERVATION) -> DataFrame:
    """The plan's file as a table of one row; create it once for both sides, so that they share one scan a batch.

    The file must exist already: Spark never reads a path that was empty when the DataFrame was created. `observation`
    is the metric's name, which must differ between the joins of a query.
    """
    table = spark.read.schema(_SCHEMA).option("multiLine", value=True).option("mode", "FAILFAST").json(url)
    return table.observe(observation, F.max("version").alias("version"))


def plan_of(live: DataFrame, token: str) -> Column:
    """The plan as a map from key hash to versions, built and checked once a batch; null if it is not sound.

    A plan that is not published for the query with this token fails the batch.
    """
    plan = F.map_from_entries("plan")
    other = F.raise_error(F.lit(_OF_ANOTHER_QUERY))
    mine = F.when(F.col("query") == F.lit(token), plan).otherwise(other)
    return live.select(F.when(F.expr(_SOUND.format(format=FORMAT)), mine)).scalar()


def versions_of(plan: Column, key_hash: Column) -> Column:
    """The versions of a row's key, null for the tail; a plan that is not sound fails the batch.

    `key_hash` is `hash` of the join's key columns, in the order in which the join has them.
    """
    unreadable = F.when(plan.isNull(), F.raise_error(F.lit(_UNREADABLE)))
    return unreadable.otherwise(F.try_element_at(plan, key_hash))


def left_cells(versions: Column, key_hash: Column, row_hash: Column, time: Column) -> Column:
    """The salts of a left row, to be exploded.

    Args:
        versions: The column made by `versions_of`.
        key_hash: The hash that it was made with, for the message of a failure.
        row_hash: A hash of the row (xxhash64) that is the same whenever it is read again.
        time: Its event time in microseconds (`unix_micros`). A row without one matches nothing and may go to any cell.
    """
    in_force = F.filter(versions, lambda version: (version["start"] <= time) & (time < version["end"]))
    cells = F.get(F.transform(in_force, lambda version: _picked(version["rows"], row_hash)), 0)
    return _placed(versions, time, F.coalesce(cells, _past(key_hash, time, versions)))


def right_cells(versions: Column, key_hash: Column, row_hash: Column, time: Column, bound: JoinBound) -> Column:
    """The salts of a right row, to be exploded; arguments are those of `left_cells`."""
    first, last = time - F.lit(bound.after), time + F.lit(bound.before)
    in_reach = F.filter(versions, lambda version: (version["start"] <= last) & (first < version["end"]))
    columns = F.transform(in_reach, lambda version: F.transform(version["rows"], lambda row: _picked(row, row_hash)))
    past = last >= F.element_at(versions, -1)["end"]
    cells = F.when(past, _past(key_hash, last, versions)).otherwise(F.array_distinct(F.flatten(columns)))
    return _placed(versions, time, cells)


def hard_end_failure(message: str) -> PastHardEndError | None:
    """The failure at a hard end that a query's error contains, or None when it failed for another reason.

    >>> hard_end_failure("... FORETIDE-PAST-HARD-END key_hash=-7 reached=120 hard_end=100 ...").reached
    120
    """
    found = re.search(rf"{_PAST_HARD_END} key_hash=(-?\d+) reached=(-?\d+) hard_end=(-?\d+)", message)
    return PastHardEndError(*(int(number) for number in found.groups())) if found else None


def _placed(versions: Column, time: Column, cells: Column) -> Column:
    """The tail's cell for nearly all rows, before anything more expensive is evaluated."""
    return F.when(versions.isNull() | time.isNull(), F.array(F.lit(TAIL_SALT))).otherwise(cells)


def _picked(cells: Column, row_hash: Column) -> Column:
    return F.get(cells, F.pmod(row_hash, F.size(cells)).cast("int"))


def _past(key_hash: Column, reach: Column, versions: Column) -> Column:
    end = F.element_at(versions, -1)["end"]
    return F.raise_error(
        F.format_string(f"{_PAST_HARD_END} key_hash=%d reached=%d hard_end=%d", key_hash, reach, end)
    ).cast("array<int>")
