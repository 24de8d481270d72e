"""Settings of Spark's Kafka source as the small client in the driver takes them."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from foretide.secrets import hide_options, masked
from foretide.spark.kafka_broker import free_port
from foretide.spark.kafka_client import OffsetFinder, UnknownSecurityError, client_settings

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="open sesame";'


def test_credentials_are_taken_over():
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.fetch.max.bytes": "1000",
        "failOnDataLoss": "false",
    }
    assert client_settings("host:9092", options) == {
        "bootstrap.servers": "host:9092",
        "log_level": 0,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "open sesame",
        "ssl.ca.location": "/ca.pem",
    }


def test_what_only_java_knows_is_named_and_not_shown():
    with pytest.raises(UnknownSecurityError) as raised:
        client_settings("host:9092", {"kafka.ssl.keystore.location": "/secret/place"})
    assert str(raised.value) == "kafka.ssl.keystore.location"


def test_a_password_within_an_option_is_hidden_by_itself():
    hide_options({"kafka.sasl.jaas.config": JAAS, "startingOffsets": "latest"})
    assert masked("latest: open sesame was refused") == "latest: *** was refused"
    assert masked(f"invalid value {JAAS}") == "invalid value ***"


def test_the_ends_of_a_topic_are_unknown_while_the_broker_is_away(caplog):
    pytest.importorskip("confluent_kafka")
    finder = OffsetFinder(f"127.0.0.1:{free_port()}", "gone", {}, what="the lag")
    began = time.monotonic()
    assert [finder.ends(range(3), 0.2) for _ in range(5)] == [None] * 5
    assert time.monotonic() - began < 5, "it is asked once, and again some seconds later"
    (said,) = (record.message for record in caplog.records)
    assert said.startswith("the lag of topic 'gone' is unknown: measuring it gets no answer from the broker")
    finder.close()


def test_the_end_of_a_partition_is_asked_for_as_kafka_writes_it(monkeypatch):
    finder, asked = OffsetFinder("host:1", "words", {}), []

    def answer(instant, partitions, timeout):
        asked.append(instant)
        return [SimpleNamespace(partition=each, offset=each - 1, error=None) for each in partitions]

    monkeypatch.setattr(finder, "_ask", answer)
    assert finder.ends([1, 2], 0.2) == {1: 0, 2: 1}
    assert finder.ends([0, 1], 0.2) is None  # not known of each
    assert finder.first_since(-5, [0, 1], 0.2) == {0: None, 1: 0}
    assert asked == [-1, -1, 0]
