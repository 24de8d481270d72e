"""Events in the logs of a distributed system (pa-sps, Fig 14).

lines -> parse -> template -> judge -> record, each load-aware

The paper says that lines are parsed and events determined by four operators; what each of them does is ours. A line
that cannot be parsed is an event of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from foretide.apps.app import App, Load, RealTime
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import LoadAware
from foretide.topology.sources import Replay, Source
from foretide.workloads.curve import Curve
from foretide.workloads.logs import LogLines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LINE = r"^(\S+) ([A-Z]+) (\S+): (.+)$"
FIELDS = ("node", "level", "component", "message")
SLOW_MS = 250
"""A warning about something that took longer is an event `slow`."""

_NUMBER, _TOOK = r"[0-9]+", r"took ([0-9]+) ms"


def parse(lines: DataFrame) -> DataFrame:
    """Node, level, component and message; empty where a line does not have this form."""
    found = [F.regexp_extract("line", LINE, place + 1).alias(name) for place, name in enumerate(FIELDS)]
    return lines.select("row", "due", *found)


def template(lines: DataFrame) -> DataFrame:
    """The message with every number as `*`, and how long something took."""
    took = F.regexp_extract("message", _TOOK, 1).try_cast("int")
    return lines.withColumns({"template": F.regexp_replace("message", _NUMBER, "*"), "took": took}).drop("message")


def judge(lines: DataFrame) -> DataFrame:
    """Which event it is."""
    event = (
        F.when(F.col("level") == "", "unreadable")
        .when(F.col("level") == "ERROR", "failure")
        .when((F.col("level") == "WARN") & (F.col("took") > SLOW_MS), "slow")
        .otherwise("usual")
    )
    return lines.withColumn("event", event)


def record(events: DataFrame) -> DataFrame:
    """The database writes what it receives."""
    return events.select("row", "due", "node", "component", "template", "event")


def topology(source: Source) -> Topology:
    """The topology for any source of lines, in either mode."""
    evenly = LoadAware(by=("row",))
    return Topology(
        "log-events",
        spouts=[Spout("lines", source)],
        bolts=[
            Bolt("parse", parse, [From("lines", evenly)], pool=3),
            Bolt("template", template, [From("parse", evenly)], pool=3),
            Bolt("judge", judge, [From("template", evenly)], pool=3),
            Bolt("record", record, [From("judge", evenly)], pool=3),
        ],
    )


def build(load: Load) -> Topology:
    """The topology under an even load with short peaks, each of a fiftieth of the run."""
    calm, peak = load.seconds * 0.18, load.seconds * 0.02
    curve = Curve.steps([(calm, 0.8 * load.rate), (peak, 2.8 * load.rate)] * 5)
    return topology(Replay(LogLines(seed=load.seed), load.shaped(curve), paced=load.paced))


def truth(lines: pd.DataFrame, _: Load) -> pd.DataFrame:
    """The events, worked out the plain way."""
    found = [(row, *event_of(line)) for row, line in zip(lines["row"].tolist(), lines["line"], strict=True)]
    return pd.DataFrame(found, columns=["row", "node", "component", "template", "event"])


def event_of(line: str) -> tuple[str, str, str, str]:
    """Node, component, template and event of one line.

    >>> event_of("node-7 WARN storage.Writer: slow write of block 12, took 300 ms")
    ('node-7', 'storage.Writer', 'slow write of block *, took * ms', 'slow')
    >>> event_of("node-7 ")
    ('', '', '', 'unreadable')
    """
    head, _, message = line.partition(": ")
    fields = head.split(" ")
    if not message or len(fields) != len(FIELDS) - 1:
        return "", "", "", "unreadable"
    node, level, component = fields
    took = re.search(_TOOK, message)
    slow = level == "WARN" and took is not None and int(took[1]) > SLOW_MS
    event = "failure" if level == "ERROR" else "slow" if slow else "usual"
    return node, component, re.sub(_NUMBER, "*", message), event


def last_events(lines: pd.DataFrame) -> pd.DataFrame:
    """What has to be there of each line in real-time mode."""
    return truth(lines, Load())[["row", "template", "event"]].assign(due=lines["due"])


APP = App(
    "log-events",
    build,
    edge="template",
    ratio="3:2:1",
    result="record",
    truth=truth,
    real_time=RealTime(topology, "record", ("row", "template", "event"), "due", last_events),
)
