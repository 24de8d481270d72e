"""Windowed URL count (predictive-control): how often each URL was asked for in each window of two minutes.

requests -> extract (dynamic) -> partial counts of every batch (dynamic) -> merge (global)

In real-time mode each request updates its count at once: requests -> extract (dynamic) -> count (fields)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F

from foretide.apps.app import App, Load, RealTime
from foretide.topology.graph import Arrow, Bolt, From, Spout, Topology
from foretide.topology.groupings import Dynamic, Fields, Global
from foretide.topology.sources import Replay, Source
from foretide.workloads.curve import Curve
from foretide.workloads.requests import RequestLines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOW_SECONDS = 120
_SPEED_UP = 30
"""Event time runs this much faster than the clock, so that windows of two minutes close every four seconds."""


def extract(requests: DataFrame) -> DataFrame:
    """Time and URL of each request. A line without a URL goes to the stream `malformed`; the flush has no line."""
    found = requests.withColumn("found", F.regexp_extract("line", r"https?://\S+", 0))
    return found.select(
        "event_time",
        F.nullif("found", F.lit("")).alias("url"),
        F.when(F.col("found") == "", F.col("line")).alias("line"),
        F.when(F.col("found") == "", "malformed").otherwise("urls").alias("stream"),
    )


def partial_count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Requests for each URL and second among the tuples of one task in one batch. The flush counts as no request."""
    table = pa.Table.from_batches(list(batches))
    seconds = table["event_time"].cast(pa.timestamp("s", tz="UTC"), safe=False)
    keyed = pa.table({"event_time": seconds, "url": table["url"], "requests": table["url"]})
    counted = keyed.group_by(["event_time", "url"]).aggregate([("requests", "count")])
    yield from counted.rename_columns(["event_time", "url", "requests"]).to_batches()


def merge(partial: DataFrame) -> DataFrame:
    """All partial counts of a window added up, once the watermark has passed its end."""
    window = F.window("event_time", f"{WINDOW_SECONDS} seconds")
    counts = (
        partial.withWatermark("event_time", "1 second").groupBy(window, "url").agg(F.sum("requests").alias("requests"))
    )
    return counts.where("requests > 0").select(F.col("window.start").alias("window_start"), "url", "requests")


def build(load: Load) -> Topology:
    """The topology under a real load curve: a day of tweets about Apple, squeezed into the length of the run."""
    curve = Curve.from_trace("tweets-aapl", seconds=load.seconds, mean_rate=load.rate, first=0, samples=288)
    requests = Replay(
        RequestLines(seed=load.seed, urls=1000, zipf=1.1, malformed=0.001),
        load.shaped(curve),
        event_seconds=load.seconds * _SPEED_UP,
        flush=10.0 * WINDOW_SECONDS,
        paced=load.paced,
    )
    return Topology(
        "url-count",
        spouts=[Spout("requests", requests)],
        bolts=[
            Bolt("extract", extract, [From("requests", Dynamic(by=("row",)))], pool=3, streams=("urls", "malformed")),
            Bolt(
                "partial",
                Arrow(partial_count, "event_time timestamp, url string, requests long"),
                [From("extract", Dynamic(), stream="urls")],
                pool=2,
            ),
            Bolt("merge", merge, [From("partial", Global())]),
        ],
    )


def truth(requests: pd.DataFrame, _: Load) -> pd.DataFrame:
    """The counts, worked out the plain way."""
    urls = requests["line"].str.extract(r"(https?://\S+)")[0]
    window = requests["event_time"].dt.floor(f"{WINDOW_SECONDS}s")
    counts = pd.DataFrame({"window_start": window, "url": urls}).dropna().value_counts().reset_index(name="requests")
    return counts[["window_start", "url", "requests"]]


def extract_at_once(requests: DataFrame) -> DataFrame:
    """The URL of each request; a line without one counts as the URL `malformed`."""
    found = F.regexp_extract("line", r"https?://\S+", 0)
    return requests.select("row", "due", F.when(found == "", "malformed").otherwise(found).alias("url"))


def count(urls: DataFrame) -> DataFrame:
    """The count of a URL in its window after each request."""
    window = F.window(F.timestamp_micros("due"), f"{WINDOW_SECONDS} seconds").alias("window")
    counts = urls.groupBy(window, "url").agg(
        F.count("*").alias("requests"), F.last("row").alias("row"), F.last("due").alias("due")
    )
    return counts.select(F.col("window.start").alias("window_start"), "url", "requests", "row", "due")


def build_real_time(source: Source) -> Topology:
    """The topology for real-time mode."""
    return Topology(
        "url-count",
        spouts=[Spout("requests", source)],
        bolts=[
            Bolt("extract", extract_at_once, [From("requests", Dynamic(by=("row",)))], pool=3),
            Bolt("count", count, [From("extract", Fields("url"))]),
        ],
    )


def last_counts(requests: pd.DataFrame) -> pd.DataFrame:
    """The last count of each URL and window, worked out the plain way."""
    urls = requests["line"].str.extract(r"(https?://\S+)")[0].fillna("malformed")
    window = pd.to_datetime(requests["due"], unit="us", utc=True).dt.floor(f"{WINDOW_SECONDS}s")
    counts = pd.DataFrame({"window_start": window, "url": urls}).value_counts().reset_index(name="requests")
    return counts[["window_start", "url", "requests"]]


APP = App(
    "url-count",
    build,
    edge="extract",
    ratio="7:3:2",
    result="merge",
    truth=truth,
    real_time=RealTime(build_real_time, "count", ("window_start", "url"), "requests", last_counts),
)
