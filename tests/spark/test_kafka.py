"""Kafka for real: a broker of the test's own, source, sink, dead letters, lag, and a broker that is killed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

import foretide as ft
from foretide.control.actions.registry import Restart
from foretide.errors import ActionError, FeedbackGrowthError, TopologyError
from foretide.runtime.monitoring.tuple_latency import TupleLatency, latencies
from foretide.spark.kafka_broker import create_topics, free_port, list_topics
from foretide.spark.sources.registry import source_port, source_range
from helpers import rows_taken, send_records, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.apart]
SCHEMA = "id long, word string"
SECRET = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";'


def topology(name, source):
    upper = ft.Bolt("upper", lambda df: df.selectExpr("id", "upper(word) word"), [ft.From("in", ft.Dynamic())], pool=2)
    return ft.Topology(name, [ft.Spout("in", source)], [upper])


def test_from_topic_to_topic(spark, broker, tmp_path):
    """Every good record arrives once, every malformed one is a dead letter that names its place."""
    create_topics(broker.address, ["words", "loud-upper", "loud-dead_letters"], 2)
    bad = [b"not json", b"\xff\xfe\x00", b'{"id": "seven", "word": "x"}', b"[1, 2]"]
    send_records(broker, "words", [*({"id": n, "word": f"w{n}"} for n in range(200)), *bad])
    source = ft.KafkaSource(broker.address, "words", SCHEMA, start="earliest")
    sink = ft.KafkaSink(broker.address, "loud-{stream}", key="id")
    settings = ft.RunSettings(guarantee="at-least-once", trigger="100 milliseconds", monitoring=None)
    pipeline = ft.submit(spark, topology("loud", source), sink, str(tmp_path / "checkpoint"), settings)
    wait_for(lambda: sum(report.input_rows for report in pipeline.reports) >= 204 or not pipeline.running)
    pipeline.stop()
    rows = pipeline.output("upper").collect()
    assert sorted((row.id, row.word) for row in rows) == [(n, f"W{n}") for n in range(200)]
    letters = pipeline.output("dead_letters").select("dead_letter.*").collect()
    assert len(letters) == len(bad)
    assert all(letter.bolt == "in" and "of words" in letter.error for letter in letters)
    assert {source.backlog for report in pipeline.reports for source in report.sources} == {0}


def test_a_killed_broker_loses_nothing(spark, broker, tmp_path):
    """SIGKILL to the broker, a start on the same data: the query goes on by itself."""
    create_topics(broker.address, ["orders"], 2)
    source = ft.KafkaSource(broker.address, "orders", SCHEMA, start="earliest")
    settings = ft.RunSettings(trigger="100 milliseconds", monitoring=None, revive=20)
    folder = str(tmp_path / "checkpoint")
    pipeline = ft.submit(spark, topology("orders", source), ft.Parquet(str(tmp_path / "out")), folder, settings)
    send_records(broker, "orders", [{"id": n, "word": "a"} for n in range(100)])
    wait_for(lambda: sum(report.input_rows for report in pipeline.reports) >= 100)
    os.kill(broker.process.pid, signal.SIGKILL)
    broker.process.wait()
    broker.start()
    assert "orders" in list_topics(broker.address)
    send_records(broker, "orders", [{"id": n, "word": "b"} for n in range(100, 200)])
    wait_for(lambda: sum(report.input_rows for report in pipeline.reports) >= 200 or not pipeline.running)
    pipeline.stop()
    assert sorted(row.id for row in pipeline.output("upper").collect()) == list(range(200))


def loop(name, source, work):
    """A bolt that reads a spout and its own output."""
    bolt = ft.Bolt(name, work, [ft.From("in", ft.Shuffle()), ft.From(name, ft.Shuffle(), feedback=True)], pool=2)
    return ft.Topology(f"{name}-loop", [ft.Spout("in", source)], [bolt])


def test_feedback_through_a_topic_counts_down_to_exactly_the_expected_tuples(spark, broker, tmp_path):
    create_topics(broker.address, ["numbers", "back-down"], 2)
    source = ft.KafkaSource(broker.address, "numbers", "id long, n long", metadata=(), start="earliest")
    down = loop("down", source, lambda df: df.where("n > 0").selectExpr("id", "n - 1 as n"))
    settings = ft.RunSettings(guarantee="at-least-once", trigger="100 milliseconds", monitoring=None)
    sink = ft.KafkaSink(broker.address, "back-{stream}")
    pipeline = ft.submit(spark, down, sink, str(tmp_path / "checkpoint"), settings)
    send_records(broker, "numbers", [{"id": n, "n": n % 4} for n in range(40)])
    wait_for(lambda: sum(report.input_rows for report in pipeline.reports) >= 100 or not pipeline.running)
    pipeline.stop()
    rows = sorted((row.id, row.n) for row in pipeline.output("down").collect())
    assert rows == sorted((n, left) for n in range(40) for left in range(n % 4))


def test_a_loop_through_a_topic_that_grows_is_stopped(spark, broker, tmp_path):
    create_topics(broker.address, ["seeds", "more-grow"], 1)
    source = ft.KafkaSource(broker.address, "seeds", "id long", metadata=(), start="earliest")
    grow = loop("grow", source, lambda df: df.selectExpr("explode(array(id, id)) as id"))
    settings = ft.RunSettings(guarantee="at-least-once", trigger="0 seconds", monitoring=None, loop_patience=4)
    sink = ft.KafkaSink(broker.address, "more-{stream}")
    pipeline = ft.submit(spark, grow, sink, str(tmp_path / "checkpoint"), settings)
    send_records(broker, "seeds", [{"id": 1}])
    with pytest.raises(FeedbackGrowthError, match="'grow -> grow' of 'grow-loop' keeps growing"):
        pipeline.wait(240)
    pipeline.stop()


def send_stamped(broker, topic, partitions):
    """Records with these timestamps (ms), a list for each partition."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.address})
    for partition, stamps in enumerate(partitions):
        for stamp in stamps:
            producer.produce(topic, b"x", partition=partition, timestamp=stamp)
    assert producer.flush(60) == 0


