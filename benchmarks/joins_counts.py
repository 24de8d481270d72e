"""A hot key in an aggregation whose work is Python: one task, two, or all of them, and the parts added up."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

import foretide as ft
from foretide.joins.plan import imbalance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

TASKS, KEYS, HARD = 8, 1_000, 12
GROUPINGS = {
    "fields": ft.Fields("key"),
    "partial-key, 2 choices": ft.PartialKey("key"),
    "partial-key, 8 choices": ft.PartialKey("key", choices=TASKS),
}


def hot_counts(spark: SparkSession, folder: Path, *, quick: bool) -> list[dict[str, Any]]:
    """The same rows counted behind each grouping; what every task got, how long it took, and the sum that came out."""
    rows = 60_000 if quick else 400_000
    found = [counted(spark, str(folder / f"counts{place}"), name, rows) for place, name in enumerate(GROUPINGS)]
    wanted = found[0]["counts"]
    return [{**each, "counts": "the same" if each["counts"] == wanted else "OTHERS"} for each in found]


def counted(spark: SparkSession, control: str, grouping: str, rows: int) -> dict[str, Any]:
    key = F.when(F.col("id") % 2 == 0, F.lit(0)).otherwise(F.pmod(F.xxhash64("id"), F.lit(KEYS)))
    placed = spark.range(rows, numPartitions=4).withColumn("key", key)
    behind = placed.transform(ft.edge("count", GROUPINGS[grouping], pool=TASKS, control_folder=control))
    began = time.perf_counter()
    parts = behind.mapInArrow(part, "task int, key long, n long, weight long").persist()
    merged = parts.groupBy("key").agg(F.sum("n").alias("n"), F.sum("weight").alias("weight"))
    checksum = merged.agg(F.count("*"), F.expr("sum(xxhash64(key, n, weight) % 1000003)")).first()
    seconds = time.perf_counter() - began
    loads = {row.task: row.n for row in parts.groupBy("task").agg(F.sum("n").alias("n")).collect()}
    made = parts.count()
    parts.unpersist()
    return {
        "grouping": grouping,
        "LI": imbalance([float(loads.get(task, 0)) for task in range(TASKS)]),
        "rows/s": rows / seconds,
        "parts": made,
        "counts": tuple(checksum or ()),
    }


def part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What one task counts: rows of a key, and a figure that costs some work for each of them."""
    from pyspark import TaskContext  # noqa: PLC0415 - there only

    context = TaskContext.get()
    counts: dict[int, list[int]] = {}
    for batch in batches:
        for key, row in zip(batch["key"].to_pylist(), batch["id"].to_pylist(), strict=True):
            kept = counts.setdefault(key, [0, 0])
            kept[0] += 1
            kept[1] += weight(row)
    task = -1 if context is None else context.partitionId()
    columns = [[task] * len(counts), [*counts], [n for n, _ in counts.values()], [w for _, w in counts.values()]]
    types = [pa.int32(), pa.int64(), pa.int64(), pa.int64()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=["task", "key", "n", "weight"])


def weight(row: int) -> int:
    digest = str(row).encode()
    for _ in range(HARD):
        digest = hashlib.sha256(digest).digest()
    return digest[0]
