"""Unique users per event (storm-at-twitter, Fig 8): how many different users did each thing in each second.

events -> distributor (shuffle) -> user count (fields by user, every second) -> aggregator (fields by time)

In real-time mode each user updates the count of an event and second at once, when seen in it for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from foretide.apps.app import App, Load, RealTime
from foretide.topology.graph import Bolt, From, Spout, Topology
from foretide.topology.groupings import Fields, Shuffle
from foretide.topology.sources import Replay, Source
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


def distribute_at_once(events: DataFrame) -> DataFrame:
    """The event, its user and the second in which it was due."""
    second = F.date_trunc("second", F.timestamp_micros("due"))
    return events.select("row", "due", second.alias("second"), "user_id", "event")


def user_count_at_once(events: DataFrame) -> DataFrame:
    """Each user once for each event and second."""
    return events.dropDuplicates(["user_id", "second", "event"])


def aggregate_at_once(users: DataFrame) -> DataFrame:
    """How many there were so far."""
    return users.groupBy("second", "event").agg(
        F.count("user_id").alias("users"), F.last("row").alias("row"), F.last("due").alias("due")
    )


def build_real_time(source: Source) -> Topology:
    """The topology for real-time mode."""
    return Topology(
        "unique-users",
        spouts=[Spout("events", source)],
        bolts=[
            Bolt("distributor", distribute_at_once, [From("events", Shuffle(by=("row",)))], pool=4),
            Bolt("user-count", user_count_at_once, [From("distributor", Fields("user_id"))]),
            Bolt("aggregator", aggregate_at_once, [From("user-count", Fields("second"))]),
        ],
    )


def last_numbers(events: pd.DataFrame) -> pd.DataFrame:
    """The last numbers of users, worked out the plain way."""
    second = pd.to_datetime(events["due"], unit="us", utc=True).dt.floor("s").rename("second")
    users = events["user_id"].groupby([second, events["event"]]).nunique()
    return users.reset_index(name="users")


APP = App(
    "unique-users",
    build,
    edge="distributor",
    ratio="4:3:2:1",
    result="aggregator",
    truth=truth,
    real_time=RealTime(build_real_time, "aggregator", ("second", "event"), "users", last_numbers),
)
