"""URL count over the past two minutes (predictive-control): windows of two minutes that begin every fifteen seconds.

requests -> extract (dynamic) -> partial counts of every batch (dynamic) -> merge (global)

Event time runs thirty times faster than the clock, as in `url_count`: there is a result for every 500 ms of the clock,
which is how often the paper's partial counts are merged. In real-time mode each request updates the counts of all
windows that it is in at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from foretide.apps import url_count
from foretide.apps.app import App, Load, RealTime
from foretide.apps.url_count import WINDOW_SECONDS
from foretide.topology.graph import Bolt, From, Topology
from foretide.topology.groupings import Fields, Global

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from foretide.topology.sources import Source

SLIDE_SECONDS = 15
_WINDOWS = WINDOW_SECONDS // SLIDE_SECONDS
"""The windows that each request is in."""


def merge(partial: DataFrame) -> DataFrame:
    """All partial counts of a window added up, once the watermark has passed its end."""
    window = F.window("event_time", f"{WINDOW_SECONDS} seconds", f"{SLIDE_SECONDS} seconds")
    timely = partial.withWatermark("event_time", "1 second")
    counts = timely.groupBy(window, "url").agg(F.sum("requests").alias("requests"))
    return counts.where("requests > 0").select(F.col("window.start").alias("window_start"), "url", "requests")


def build(load: Load) -> Topology:
    """The topology of `url_count` with another merge."""
    tumbling = url_count.build(load)
    *before, _ = tumbling.bolts
    return replace(
        tumbling, name="url-count-sliding", bolts=[*before, Bolt("merge", merge, [From("partial", Global())])]
    )


def truth(requests: pd.DataFrame, _: Load) -> pd.DataFrame:
    """The counts, worked out the plain way."""
    urls = requests["line"].str.extract(r"(https?://\S+)")[0]
    return _counted(requests["event_time"], urls)


def count_at_once(urls: DataFrame) -> DataFrame:
    """The count of a URL in each of its windows after each request."""
    each = urls.withColumn("window_start", F.explode(_window_starts(F.timestamp_micros("due"))))
    return each.groupBy("window_start", "url").agg(
        F.count("*").alias("requests"), F.last("row").alias("row"), F.last("due").alias("due")
    )


def _window_starts(time: Column) -> Column:
    """When the windows begin that a time is in."""
    last = F.window(time, f"{SLIDE_SECONDS} seconds")["start"]
    return F.array(*[last - F.expr(f"INTERVAL {SLIDE_SECONDS * back} SECONDS") for back in range(_WINDOWS)])


def build_real_time(source: Source) -> Topology:
    """The topology for real-time mode."""
    tumbling = url_count.build_real_time(source)
    *before, _ = tumbling.bolts
    count = Bolt("count", count_at_once, [From("extract", Fields("url"))])
    return replace(tumbling, name="url-count-sliding", bolts=[*before, count])


def last_counts(requests: pd.DataFrame) -> pd.DataFrame:
    """The last count of each URL and window, worked out the plain way."""
    urls = requests["line"].str.extract(r"(https?://\S+)")[0].fillna("malformed")
    return _counted(pd.to_datetime(requests["due"], unit="us", utc=True), urls)


def _counted(times: pd.Series[pd.Timestamp], urls: pd.Series[str]) -> pd.DataFrame:
    """Requests for each URL in each window that they are in."""
    last = times.dt.floor(f"{SLIDE_SECONDS}s")
    backs = [pd.Timedelta(seconds=SLIDE_SECONDS * back) for back in range(_WINDOWS)]
    each = pd.concat([pd.DataFrame({"window_start": last - back, "url": urls}) for back in backs])
    return each.dropna().value_counts().reset_index(name="requests")


APP = App(
    "url-count-sliding",
    build,
    edge="extract",
    ratio="7:3:2",
    result="merge",
    truth=truth,
    real_time=RealTime(build_real_time, "count", ("window_start", "url"), "requests", last_counts),
)
