"""Tuples that cannot be held, and work that raises what cannot be told: dead letters of a query that runs on."""

from __future__ import annotations

import pyarrow as pa
import pytest

import foretide as ft

ROWS = 20
NOT_UTF8, YEAR_20000 = 1, 2
POISON = {
    3: lambda: ValueError("bad \ud800 text"),
    4: lambda: ValueError(b"\xff\x00\xfe".decode("utf-8", "surrogateescape")),
    5: lambda: SystemExit(3),
    6: lambda: ValueError("x" * 1_000_000),
    7: lambda: MuteError("unheard"),
}


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def load(spark):
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    return numbers.where(f"value < {ROWS}").selectExpr(
        "value",
        f"if(value = {NOT_UTF8}, cast(X'ff00fe' AS string), 'ok') AS text",
        f"if(value = {YEAR_20000}, timestamp_micros(569000000000000000), timestamp'2024-01-01') AS at",
    )


def each(row):
    if row["value"] in POISON:
        error = POISON[row["value"]]()
        raise error
    yield {"value": row["value"]}


def in_arrow(batches):
    for batch in batches:
        for row in batch.to_pylist():
            list(each(row))
        yield pa.RecordBatch.from_pydict({"value": batch["value"]})


@pytest.mark.parametrize("work", [ft.PerTuple(each, "value long"), ft.Arrow(in_arrow, "value long")])
def test_every_poison_is_a_dead_letter_and_the_query_runs_on(start, work):
    bolt = ft.Bolt("work", work, [ft.From("numbers")], pool=2, retries=0)
    pipeline = start(ft.Topology("poison", [ft.Spout("numbers", ft.Stream(load))], [bolt]), trigger=None)
    assert pipeline.wait(600)
    letters = [row.dead_letter for row in pipeline.output("dead_letters").collect()]
    good = sorted(row.value for row in pipeline.output("work").collect())
    bad = {NOT_UTF8, YEAR_20000, *POISON}
    assert good == [value for value in range(ROWS) if value not in bad]
    told = sorted(letter.error.partition(":")[0] for letter in letters)
    assert told == sorted(["UnicodeDecodeError", "OverflowError", "SystemExit", "MuteError", *["ValueError"] * 3])
    assert max(len(letter.error) for letter in letters) < 5_000
    assert any("569000000000000000" in letter.tuple for letter in letters)
