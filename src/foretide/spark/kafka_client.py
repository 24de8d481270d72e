"""A small client of Kafka in the driver, for what Spark does not tell: the optional package `confluent_kafka`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from foretide.spark.kafka_options import client_options

log = logging.getLogger("foretide")

_RETRY_SECONDS = 10.0
_LATEST = -1
"""The instant that stands for the end of a partition in Kafka's protocol (`ListOffsets`)."""

_ISOLATION = "isolation.level"


class UnknownSecurityError(Exception):
    """Security settings of Java that the client cannot take over."""


def client_settings(servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a client, with the security settings that were given to Spark (`kafka.security.protocol`, ...).

    >>> client_settings("host:9092", {"kafka.security.protocol": "SSL", "failOnDataLoss": "false"})["security.protocol"]
    'SSL'

    Raises:
        UnknownSecurityError: Names a setting that has no equivalent.
    """
    known, unknown = client_options(options)
    if unknown:
        raise UnknownSecurityError(unknown[0])
    return {"bootstrap.servers": servers, "log_level": 0, **known}


class OffsetFinder:
    """Finds the end of each partition, or its first record that is not older than an instant, and reads no record.

    An unreachable broker, or no client, is unknown (None): it is said once, and asked again some seconds later.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        options: Mapping[str, str],
        what: str = "the latency of tuples",
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        self._servers, self._topic, self._options = servers, topic, options
        self._what, self._retry_seconds = what, retry_seconds
        self._client: Any = None
        self._not_before = 0.0
        self._said = False

    def first_since(self, instant_ms: int, partitions: Iterable[int], timeout: float) -> dict[int, int | None] | None:
        """The offset by partition, None in it where all records are older; None when the broker does not tell."""
        return self._find(max(0, instant_ms), partitions, timeout)

    def ends(self, partitions: Iterable[int], timeout: float) -> dict[int, int] | None:
        """Where the next record of each partition will be; None when the broker does not tell."""
        found = self._find(_LATEST, partitions, timeout)
        known = {partition: offset for partition, offset in (found or {}).items() if offset is not None}
        return known if found and len(known) == len(found) else None

    def _find(self, instant_ms: int, partitions: Iterable[int], timeout: float) -> dict[int, int | None] | None:
        if time.monotonic() < self._not_before:
            return None
        try:
            found = self._ask(instant_ms, partitions, timeout)
        except ImportError:
            self._note_unknown("needs the extra 'kafka' (pip install 'foretide[kafka]')", float("inf"))
        except UnknownSecurityError as error:
            self._note_unknown(f"cannot use the option '{error}', which only Java knows", float("inf"))
        except Exception as error:  # noqa: BLE001 - whatever the client says, the query runs on
            self._note_unknown(f"gets no answer from the broker ({_code(error)})", self._retry_seconds)
        else:
            if all(each.error is None for each in found):
                return {each.partition: each.offset if each.offset >= 0 else None for each in found}
            self._note_unknown(f"gets no answer for topic '{self._topic}'", self._retry_seconds)
        return None

    def _ask(self, instant_ms: int, partitions: Iterable[int], timeout: float) -> list[Any]:
        from confluent_kafka import TopicPartition  # noqa: PLC0415 - an optional dependency

        asked = [TopicPartition(self._topic, partition, instant_ms) for partition in partitions]
        found: list[Any] = self._connected().offsets_for_times(asked, timeout=timeout)
        return found

    def _connected(self) -> Any:
        if self._client is None:
            from confluent_kafka import Consumer  # noqa: PLC0415 - an optional dependency

            settings = client_settings(self._servers, self._options)
            isolation = self._options.get(f"kafka.{_ISOLATION}", "read_uncommitted")  # as Spark reads
            own = {"group.id": "foretide", "enable.auto.commit": False, _ISOLATION: isolation}
            self._client = Consumer({**settings, **own})
        return self._client

    def _note_unknown(self, reason: str, retry_seconds: float) -> None:
        self._not_before = time.monotonic() + retry_seconds
        if not self._said:
            self._said = True
            log.warning("%s of topic '%s' is unknown: measuring it %s", self._what, self._topic, reason)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _code(error: Exception) -> str:
    """The name of an error, without its text, which may hold settings."""
    first: Any = error.args[0] if error.args else error
    return str(first.name()) if hasattr(first, "name") else type(error).__name__
