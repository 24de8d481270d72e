"""The live route of an edge, and what decides where it says nothing."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from foretide.spark.realtime.routes import live_task, route_property, route_text

PROPERTY = route_property("test", "a->b")


@pytest.fixture
def route(spark):
    """Sets the live route in the driver, which is the only executor here."""
    properties = spark._jvm.java.lang.System.getProperties()
    yield lambda ring: properties.setProperty(PROPERTY, route_text(ring))
    properties.remove(PROPERTY)


def test_names_and_texts():
    assert PROPERTY == "foretide.route.test.a->b"
    assert [ord(each) - 48 for each in route_text([0, 9, 10, 200])] == [0, 9, 10, 200]


def tasks(spark, ring, pool=3):
    task = live_task(spark, "test", "a->b", F.col("id").cast("int"), ring, pool)
    return [row.task for row in spark.range(6).select(task.alias("task")).collect()]


def test_the_live_route_goes_before_the_ring_of_the_batch_and_that_before_the_slot(spark, route):
    ring = F.array(*map(F.lit, [2, 2, 1, 1]))
    assert tasks(spark, None) == [0, 1, 2, 0, 1, 2]
    assert tasks(spark, ring) == [2, 2, 1, 1, 1, 2]
    route([1, 0])
    assert tasks(spark, ring) == [1, 0, 1, 1, 1, 2]
    assert tasks(spark, None) == [1, 0, 2, 0, 1, 2]


def test_tasks_that_the_pool_does_not_have_are_passed_over(spark, route):
    route([3, -1, 2, 0, 1, 100])
    assert tasks(spark, F.array(*map(F.lit, [2, 5, 0, 0, 0, -1]))) == [2, 1, 2, 0, 1, 2]


def test_a_pool_may_have_more_tasks_than_there_are_digits(spark, route):
    route([0, 150, 199, 10])
    assert tasks(spark, None, 200) == [0, 150, 199, 10, 4, 5]
