"""Security options of Spark's Kafka source in the words of librdkafka."""

from __future__ import annotations

import pytest

from foretide.errors import KafkaError
from foretide.spark.kafka_options import client_options, read_options, security_options

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="a \\"b\\" = c;";'


def test_only_options_about_security_are_taken():
    options = {"kafka.security.protocol": "SSL", "kafka.fetch.max.bytes": "1", "failOnDataLoss": "false"}
    assert security_options(options) == {"kafka.security.protocol": "SSL"}
    assert client_options(options) == ({"security.protocol": "SSL"}, [])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM},
         {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": 'a "b" = c;'}),
        ({"sasl.jaas.config": "x.PlainLoginModule required username=me password='p w';"},
         {"sasl.username": "me", "sasl.password": "p w"}),
        ({"sasl.jaas.config": 'x.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="me@X";'},
         {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "me@X"}),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca"}, {"ssl.ca.location": "/ca"}),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "---"}, {"ssl.ca.pem": "---"}),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me", "ssl.key.password": "p"},
         {"ssl.certificate.location": "/me", "ssl.key.location": "/me", "ssl.key.password": "p"}),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me", "ssl.keystore.password": "p"},
         {"ssl.keystore.location": "/me", "ssl.keystore.password": "p"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
    ],
)  # fmt: skip
def test_options_get_their_names_in_librdkafka(given, expected):
    from confluent_kafka import Producer

    found, unknown = client_options({f"kafka.{name}": value for name, value in given.items()})
    assert (found, unknown) == (expected, [])
    files = [name for name in found if name.endswith(("location", "pem"))]
    Producer({**{name: value for name, value in found.items() if name not in files}, "log_level": 0})  # it knows them


def test_options_without_a_name_there_are_listed_without_their_values():
    given = {"kafka.ssl.truststore.location": "/a.jks", "kafka.ssl.truststore.password": "secret"}
    assert client_options(given) == ({}, ["kafka.ssl.truststore.location", "kafka.ssl.truststore.password"])


def test_a_file_of_properties_becomes_options_of_spark(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(
        '# who we are\nsecurity.protocol=SASL_SSL\n\nsasl.jaas.config = Login required \\\n  password="a=b";\n'
    )
    assert read_options(file) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": 'Login required password="a=b";',
    }


@pytest.mark.parametrize("line", ["hunter2", "=hunter2", "a b=hunter2"])
def test_a_line_that_is_no_property_is_told_by_its_number_alone(tmp_path, line):
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\n{line}\n")
    with pytest.raises(KafkaError, match="line 2: write NAME=VALUE") as raised:
        read_options(file)
    assert "hunter2" not in str(raised.value)
