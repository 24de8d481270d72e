"""Descriptions of operators, which the REST interface of Spark before 4.3 does not have."""

from foretide.spark.progress.descriptions import PlanDescriptions, ask_driver
from foretide.spark.rest import SparkRest


def execution(number, *names, **more):
    return {"id": number, "nodes": [{"nodeId": place, "nodeName": name, **more} for place, name in enumerate(names)]}


def test_nobody_is_asked_where_spark_has_answered():
    asked = []
    descriptions = PlanDescriptions(asked.append)
    assert descriptions.of(execution(3, "Exchange", desc="by edge"))[0]["desc"] == "by edge"
    assert asked == []


def test_the_driver_is_asked_once_for_each_form_of_a_plan():
    asked = []

    def ask(number):
        asked.append(number)
        return {0: f"of {number}"}

    descriptions = PlanDescriptions(ask)
    assert [node["desc"] for node in descriptions.of(execution(3, "Exchange", "Scan"))] == ["of 3", ""]
    assert [node["desc"] for node in descriptions.of(execution(4, "Exchange", "Scan"))] == ["of 3", ""]
    assert [node["desc"] for node in descriptions.of(execution(5, "Exchange"))] == ["of 5"]
    assert asked == [3, 5]


def test_the_driver_describes_the_plan_as_the_rest_interface_does(spark):
    spark.range(10).selectExpr("id % 3 AS k").repartition(2, "k").collect()
    (*_, last) = SparkRest.of(spark.sparkContext).get("sql?details=true&planDescription=false&offset=0&length=100000")
    described = ask_driver(spark.sparkContext, last["id"])
    assert set(described) >= {node["nodeId"] for node in last["nodes"]}
    assert any("hashpartitioning(k" in text for text in described.values())
    assert all(described[node["nodeId"]] == node["desc"] for node in last["nodes"] if "desc" in node)


def test_an_execution_that_is_not_there_has_no_descriptions(spark):
    assert ask_driver(spark.sparkContext, 10**9) == {}
