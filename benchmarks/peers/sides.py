"""The sides that are compared: Foretide, and each peer in its variants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
_VERSION = re.compile(r"<(\w+)\.version>([^<]+)</")


@dataclass(frozen=True)
class Side:
    """An engine and how it runs.

    Attributes:
        name: What it is called on the command line.
        title: What it is called in tables.
        profile: The profile of Maven that builds it; None for Foretide.
        main: The Java class, or the Python module.
        options: Options of the program, beside those of the measurement.
        rows: Rows that it counts, in the part about throughput.
    """

    name: str
    title: str
    profile: str | None
    main: str
    options: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0


def versions(pom: str) -> dict[str, str]:
    """The versions that a pom pins.

    >>> versions("<storm.version>2.8.3</storm.version>")
    {'storm': '2.8.3'}
    """
    return dict(_VERSION.findall(pom))


_PINNED = versions(POM.read_text(encoding="utf-8"))
_STORM, _FLINK, _STREAMS = (f"{name} {_PINNED[key]}" for name, key in (
    ("Apache Storm", "storm"), ("Apache Flink", "flink"), ("Kafka Streams", "kafka"),
))  # fmt: skip
FORETIDE = Side("foretide", "Foretide", None, "benchmarks.peers.foretide_side", {"control": "false"}, 40_000_000)
CONTROLLED = Side(
    "foretide-control", "Foretide, control on", None, "benchmarks.peers.foretide_side", {"control": "true"}
)
UNCONTROLLED = Side("foretide", "Foretide, control off", None, "benchmarks.peers.foretide_side", {"control": "false"})
STORM = Side("storm", _STORM, "storm", "StormPeer", {"acks": "true"}, 4_000_000)
STORM_NO_ACKS = Side("storm-no-acks", f"{_STORM}, without acks", "storm", "StormPeer", {"acks": "false"}, 8_000_000)
FLINK = Side("flink", _FLINK, "flink", "FlinkPeer", {"adaptive": "false"}, 30_000_000)
FLINK_ADAPTIVE = Side("flink-adaptive", f"{_FLINK}, adaptive partitioner", "flink", "FlinkPeer", {"adaptive": "true"})
STREAMS = Side("kafka-streams", _STREAMS, "streams", "StreamsPeer", {}, 3_000_000)

THROUGHPUT = (FORETIDE, STORM, STORM_NO_ACKS, FLINK, STREAMS)
LATENCY = (FORETIDE, STORM, FLINK, STREAMS)
SLOW_TASK = (CONTROLLED, UNCONTROLLED, STORM, FLINK, FLINK_ADAPTIVE, STREAMS)
NAMES = tuple(dict.fromkeys(each.name for each in (*THROUGHPUT, *LATENCY, *SLOW_TASK)))
