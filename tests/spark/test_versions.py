"""What older versions of Spark lack is said before anything starts."""

import pytest
from typer.testing import CliRunner

import foretide as ft
from foretide.cli.main import app
from foretide.cli.running.demo_real_time import check_connector
from foretide.errors import EnvironmentNotReadyError
from foretide.spark import versions
from foretide.spark.state import repartition_obstacle


@pytest.fixture
def spark_is(monkeypatch):
    def pretend(*version):
        monkeypatch.setattr(versions, "spark_version", lambda: version or None)

    return pretend


def test_an_older_spark_lacks_more():
    assert versions.lacking((4, 3, 0)) == []
    assert set(versions.lacking((4, 2, 1))) < set(versions.lacking((4, 1, 4)))


def test_real_time_mode_is_refused_before_spark_starts(spark_is):
    spark_is(4, 2, 1)
    with pytest.raises(EnvironmentNotReadyError, match=r"mode needs Spark 4\.3 or newer, and this is 4\.2\.1"):
        ft.session("local[2]", mode="real-time")
    assert "real-time mode needs Spark 4.3" in check_connector()


def test_a_spark_that_is_too_old_is_refused(spark_is):
    spark_is(4, 0, 1)
    with pytest.raises(EnvironmentNotReadyError, match=r"needs Spark 4\.1 or newer, and this is 4\.0\.1"):
        ft.session("local[2]")


@pytest.mark.parametrize("command", [["run", "url-count"], ["demo", "url-count"], ["demo", "join"]])
def test_commands_that_replay_a_load_are_refused_before_spark_starts(spark_is, monkeypatch, command):
    spark_is(4, 1, 4)
    monkeypatch.setattr("foretide.cli.running.application.session", lambda *_: pytest.fail("Spark was started"))
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "a replay source needs Spark 4.2 or newer, and this is 4.1.4" in str(result.exception)


def test_state_cannot_be_repartitioned(spark_is):
    spark_is(4, 1, 4)
    assert "another number of state partitions needs Spark 4.2" in repartition_obstacle(None, "", None)


def test_without_spark_there_is_nothing_to_say(spark_is):
    spark_is()
    versions.check_spark()
    versions.check_has(versions.REAL_TIME)
