"""The pipeline of `split_pipeline` with a Python bolt, which refuses some rows: these become dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import foretide as ft
from foretide.soak import split_pipeline
from foretide.soak.layout import Layout
from foretide.soak.split_pipeline import policies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COLUMNS", "expected", "found", "policies", "topology"]

POOL = 3
SCHEMA = "row long, doubled long"
REFUSED_EVERY = 3
COLUMNS = {
    **{name: columns for name, columns in split_pipeline.COLUMNS.items() if name != "parse.checked"},
    "check": ("row", "doubled"),
    "dead_letters": ("row",),
}
"""What is compared of each output stream."""


def check(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Double the number of a row; some keys are refused, so that their rows become dead letters."""
    if row["key"] % REFUSED_EVERY == 0:
        raise ValueError("this key is refused")
    yield {"row": row["row"], "doubled": 2 * row["row"]}


def topology(layout: Layout) -> ft.Topology:
    """The topology over the files of a campaign."""
    plain = split_pipeline.topology(layout)
    checked = ft.From("parse", ft.Dynamic(by=("row",)), stream="checked")
    bolt = ft.Bolt("check", ft.PerTuple(check, SCHEMA), [checked], pool=POOL, retries=0)
    return replace(plain, bolts=[*plain.bolts, bolt])


def expected(spark: SparkSession, layout: Layout) -> Mapping[str, DataFrame]:
    """The rows of all output streams, by plain Spark."""
    streams = dict(split_pipeline.expected(spark, layout))
    checked, refused = streams.pop("parse.checked"), F.col("key") % REFUSED_EVERY == 0
    passed = checked.where(~refused).withColumn("doubled", 2 * F.col("row"))
    return {**streams, "check": passed, "dead_letters": checked.where(refused)}


def found(written: DataFrame) -> DataFrame:
    """What was committed, with the rows of dead letters."""
    letter = F.get_json_object("dead_letter.tuple", "$.row").cast("long")
    return written.withColumn("row", F.when(F.col("stream") == "dead_letters", letter).otherwise(F.col("row")))
