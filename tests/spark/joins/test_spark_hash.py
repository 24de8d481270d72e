"""Our row hash against Spark's own, on thousands of values of every type that a join key may have."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pytest
from pyspark.sql import functions as F

from joins.placement.spark_hash import DecimalKey, SimpleKey, StructKey, hash_row

ROWS = 2000
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone
rng = np.random.default_rng(7)


def whole(bits):
    """Numbers of every magnitude, with both ends of the type."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    sizes = rng.integers(1, bits, ROWS)
    return [low, high, 0, -1, *(max(low, min(high, wide(int(size)))) for size in sizes)]


def wide(bits):
    return int.from_bytes(rng.bytes((bits + 8) // 8), "little") % 2**bits * int(rng.choice([-1, 1]))


def floating(dtype):
    size = np.dtype(dtype).itemsize
    anything = np.frombuffer(rng.bytes(size * ROWS), dtype=dtype)
    return [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, *(float(value) for value in anything)]


def texts():
    letters = np.array(list("abz09 \t\x00ß€字😀\x7f\x80\ud7ff"))
    return ["", *("".join(rng.choice(letters, rng.integers(0, 14))) for _ in range(ROWS))]


def decimals(precision, scale):
    """Exact at any precision: the digits are laid out as text."""
    values = (wide(int(rng.integers(1, 128))) for _ in range(ROWS))
    edges = [0, 10**precision - 1, 1 - 10**precision, 127, 128, -128, -129, 2**63 - 1]
    return [
        Decimal(f"{(abs(value) % 10**precision) * (1 if value >= 0 else -1)}E-{scale}") for value in [*edges, *values]
    ]


def binaries():
    return [b"", *(rng.bytes(int(size)) for size in rng.integers(0, 14, ROWS))]


def as_date(days):
    return EPOCH.date() + dt.timedelta(days=days)


def as_instant(micros):
    return (EPOCH + dt.timedelta(microseconds=micros)).replace(tzinfo=dt.UTC)


def as_local(micros):
    return EPOCH + dt.timedelta(microseconds=micros)


def same(value):
    return value


DAYS = [int(day) for day in rng.integers(-719_000, 2_900_000, ROWS)]
MICROS = [int(micros) for micros in rng.integers(-62_000_000_000_000_000, 250_000_000_000_000_000, ROWS)]

COLUMNS = [
    ("boolean", SimpleKey.BOOLEAN, [True, False], same),
    ("tinyint", SimpleKey.BYTE, whole(8), same),
    ("smallint", SimpleKey.SHORT, whole(16), same),
    ("int", SimpleKey.INT, whole(32), same),
    ("bigint", SimpleKey.LONG, whole(64), same),
    ("float", SimpleKey.FLOAT, floating(np.float32), same),
    ("double", SimpleKey.DOUBLE, floating(np.float64), same),
    ("string", SimpleKey.STRING, texts(), same),
    ("binary", SimpleKey.BINARY, binaries(), bytearray),
    ("decimal(9,2)", DecimalKey(9, 2), decimals(9, 2), same),
    ("decimal(18,0)", DecimalKey(18, 0), decimals(18, 0), same),
    ("decimal(19,4)", DecimalKey(19, 4), decimals(19, 4), same),
    ("decimal(38,10)", DecimalKey(38, 10), decimals(38, 10), same),
    ("date", SimpleKey.DATE, DAYS, as_date),
    ("timestamp", SimpleKey.TIMESTAMP, MICROS, as_instant),
    ("timestamp_ntz", SimpleKey.TIMESTAMP_NTZ, MICROS, as_local),
]


@pytest.mark.parametrize(("name", "kind", "values", "in_spark"), COLUMNS, ids=[column[0] for column in COLUMNS])
def test_a_column_hashes_as_in_spark(spark, name, kind, values, in_spark):
    rows = [(None,), *((in_spark(value),) for value in values)]
    frame = spark.createDataFrame(rows, f"value {name}").coalesce(1)
    found = [row[0] for row in frame.select(F.hash("value")).collect()]
    assert found == [hash_row([kind], [value]) for value in [None, *values]]


def test_rows_of_columns_and_structs_with_nulls_hash_as_in_spark(spark):
    types = [
        SimpleKey.STRING,
        StructKey((SimpleKey.LONG, StructKey((SimpleKey.DOUBLE, SimpleKey.STRING)))),
        SimpleKey.INT,
    ]
    strings, longs, doubles, ints = texts(), whole(64), floating(np.float64), whole(32)

    def maybe(value):
        return None if rng.random() < 0.2 else value

    rows = [
        (maybe(a), maybe((maybe(b), maybe((maybe(c), maybe(a))))), maybe(d))
        for a, b, c, d in zip(strings, longs, doubles, ints, strict=False)
    ]
    schema = "a string, b struct<x: bigint, y: struct<p: double, q: string>>, c int"
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    found = [row[0] for row in frame.select(F.hash("a", "b", "c")).collect()]
    assert found == [hash_row(types, row) for row in rows]
