"""Compares what a campaign's pipeline has committed with plain Spark: `python -m foretide.soak.comparison FOLDER`.

The expected rows come from one batch query over the same files, without Foretide and undisturbed.
"""

from __future__ import annotations

import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from foretide.codec import to_json
from foretide.soak.application import REFUSED_EVERY, counts, parse
from foretide.soak.layout import Layout
from foretide.soak.outcome import Comparison
from foretide.soak.rows import END_AT, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "16",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_COLUMNS = ("stream", "row", "key", "mark", "begin", "times", "sum", "doubled")
_EXAMPLES = 10


def expected(spark: SparkSession, layout: Layout) -> DataFrame:
    """The rows of all output streams, by plain Spark."""
    parsed = parse(spark.read.schema(SCHEMA).parquet(str(layout.input)))
    of = {name: parsed.where(parsed["stream"] == name) for name in ("good", "counted", "checked", "malformed")}
    refused, open_window = F.col("key") % REFUSED_EVERY == 0, F.col("at") >= F.timestamp_seconds(F.lit(END_AT))
    streams = {
        "work": of["good"].select("row", "key", "mark"),
        "parse.malformed": of["malformed"].select("row", "key", "mark"),
        "count": counts(of["counted"].where(~open_window)),
        "check": of["checked"].where(~refused).select("row", (2 * F.col("row")).alias("doubled")),
        "dead_letters": of["checked"].where(refused).select("row"),
    }
    named = [frame.withColumn("stream", F.lit(name)) for name, frame in streams.items()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), named)


def found(spark: SparkSession, layout: Layout) -> DataFrame:
    """The rows of all output streams, as they were committed."""
    written = spark.read.parquet(str(layout.output))
    letter = F.get_json_object("dead_letter.tuple", "$.row").cast("long")
    row = F.when(F.col("stream") == "dead_letters", letter).otherwise(F.col("row"))
    return written.withColumn("row", row).select(*_COLUMNS)


def compare(wanted: DataFrame, got: DataFrame) -> Comparison:
    """Count what is lost, doubled and foreign."""
    sides = [
        frame.select(*_COLUMNS, F.lit(one).alias("wanted"), F.lit(other).alias("got"))
        for frame, one, other in ((wanted, 1, 0), (got, 0, 1))
    ]
    sums = [F.sum(name).alias(name) for name in ("wanted", "got")]
    counted = sides[0].unionByName(sides[1]).groupBy(*_COLUMNS).agg(*sums)
    more, known = F.greatest(F.col("got") - F.col("wanted"), F.lit(0)), F.col("wanted") > 0
    totals = counted.groupBy("stream").agg(
        F.sum("wanted").alias("rows"),
        F.sum(F.greatest(F.col("wanted") - F.col("got"), F.lit(0))).alias("lost"),
        F.sum(F.when(known, more).otherwise(0)).alias("doubled"),
        F.sum(F.when(known, 0).otherwise(more)).alias("foreign"),
    )
    by_stream = {row["stream"]: row for row in totals.collect()}
    lost, doubled, foreign = (sum(row[name] for row in by_stream.values()) for name in ("lost", "doubled", "foreign"))
    different = counted.where(F.col("wanted") != F.col("got")).limit(_EXAMPLES) if lost or doubled or foreign else None
    examples = () if different is None else tuple(str(row.asDict()) for row in different.collect())
    return Comparison({name: row["rows"] for name, row in sorted(by_stream.items())}, lost, doubled, foreign, examples)


def main(folder: Path) -> None:
    """Compare, and write the result into the folder."""
    layout, builder = Layout(folder), SparkSession.builder.master("local[2]").appName("comparison")
    for name, value in {**_SETTINGS, "spark.local.dir": str(folder / "spark")}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    layout.comparison.write_text(to_json(compare(expected(spark, layout), found(spark, layout))))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
