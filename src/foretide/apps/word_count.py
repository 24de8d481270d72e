"""Word count, Storm's first example: words of tweets, counted in windows of ten seconds.

tweets -> split (shuffle) -> count (fields by word)

In real-time mode each word updates its count at once.
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
from foretide.workloads.tweets import Tweets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def split(tweets: DataFrame) -> DataFrame:
    """The words of each tweet. The flush has none and comes through as it is, to move the watermark."""
    words = F.explode_outer(F.split(F.lower("text"), r"\s+"))
    return tweets.select("event_time", words.alias("word"))


def count(words: DataFrame) -> DataFrame:
    """How often each word came in each window."""
    window = F.window("event_time", "10 seconds")
    counts = words.withWatermark("event_time", "1 second").groupBy(window, "word").agg(F.count("word").alias("times"))
    return counts.where("times > 0").select(F.col("window.start").alias("window_start"), "word", "times")


def build(load: Load) -> Topology:
    """The topology under the curve of a day of tweets about Google."""
    curve = Curve.from_trace("tweets-goog", seconds=load.seconds, mean_rate=load.rate, samples=288)
    tweets = Replay(Tweets(seed=load.seed), curve, event_seconds=load.seconds * 5, flush=120.0, paced=load.paced)
    return Topology(
        "word-count",
        spouts=[Spout("tweets", tweets)],
        bolts=[
            Bolt("split", split, [From("tweets", Shuffle(by=("row",)))], pool=4),
            Bolt("count", count, [From("split", Fields("word"))]),
        ],
    )


def truth(tweets: pd.DataFrame, _: Load) -> pd.DataFrame:
    """The counts, worked out the plain way."""
    words = tweets["text"].str.lower().str.split(r"\s+", regex=True)
    window = tweets["event_time"].dt.floor("10s").rename("window_start")
    split_up = pd.DataFrame({"window_start": window, "word": words}).explode("word")
    return split_up.value_counts().reset_index(name="times")


def split_at_once(tweets: DataFrame) -> DataFrame:
    """The words of each tweet."""
    return tweets.select("row", "due", F.explode(F.split(F.lower("text"), r"\s+")).alias("word"))


def count_at_once(words: DataFrame) -> DataFrame:
    """The count of a word in its window after each occurrence."""
    window = F.window(F.timestamp_micros("due"), "10 seconds").alias("window")
    counts = words.groupBy(window, "word").agg(
        F.count("*").alias("times"), F.last("row").alias("row"), F.last("due").alias("due")
    )
    return counts.select(F.col("window.start").alias("window_start"), "word", "times", "row", "due")


def build_real_time(source: Source) -> Topology:
    """The topology for real-time mode."""
    return Topology(
        "word-count",
        spouts=[Spout("tweets", source)],
        bolts=[
            Bolt("split", split_at_once, [From("tweets", Shuffle(by=("row",)))], pool=4),
            Bolt("count", count_at_once, [From("split", Fields("word"))]),
        ],
    )


def last_counts(tweets: pd.DataFrame) -> pd.DataFrame:
    """The last count of each word and window, worked out the plain way."""
    words = tweets["text"].str.lower().str.split(r"\s+", regex=True)
    window = pd.to_datetime(tweets["due"], unit="us", utc=True).dt.floor("10s")
    split_up = pd.DataFrame({"window_start": window, "word": words}).explode("word")
    return split_up.value_counts().reset_index(name="times")


APP = App(
    "word-count",
    build,
    edge="split",
    ratio="4:3:2:1",
    result="count",
    truth=truth,
    real_time=RealTime(build_real_time, "count", ("window_start", "word"), "times", last_counts),
)
