"""Compares what a campaign's pipeline has committed with plain Spark: `python -m foretide.soak.comparison FOLDER`.

The expected rows come from one batch query over the same files, without Foretide and undisturbed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from foretide.codec import to_json
from foretide.soak.forms import pipeline_of
from foretide.soak.layout import Layout, Setup
from foretide.soak.outcome import Comparison

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
_EXAMPLES = 10
_STREAM = "stream"

Columns = Mapping[str, Sequence[str]]


def united(streams: Mapping[str, DataFrame], columns: Columns) -> DataFrame:
    """The rows of several streams, with the columns of each that are compared."""
    named = [frame.select(F.lit(name).alias(_STREAM), *columns[name]) for name, frame in streams.items()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), named)


def streams_of(written: DataFrame, columns: Columns) -> dict[str, DataFrame]:
    """The output streams in what a sink holds."""
    return {name: written.where(F.col(_STREAM) == name) for name in columns}


def compare(wanted: DataFrame, got: DataFrame) -> Comparison:
    """Count what is lost, doubled and foreign, in frames of the same columns."""
    columns = wanted.columns
    sides = [
        frame.select(*columns, F.lit(one).alias("wanted"), F.lit(other).alias("got"))
        for frame, one, other in ((wanted, 1, 0), (got, 0, 1))
    ]
    sums = [F.sum(name).alias(name) for name in ("wanted", "got")]
    counted = sides[0].unionByName(sides[1]).groupBy(*columns).agg(*sums)
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
    form = pipeline_of(Setup.read(layout).form)
    got = form.found(spark.read.parquet(str(layout.output)))
    wanted = united(form.expected(spark, layout), form.COLUMNS)
    layout.comparison.write_text(to_json(compare(wanted, united(streams_of(got, form.COLUMNS), form.COLUMNS))))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
