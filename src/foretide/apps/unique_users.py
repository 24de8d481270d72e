"""Unique users per event (storm-at-twitter, Fig 8): how many different users did each thing in each second.

events -> distributor (shuffle) -> user count (fields by user, every second) -> aggregator (fields by time)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from foretide.apps.app import App, Load
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Fields, Shuffle
from foretide.topology.sources import Replay
from foretide.workloads.curve import Curve
from foretide.workloads.tweets import UserEvents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def distribute(events: DataFrame) -> DataFrame:
    """The event, its user and its second."""
    return events.select("event_time", F.date_trunc("second", "event_time").alias("second"), "user_id", "event")


def user_count(events: DataFrame) -> DataFrame:
    """Each user once for each event and second: Spark's own deduplication, spread by user."""
    timely = events.withWatermark("event_time", "1 second")
    return timely.dropDuplicatesWithinWatermark(["user_id", "second", "event"])


def aggregate(users: DataFrame) -> DataFrame:
    """How many there were."""
    window = F.window("event_time", "1 second")
    counts = users.groupBy(window, "event").agg(F.count("user_id").alias("users"))
    return counts.where("users > 0").select(F.col("window.start").alias("second"), "event", "users")


def build(load: Load) -> Topology:
    """The topology under the curve of a day of tweets about Facebook."""
    curve = Curve.from_trace("tweets-fb", seconds=load.seconds, mean_rate=load.rate, samples=288)
    events = Replay(UserEvents(seed=load.seed), curve, flush=60.0, paced=load.paced)
    return Topology(
        "unique-users",
        spouts=[Spout("events", events)],
        bolts=[
            Bolt("distributor", distribute, [From("events", Shuffle(by=("row",)))], pool=4),
            Bolt("user-count", user_count, [From("distributor", Fields("user_id"))]),
            Bolt("aggregator", aggregate, [From("user-count", Fields("second"))]),
        ],
    )


def truth(events: pd.DataFrame, _: Load) -> pd.DataFrame:
    """The numbers of users, worked out the plain way."""
    second = events["event_time"].dt.floor("s").rename("second")
    users = events["user_id"].groupby([second, events["event"]]).nunique()
    return users.reset_index(name="users")


APP = App("unique-users", build, edge="distributor", ratio="4:3:2:1", result="aggregator", truth=truth)
