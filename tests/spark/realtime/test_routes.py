"""The live route of an edge, and what decides where it says nothing."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from foretide.control_folder.folder import ROUTES, ControlFolder
from foretide.spark.realtime import routes
from foretide.spark.realtime.routes import live_task, ring_of_batch, route_property, route_text

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


def planned(spark, ring):
    """The ring as a batch that is planned now sees it, and the plan of that batch."""
    frame = spark.range(0, 1, 1, 1).select(F.to_json(F.array(ring)).alias("ring"), "id")
    return json.loads(frame.first().ring)[0], frame._jdf.queryExecution().executedPlan().toString()


def test_the_ring_of_a_batch_is_read_while_the_batch_is_planned_and_by_no_task(spark, tmp_path):
    folder = ControlFolder(str(tmp_path))
    folder.change_routes(lambda table: table.declare("work", pool=2))
    ring = ring_of_batch(spark, folder, "work")
    found, plan = planned(spark, ring)
    assert found == list(folder.routes().edges["work"].ring)
    assert "json" not in plan.lower().replace("to_json", "")
    assert "readAllBytes" not in plan
    folder.change_routes(lambda table: table.split("work", [1, 0]))
    assert planned(spark, ring)[0] == [0] * 1024
    assert planned(spark, ring_of_batch(spark, folder, "other"))[0] is None


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": 99, "version": 1, "edges": {"work": {"pool": 1, "ring": [0]}}}', None]
)
def test_a_table_that_cannot_be_read_gives_no_ring_and_fails_no_batch(spark, tmp_path, text):
    folder = ControlFolder(str(tmp_path))
    folder.change_routes(lambda table: table.declare("work", pool=2))
    ring = ring_of_batch(spark, folder, "work")
    if text is None:
        (tmp_path / ROUTES).unlink()
    else:
        (tmp_path / ROUTES).write_text(text)
    assert planned(spark, ring)[0] is None
    task = live_task(spark, "none", "work", F.col("id").cast("int"), ring, 3)
    assert [row.task for row in spark.range(4).select(task.alias("task")).collect()] == [0, 1, 2, 0]


def test_a_table_on_another_file_system_is_scanned(spark, monkeypatch):
    asked = []
    monkeypatch.setattr(routes, "ring_of", lambda *given: asked.append(given[2]))
    ring_of_batch(spark, SimpleNamespace(routes_url="hdfs://host/routes.json"), "work")
    assert asked == ["work"]
