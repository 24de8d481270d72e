"""`foretide run` and `foretide demo` through Kafka, as processes, in both modes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cli.processes import pipeline_of, running
from foretide.cli.main import app
from foretide.control_folder.folder import ControlFolder
from foretide.spark.kafka_broker import create_topics
from helpers import send_records, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.apart]


def ended(process):
    """What a command has printed on stdout and stderr."""
    printed, said = process.communicate(timeout=900)
    assert process.returncode == 0, said
    return printed, said


def stop(process, name):
    """Stop a pipeline as another terminal would, once it has taken rows."""
    pipeline_of(process, name)
    assert CliRunner().invoke(app, ["stop", name]).exit_code == 0


def test_an_application_runs_from_kafka_to_kafka_in_micro_batches(broker, tmp_path):
    """With routes that change midway, a plot, and every result once."""
    load = ("--duration", "5s", "--rate", "200", "--servers", broker.address)
    files = ("--output", tmp_path / "out", "--plot", tmp_path / "plot.png")
    with running("run", "url-count", *load, *files, "--json") as process:
        printed, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    summary = json.loads(printed)
    assert (summary["rows_handed_out"], summary["missing"], summary["surplus"]) == (1000, 0, 0)
    assert summary["result_rows"] == summary["expected_rows"] > 0
    assert set(summary["topics"]) == {"input", "count", "dead_letters"}
    assert summary["latency_ms"]["p99"] >= summary["latency_ms"]["p50"] > 0
    assert "in micro-batch mode" in said
    assert ">> extract is split 7:3:2: in force in a batch after" in said
    assert (tmp_path / "plot.png").stat().st_size > 10_000


@pytest.mark.usefixtures("broker")
def test_a_run_through_kafka_that_is_stopped_is_judged_by_the_rows_that_it_took(tmp_path):
    """With a broker of its own; a batch may be under way."""
    load = ("--duration", "10m", "--rate", "200")
    with running("run", "url-count", "--kafka", *load, "--output", tmp_path / "out", "--json") as process:
        stop(process, "url-count")
        summary = json.loads(ended(process)[0])
    assert (summary["stopped"], summary["missing"], summary["surplus"]) == (True, 0, 0)
    assert 0 < summary["rows_compared"] < summary["rows_handed_out"] == 120_000
    assert summary["result_rows"] == summary["expected_rows"] > 0
    assert summary["target"] is None


@pytest.mark.usefixtures("broker")
def test_an_application_runs_in_real_time_with_a_broker_of_its_own_and_is_judged_by_its_target():
    load = ("--duration", "5s", "--rate", "200", "--latency", "1h")
    with running("run", "url-count", "--mode", "real-time", *load, "--json") as process:
        printed, said = ended(process)
    summary = json.loads(printed)
    assert (summary["rows_handed_out"], summary["missing"], summary["surplus"]) == (1000, 0, 0)
    assert not summary["stopped"]
    assert "in real-time mode" in said
    target = summary["target"]
    assert (target["quantile"], target["seconds"], target["held"], target["missed"]) == ("p99", 3600.0, True, 0)
    assert target["measured"] > 0
    assert target["intervals"] > 0
    assert summary["control"]["record"]["target"]["latency"] == 3600.0
    assert summary["control"]["account"][0].startswith("changes by the control loop: ")


def test_a_run_in_real_time_that_is_stopped_is_not_compared(broker):
    """Results are written before their offsets are committed: nobody can tell which rows were taken."""
    load = ("--duration", "10m", "--rate", "200", "--latency", "1ms")
    with running("run", "url-count", "--mode", "real-time", "--servers", broker.address, *load) as process:
        folder = ControlFolder(pipeline_of(process, "url-count").control_folder)
        wait_for(lambda: (control := folder.status.control()) is not None and control.record.cause is not None)
        stop(process, "url-count")
        printed, _ = ended(process)
    lines = printed.splitlines()
    assert any(
        line.startswith("stopped as requested after batch ") and line.endswith("; not compared") for line in lines
    )
    assert any(line.startswith("target p99 below 1 ms: MISSED, measured ") and " seconds" in line for line in lines)
    assert any(line.startswith("  likely cause") for line in lines)
    assert any(line.startswith("changes by the control loop: ") for line in lines)


@pytest.mark.usefixtures("broker")
def test_the_demonstration_in_real_time_is_exact_on_both_sides_and_judged_by_its_target(tmp_path):
    plot, report = tmp_path / "plot.png", tmp_path / "report.html"
    load = ("--duration", "20s", "--rate", "100", "--plot", plot, "--report", report)
    with running("demo", "url-count", *load, "--json") as process:
        printed, said = ended(process)
    assert "Real-time mode cannot be shown" not in said
    assert ">> executor 0 is slowed down" in said
    plain, controlled = json.loads(printed)
    for run in (plain, controlled):
        found = run["verification"]
        assert (found["handed_out"], found["missing"], found["surplus"]) == (2800, 0, 0)  # with 8 s before the start
        assert found["found_rows"] == found["expected_rows"] > 0
        assert not run["stopped"]
        assert (run["target"]["quantile"], run["target"]["seconds"]) == ("p99", 0.1)
        assert run["target"]["measured"] > 0
        assert 0 <= run["target"]["missed"] <= run["target"]["intervals"]
    assert (plain["run"], plain["decisions"], plain["control"]) == ("without control", [], None)
    assert controlled["run"] == "with control"
    assert controlled["control"]["record"]["measurements"] > 0
    assert all(each["at"] > 0 and each["summary"] for each in controlled["decisions"])
    assert plot.stat().st_size > 10_000
    assert report.stat().st_size > 10_000


OWN = """
import foretide as ft

source = ft.KafkaSource("SERVERS", "own-in", schema="id long, word string", start="earliest")
upper = ft.Bolt("upper", ft.Native(lambda df: df.selectExpr("id", "upper(word) word")), [ft.From("read", ft.Dynamic())])
shop = ft.Topology("shop", [ft.Spout("read", source)], [upper])
"""
ROWS = 200


def values_of(broker, topic, wanted, process):
    """The values of a topic, once there are as many as wanted."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while len(found) < wanted:
        if process.poll() is not None:
            pytest.fail(process.communicate()[1])
        found += [json.loads(each.value()) for each in consumer.consume(wanted, 0.5) if each.error() is None]
    consumer.close()
    return found


def test_a_topology_of_ones_own_runs_in_real_time_from_topic_to_topic(broker, tmp_path, monkeypatch):
    """It takes records that come while its one batch lasts, and is stopped in the middle of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_jobs.py").write_text(OWN.replace("SERVERS", broker.address))
    create_topics(broker.address, ["own-in", "own-upper", "own-dead_letters"], 1)
    options = ("--mode", "real-time", "--sink", f"kafka:{broker.address}/own-{{stream}}", "--latency", "1h")
    with running("run", "own_jobs:shop", *options, "--json") as process:
        for first, last in ((0, ROWS // 2), (ROWS // 2, ROWS)):
            send_records(broker, "own-in", [{"id": each, "word": f"w{each}"} for each in range(first, last)])
            found = values_of(broker, "own-upper", last, process)
        stop(process, "shop")
        summary = json.loads(ended(process)[0])
    assert sorted((each["id"], each["word"]) for each in found) == [(each, f"W{each}") for each in range(ROWS)]
    assert (summary["topology"], summary["rows"], summary["alarms"]) == ("shop", ROWS, [])
    assert summary["target"]["seconds"] == 3600.0
    assert summary["control"]["account"][0].startswith("changes by the control loop: ")
