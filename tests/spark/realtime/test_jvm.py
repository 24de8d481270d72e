"""Expressions that reach into an executor's JVM, each checked against the JVM itself."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from foretide.spark.realtime.jvm import Jvm

pytestmark = pytest.mark.spark
KEY = "foretide.test.jvm"


@pytest.fixture
def properties(spark):
    """The system properties of the driver, which is the only executor here."""
    found = spark._jvm.java.lang.System.getProperties()
    yield found
    found.remove(KEY)


def test_a_property_is_read_for_each_row(spark, properties):
    code = Jvm(spark).property_code(KEY, F.col("id").cast("int"))
    rows = spark.range(4).select(code.alias("code"))
    assert [row.code for row in rows.collect()] == [None] * 4
    properties.setProperty(KEY, "0\u00c82")
    assert [row.code for row in rows.collect()] == [48, 200, 50, None]


def test_counters_are_created_once_changed_by_rows_and_shown_as_text(spark, properties):
    jvm = Jvm(spark)
    made = spark.range(1).select(jvm.new_counters(F.lit(KEY), 3).alias("made"))
    assert [made.first().made, made.first().made] == [True, False]
    added = jvm.counter_add(KEY, F.lit(1), F.col("id"))
    assert spark.range(0, 10, 1, 2).where(added >= 0).count() == 10
    spark.range(1).select(jvm.counter_set(KEY, F.lit(2), F.lit(7).cast("long"))).collect()
    row = spark.range(1).select(jvm.counter_get(KEY, F.lit(1)), jvm.counters_text(F.lit(KEY))).first()
    assert tuple(row) == (45, "[0, 45, 7]")


def test_where_there_are_no_counters_the_answer_is_null(spark):
    jvm = Jvm(spark)
    row = (
        spark.range(1)
        .select(jvm.counter_add("foretide.none", F.lit(0), F.lit(1).cast("long")), jvm.counters_text(F.lit("no")))
        .first()
    )
    assert tuple(row) == (None, None)
    assert spark.range(1).select(jvm.nano_time().alias("now")).first().now > 0
