"""`foretide kafka`: a real broker from start to stop, and everything that is refused before anybody waits."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.errors import EnvironmentNotReadyError, KafkaError
from foretide.spark.jars import Library, jars_of
from foretide.spark.kafka_broker import check_servers, free_port

UNREACHABLE = """\
<ivysettings>
  <settings defaultResolver="nowhere"/>
  <resolvers><ibiblio name="nowhere" m2compatible="true" root="file:///nonexistent/"/></resolvers>
</ivysettings>
"""


def foretide(*arguments):
    return CliRunner().invoke(app, ["kafka", *arguments])


@pytest.mark.apart
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # that is what `start` is for
def test_a_broker_from_start_to_stop(broker, tmp_path):
    """`broker` is asked for so that this is skipped where the jars cannot be had."""
    assert "no Kafka broker was started here" in foretide("topics").output
    port = free_port()
    started = foretide("start", "--port", str(port), "--json")
    assert started.exit_code == 0, started.output
    try:
        assert json.loads(started.stdout)["port"] == port
        again = foretide("start", "--port", str(free_port()))
        assert again.exit_code == 1
        assert f"runs already at 127.0.0.1:{port}" in again.output
        assert foretide("topics").output == f"127.0.0.1:{port} has no topics\n"
        assert foretide("topics", "words", "clicks", "--partitions", "3", "--json").exit_code == 0
        assert json.loads(foretide("topics", "--json").stdout) == {"clicks": 3, "words": 3}
        twice = foretide("topics", "words")
        assert twice.exit_code == 1
        assert "topic 'words' was not created" in twice.output
        other = foretide("topics", "--servers", broker.address, "--json")
        assert "clicks" not in json.loads(other.stdout)
    finally:
        stopped = foretide("stop", "--json")
    assert json.loads(stopped.stdout)["pid"] == json.loads(started.stdout)["pid"]
    nothing = foretide("stop")
    assert nothing.exit_code == 1
    assert "no Kafka broker was started" in nothing.output


@pytest.mark.parametrize(
    "servers", ["nonsense", "host", "host:", ":9092", "host:port", "host:0", "host:70000", "a:1,b"]
)
def test_what_is_no_address_is_refused_at_once(servers):
    result = foretide("topics", "--servers", servers)
    assert result.exit_code == 1
    assert "no address of a Kafka broker; write HOST:PORT" in " ".join(result.output.split())


@pytest.mark.parametrize("servers", ["localhost:9092", "a.b-c.example:1,10.0.0.1:65535", "[::1]:9092", "a:1, b:2"])
def test_addresses_that_may_be_brokers(servers):
    check_servers(servers)


def test_a_broker_that_is_not_there_is_an_error_in_seconds():
    result = foretide("topics", "new", "--servers", f"127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "does not answer" in " ".join(result.output.split())


@pytest.mark.parametrize("name", ["", "a b", "x/y", "..", "n" * 250])
def test_what_is_no_name_of_a_topic_is_refused(name):
    result = foretide("topics", name, "--servers", f"127.0.0.1:{free_port()}")
    assert "is no name for a topic" in " ".join(result.output.split())


@pytest.mark.spark
@pytest.mark.apart
def test_libraries_that_cannot_be_had_are_a_clear_error(tmp_path, monkeypatch):
    settings = tmp_path / "ivy.xml"
    settings.write_text(UNREACHABLE)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf spark.jars.ivySettings={settings} pyspark-shell")
    library = Library("missing", ("org.example:missing:1.0",))
    with pytest.raises(EnvironmentNotReadyError) as raised:
        jars_of(library, tmp_path / "cache")
    message = str(raised.value)
    assert "'missing' (org.example:missing:1.0) are needed and cannot be downloaded" in message
    assert str(tmp_path / "cache" / "missing") in message
    assert {path.name for path in (tmp_path / "cache").iterdir()} <= {"missing.lock"}


def test_names_of_topics_are_printed_with_control_characters_escaped(monkeypatch):
    monkeypatch.setattr("foretide.cli.kafka.list_topics", lambda address, options: {"words\x1b[2J": 3})
    assert foretide("topics", "--servers", "localhost:1").stdout.split() == ["words\\x1b[2J", "3", "partitions"]


def test_a_wrong_address_names_itself():
    with pytest.raises(KafkaError, match="'nowhere'"):
        check_servers("host:9092,nowhere")