def test_the_age_of_records_is_found_by_asking_the_broker(broker):
    create_topics(broker.address, ["aged"], 2)
    now = int(time.time() * 1000)
    old, young = [now - 5000 + 4 * n for n in range(1000)], [now - 1000 + n for n in range(500)]
    send_stamped(broker, "aged", [[now - 9000] * 10 + old, young])
    port = source_port(ft.KafkaSource(broker.address, "aged"))
    taken = source_range({"aged": {"0": 10, "1": 0}}, {"aged": {"0": 1010, "1": 500}}, {}, 1500)
    known = latencies(port, taken, now / 1000)
    ages = [now - stamp for stamp in (*old, *young)]
    assert known.mean() * 1000 == pytest.approx(sum(ages) / len(ages), rel=0.1)
    by_partition = port.partition_times(taken, np.array([0.5]))
    assert now - by_partition["0"][0] * 1000 == pytest.approx(3000, rel=0.1)
    assert now - by_partition["1"][0] * 1000 == pytest.approx(750, rel=0.1)
    again = source_range({"aged": {"0": 10, "1": 0}}, {"aged": {"0": 500, "1": 50}}, {}, 540)
    assert latencies(port, again, now / 1000) is None, "asked too often"


def test_a_broker_that_does_not_answer_makes_latency_unknown_and_is_not_asked_again_at_once(caplog):
    port = source_port(ft.KafkaSource(f"127.0.0.1:{free_port()}", "gone", options={"kafka.sasl.jaas.config": SECRET}))
    for number in range(3):
        taken = source_range({"gone": {"0": 0}}, {"gone": {"0": number + 1}}, {}, number + 1)
        assert latencies(port, taken, time.time()) is None
    assert [record.message.count("unknown") for record in caplog.records] == [1]
    assert "hunter2" not in caplog.text


