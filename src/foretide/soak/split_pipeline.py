"""The pipeline of most campaigns: rows are parsed, and some of them counted in windows; all work is native.

Its edges are split in ever new ratios. What it should commit is worked out by plain Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

import foretide as ft
from foretide.soak.layout import NAME, Layout
from foretide.soak.rows import END_AT, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

POOL = 4
WINDOW_SECONDS = 20
DELAY = "10 seconds"

COLUMNS = {
    "work": ("row", "key", "mark"),
    "parse.malformed": ("row", "key", "mark"),
    "count": ("begin", "key", "times", "sum"),
    "parse.checked": ("row", "key", "mark"),
}
"""What is compared of each output stream."""


def parse(rows: DataFrame) -> DataFrame:
    """Each row with a mark of all its columns, in one of four streams."""
    stream = (
        F.when(F.col("payload").isNull(), "malformed")
        .when(F.col("row") % 4 == 0, "counted")
        .when(F.col("row") % 100 == 1, "checked")
        .otherwise("good")
    )
    mark = F.xxhash64("row", "key", "payload")
    return rows.select("row", "key", "at", mark.alias("mark"), stream.alias("stream"))


def count(rows: DataFrame) -> DataFrame:
    """Rows of each key in each window."""
    return counts(rows.withWatermark("at", DELAY))


def counts(rows: DataFrame) -> DataFrame:
    """The same, of rows of a stream or of files."""
    grouped = rows.groupBy(F.window("at", f"{WINDOW_SECONDS} seconds").alias("window"), "key")
    counted = grouped.agg(F.count("*").alias("times"), F.sum(F.col("mark") % 1000).alias("sum"))
    return counted.select(F.col("window.start").alias("begin"), "key", "times", "sum")


def topology(layout: Layout) -> ft.Topology:
    """The topology over the files of a campaign."""
    files = ft.Files(str(layout.input), SCHEMA, "parquet", max_files=1)
    return ft.Topology(
        NAME,
        [ft.Spout("rows", files)],
        [
            ft.Bolt(
                "parse",
                parse,
                [ft.From("rows", ft.Dynamic(by=("row",)))],
                pool=POOL,
                streams=("good", "counted", "checked", "malformed"),
            ),
            ft.Bolt(
                "work",
                lambda rows: rows.select("row", "key", "mark"),
                [ft.From("parse", ft.Dynamic(by=("key", "row")), stream="good")],
                pool=POOL,
            ),
            ft.Bolt("count", count, [ft.From("parse", stream="counted")]),
        ],
    )


def policies() -> Sequence[str]:
    """Those that a control loop has by default."""
    return ("bypass", "replicas")


def expected(spark: SparkSession, layout: Layout) -> Mapping[str, DataFrame]:
    """The rows of all output streams, by plain Spark."""
    parsed = parse(spark.read.schema(SCHEMA).parquet(str(layout.input)))
    of = {name: parsed.where(parsed["stream"] == name) for name in ("good", "counted", "checked", "malformed")}
    open_window = F.col("at") >= F.timestamp_seconds(F.lit(END_AT))
    return {
        "work": of["good"],
        "parse.malformed": of["malformed"],
        "count": counts(of["counted"].where(~open_window)),
        "parse.checked": of["checked"],
    }


def found(written: DataFrame) -> DataFrame:
    """What was committed."""
    return written
