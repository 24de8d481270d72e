"""The connection to Spark's REST interface."""

from foretide.spark.rest import SparkRest


def test_a_connection_is_closed_with_the_last_of_those_who_ask(spark):
    context = spark.sparkContext
    rest = SparkRest(context.uiWebUrl, context.applicationId)
    assert isinstance(rest.get("jobs"), list)
    connection = rest._connection.sock
    assert connection.fileno() >= 0
    del rest
    assert connection.fileno() == -1
