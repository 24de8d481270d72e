"""The queries of Nexmark as Structured Streaming queries, in append mode.

Each is a function of the events (`foretide.workloads.nexmark`, with `event_time`), of what made them, and of the way in
which streams are split and joined. docs/nexmark.md names what differs from the description of the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from foretide.apps.nexmark.ways import Ways
    from foretide.workloads.nexmark import NexmarkEvents

EUROS = 0.908
EVERY = 123
STATES = ("OR", "ID", "CA")
CATEGORY = 10
WINDOW, SLIDE, GAP = 10, 2, 10
"""Seconds of event time."""

DELAY = "0 seconds"
"""Events are in order, so the watermark follows the last one."""


def of_kind(events: DataFrame, kind: str, *columns: str) -> DataFrame:
    """Columns of the events of a kind. The watermark follows the events of all kinds.

    Spark moves a filter in front of a watermark unless it names its column.
    """
    timed = events.withWatermark("event_time", DELAY)
    return timed.where((F.col("kind") == kind) | F.col("event_time").isNull()).select(*columns, "event_time")


def bids(events: DataFrame) -> DataFrame:
    """Who bids how much on what."""
    return of_kind(events, "bid", "auction", "bidder", "price")


def q0(events: DataFrame, _made: NexmarkEvents, _ways: Ways) -> DataFrame:
    """Pass-through: all bids as they are."""
    return bids(events)


def q1(events: DataFrame, _made: NexmarkEvents, _ways: Ways) -> DataFrame:
    """Currency conversion: the prices of all bids in another currency."""
    return bids(events).withColumn("price", F.col("price") * F.lit(EUROS))


def q2(events: DataFrame, _made: NexmarkEvents, _ways: Ways) -> DataFrame:
    """Selection: bids on some auctions."""
    return bids(events).where(F.col("auction") % EVERY == 0).select("auction", "price")


def q3(events: DataFrame, made: NexmarkEvents, ways: Ways) -> DataFrame:
    """Local items: who sells in a category, and lives in some states."""
    people = of_kind(events, "person", "person", "name", "city", "state").withColumnRenamed("event_time", "entered")
    auctions = of_kind(events, "auction", "auction", "seller", "category").where(F.col("category") == CATEGORY)
    local = people.where(F.col("state").isin(*STATES))
    late, early = made.seller_seconds
    within = (2 * late, 2 * early)  # twice the time of an even stream
    sold = ways.join(local, auctions, [("person", "seller")], ("entered", "event_time"), within)
    return sold.select("name", "city", "state", "auction")


def q4(events: DataFrame, made: NexmarkEvents, ways: Ways) -> DataFrame:
    """Average price for a category: the mean of the highest bids on the auctions that were opened in a window."""
    auctions = of_kind(events, "auction", "auction", "category", "open_ms").withColumnsRenamed(
        {"auction": "sold", "event_time": "opened"}
    )
    offers = ways.join(
        auctions, bids(events), [("sold", "auction")], ("opened", "event_time"), (0.0, made.max_open_seconds)
    )
    closes = F.unix_micros("opened") + F.col("open_ms") * 1000
    valid = offers.where(F.unix_micros("event_time") <= closes).drop("event_time")
    final = valid.groupBy(F.window("opened", f"{WINDOW} seconds"), "sold", "category").agg(
        F.max("price").alias("final")
    )
    means = final.groupBy("window", "category").agg(F.avg("final").alias("mean_price"))
    return means.select(_start(), "category", "mean_price")


def q5(events: DataFrame, _made: NexmarkEvents, ways: Ways) -> DataFrame:
    """Hot items: the auctions with most bids in a sliding window, all of them if several have as many."""
    window = F.window("event_time", f"{WINDOW} seconds", f"{SLIDE} seconds")
    counts = ways.split(bids(events)).groupBy(window, "auction").agg(F.count("*").alias("bids"))
    each = F.collect_list(F.struct("auction", "bids"))
    most = counts.groupBy("window").agg(F.max("bids").alias("most"), each.alias("each"))
    items = most.select(_start(), "most", F.explode("each").alias("item"))
    return items.where("item.bids = most").select("window_start", "item.auction", "item.bids")


def q7(events: DataFrame, _made: NexmarkEvents, ways: Ways) -> DataFrame:
    """Highest bid of each window; of several as high, the one on the auction with the highest number, and so on."""
    bid = F.struct("price", "auction", "bidder", "event_time")
    highest = ways.split(bids(events)).groupBy(_window()).agg(F.max(bid).alias("bid"))
    return highest.select(_start(), "bid.price", "bid.auction", "bid.bidder", F.col("bid.event_time").alias("at"))


def q8(events: DataFrame, _made: NexmarkEvents, ways: Ways) -> DataFrame:
    """New users: people who entered, and the auctions that they opened, in the same window."""
    people = of_kind(events, "person", "person", "name").withColumnRenamed("event_time", "entered")
    auctions = of_kind(events, "auction", "seller", "reserve")
    people, auctions = (
        people.withColumn("window_start", _floor("entered")),
        auctions.withColumn("opened_in", _floor("event_time")),
    )
    keys = [("person", "seller"), ("window_start", "opened_in")]
    new = ways.join(people, auctions, keys, ("entered", "event_time"), (WINDOW, WINDOW))
    return new.select("window_start", "person", "name", "reserve")


def q11(events: DataFrame, _made: NexmarkEvents, ways: Ways) -> DataFrame:
    """User sessions: how often someone bids without a longer pause."""
    session = F.session_window("event_time", f"{GAP} seconds").alias("session")
    counts = ways.split(bids(events)).groupBy(session, "bidder").agg(F.count("*").alias("bids"))
    return counts.select("bidder", "bids", "session.start", "session.end")


def q12(events: DataFrame, _made: NexmarkEvents, ways: Ways) -> DataFrame:
    """Bids of everyone in each window."""
    counts = ways.split(bids(events)).groupBy(_window(), "bidder").agg(F.count("*").alias("bids"))
    return counts.select(_start(), "bidder", "bids")


def _window() -> Column:
    return F.window("event_time", f"{WINDOW} seconds")


def _start() -> Column:
    return F.col("window.start").alias("window_start")


def _floor(time: str) -> Column:
    """The start of the window of a time."""
    return F.timestamp_seconds(F.floor(F.unix_seconds(time) / WINDOW) * WINDOW)


Query = Callable[["DataFrame", "NexmarkEvents", "Ways"], "DataFrame"]

QUERIES: dict[str, Query] = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "q11": q11,
    "q12": q12,
}