def test_two_spouts_are_told_apart_by_their_topics(spark, broker, tmp_path):
    create_topics(broker.address, ["left", "right"], 2)
    spouts = [
        ft.Spout(f"spout-{name}", ft.KafkaSource(broker.address, name, max_rows=20)) for name in ("left", "right")
    ]
    bolt = ft.Bolt("keep", lambda df: df, [ft.From(spout.id, ft.Shuffle()) for spout in spouts], pool=2)
    both = ft.Topology("both", spouts, [bolt])
    settings = ft.RunSettings(trigger="500 milliseconds", monitoring=None)
    pipeline = ft.submit(spark, both, ft.Parquet(str(tmp_path / "out")), str(tmp_path / "checkpoint"), settings)
    wait_for(lambda: pipeline.reports or not pipeline.running)
    send_records(broker, "left", [b"a"] * 50)
    send_records(broker, "right", [b"b"] * 5)
    wait_for(lambda: sum(report.input_rows for report in pipeline.reports) >= 55 or not pipeline.running)
    pipeline.stop()
    taken = {spout.id: [each for report in pipeline.reports for each in report.sources if each.spout == spout.id]
             for spout in spouts}  # fmt: skip
    assert {spout: sum(each.rows for each in ranges) for spout, ranges in taken.items()} == {
        "spout-left": 50,
        "spout-right": 5,
    }
    assert max(each.backlog for each in taken["spout-left"]) >= 10, "at most 20 of the 50 are taken at once"
    assert all(sum(each.partition_lag.values()) == each.backlog for each in taken["spout-left"])
    figures = [TupleLatency.of(both).figures(report) for report in pipeline.reports if report.input_rows]
    late = [each["spout-left"].mean_latency for each in figures if "spout-left" in each]
    assert late, "no batch's latency was measured"
    assert all(0 < each < 600 for each in late)
    assert not pipeline.follower.audit_log.failures


def test_a_password_among_the_options_is_shown_nowhere(spark, broker, tmp_path, caplog, capsys):
    """Not by the records, the control folder, the store, a log or an error, which quotes what Spark says."""
    options = {"kafka.sasl.jaas.config": SECRET, "kafka.ssl.key.password": "swordfish"}
    source = ft.KafkaSource(broker.address, "secret", SCHEMA, start="earliest", options=options)
    sink = ft.KafkaSink(broker.address, "secret-{stream}", options=options)
    create_topics(broker.address, ["secret", "secret-upper", "secret-dead_letters"], 1)
    send_records(broker, "secret", [{"id": 1, "word": "a"}])
    settings = ft.RunSettings(guarantee="at-least-once")
    wrong = replace(source, options={**options, "includeHeaders": "swordfish"})
    with pytest.raises(TopologyError, match=r"Spark refuses it: .*\*\*\*") as refused:
        ft.submit(spark, topology("wrong", wrong), sink, str(tmp_path / "wrong"), settings)
    pipeline = ft.submit(spark, topology("secret", source), sink, str(tmp_path / "checkpoint"), settings)
    wait_for(lambda: rows_taken(pipeline) >= 1, pipeline)
    pipeline.stop()
    shown = [str(refused.value), repr(source), repr(sink), repr(pipeline.topology), caplog.text, *capsys.readouterr()]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [text for text in shown if "swordfish" in text or "hunter2" in text]
    assert not [content for content in files if b"swordfish" in content or b"hunter2" in content]


def test_another_limit_takes_a_restart(spark, broker, tmp_path):
    create_topics(broker.address, ["limited"], 2)
    send_records(broker, "limited", [b"a"] * 60)
    source = ft.KafkaSource(broker.address, "limited", metadata=(), start="earliest", max_rows=10)
    keep = ft.Bolt("keep", lambda df: df, [ft.From("in", ft.Shuffle())], pool=2)
    settings = ft.RunSettings(trigger="200 milliseconds", monitoring=None)
    limited = ft.Topology("limited", [ft.Spout("in", source)], [keep])
    pipeline = ft.submit(spark, limited, ft.Parquet(str(tmp_path / "out")), str(tmp_path / "checkpoint"), settings)
    wait_for(lambda: rows_taken(pipeline) >= 60, pipeline)
    assert max(report.input_rows for report in pipeline.reports) <= 11, "10, rounded up by partition"
    with pytest.raises(ActionError, match="it can limit: in"):
        pipeline.restart(Restart("another spout", admission={"keep": 30}))
    pipeline.restart(Restart("more a batch", admission={"in": 30}))
    wait_for(lambda: pipeline.restarts == 1)  # the query ends meanwhile
    send_records(broker, "limited", [b"b"] * 60)
    wait_for(lambda: rows_taken(pipeline) >= 120, pipeline)
    pipeline.stop()
    assert 11 < max(report.input_rows for report in pipeline.reports) <= 31
    assert pipeline.output("keep").count() == 120
