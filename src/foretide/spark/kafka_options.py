"""Options of Spark's Kafka source from a file, those about security, and the same settings in librdkafka's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from foretide.errors import KafkaError
from foretide.files import read_text

_SECURITY = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")
_JAAS = "sasl.jaas.config"
_SAME = (
    "security.protocol", "sasl.mechanism", "sasl.kerberos.service.name", "ssl.cipher.suites", "ssl.key.password",
)  # fmt: skip
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_IN_JAAS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "principal": "sasl.kerberos.principal",
    "keyTab": "sasl.kerberos.keytab",
}
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_PROPERTY = re.compile(r"[a-z][a-z0-9.]*")
_ALGORITHM = "ssl.endpoint.identification.algorithm"


def read_options(path: Path) -> dict[str, str]:
    """The options for Spark that stand for a file of properties, as Kafka's own tools take them.

    Raises:
        FileError: The file cannot be read.
        KafkaError: Names the file, and the line that is no property. No value is shown.
    """
    found = {}
    for number, line in _lines(read_text(path, "properties of Kafka clients")):
        name, separator, value = line.partition("=")
        if not separator or not _PROPERTY.fullmatch(name.strip()):
            raise KafkaError(f"'{path}', line {number}: write NAME=VALUE, such as security.protocol=SSL")
        found[f"kafka.{name.strip()}"] = value.strip()
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, those joined that end with a backslash, with their numbers."""
    joined = ""
    for number, line in enumerate(text.splitlines(), 1):
        joined += line.strip()
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        if joined and joined[0] not in "#!":
            yield number, joined
        joined = ""


def security_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those options of a Kafka source or sink that a connection to its brokers needs."""
    return {name: value for name, value in options.items() if name.startswith(_SECURITY)}


def client_options(options: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Security options for clients of librdkafka, and the names of those that it has no setting for."""
    given = {name.removeprefix("kafka."): value for name, value in security_options(options).items()}
    found = {name: given.pop(name) for name in _SAME if name in given}
    found |= {ours: given.pop(name) for name, ours in _RENAMED.items() if name in given}
    found |= _of_jaas(given.pop(_JAAS, ""))
    if _ALGORITHM in given:
        found[_ALGORITHM] = given.pop(_ALGORITHM) or "none"
    found |= _stores(given)
    return found, sorted(f"kafka.{name}" for name in given)


def _of_jaas(text: str) -> dict[str, str]:
    options = {
        name: _unescaped(quoted or single) or plain for name, quoted, single, plain in _JAAS_OPTION.findall(text)
    }
    return {_IN_JAAS[name]: value for name, value in options.items() if name in _IN_JAAS}


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _stores(given: dict[str, str]) -> dict[str, str]:
    """Files with certificates and keys, taken out of what was given: PEM and PKCS12. It cannot read Java's own."""
    found = {}
    if given.get("ssl.truststore.type", "").upper() == "PEM":
        del given["ssl.truststore.type"]
        if place := given.pop("ssl.truststore.location", None):
            found["ssl.ca.location"] = place
    kind = given.get("ssl.keystore.type", "").upper()
    if kind == "PEM":
        del given["ssl.keystore.type"]
        if place := given.pop("ssl.keystore.location", None):
            found |= {"ssl.certificate.location": place, "ssl.key.location": place}
    elif kind == "PKCS12":
        del given["ssl.keystore.type"]
        names = [name for name in ("ssl.keystore.location", "ssl.keystore.password") if name in given]
        found |= {name: given.pop(name) for name in names}
    return found
