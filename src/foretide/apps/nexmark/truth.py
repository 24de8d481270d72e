"""What the queries of Nexmark must give, worked out from all events in pandas."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from foretide.apps.nexmark.queries import CATEGORY, EUROS, EVERY, GAP, SLIDE, STATES, WINDOW

Frame = pd.DataFrame


def _bids(events: Frame) -> Frame:
    return events.loc[events["kind"] == "bid", ["auction", "bidder", "price", "event_time"]]


def _window_of(times: pd.Series[pd.Timestamp]) -> pd.Series[pd.Timestamp]:
    return times.dt.floor(f"{WINDOW}s").rename("window_start")


def q0(events: Frame) -> Frame:
    """All bids."""
    return _bids(events)


def q1(events: Frame) -> Frame:
    """All bids in another currency."""
    bids = _bids(events)
    return bids.assign(price=bids["price"] * EUROS)


def q2(events: Frame) -> Frame:
    """Bids on some auctions."""
    bids = _bids(events)
    return bids.loc[bids["auction"] % EVERY == 0, ["auction", "price"]]


def q3(events: Frame) -> Frame:
    """Every seller in the category and the states, whenever they entered."""
    people = events[(events["kind"] == "person") & events["state"].isin(STATES)]
    auctions = events[(events["kind"] == "auction") & (events["category"] == CATEGORY)]
    sold = people[["person", "name", "city", "state"]].merge(
        auctions[["auction", "seller"]], left_on="person", right_on="seller"
    )
    return sold[["name", "city", "state", "auction"]]


def q4(events: Frame) -> Frame:
    """The mean of the highest bids while an auction was open, by the window in which it was opened."""
    auctions = events.loc[events["kind"] == "auction", ["auction", "category", "open_ms", "event_time"]]
    offers = auctions.rename(columns={"event_time": "opened"}).merge(_bids(events), on="auction")
    closes = offers["opened"] + pd.to_timedelta(offers["open_ms"], unit="ms")
    valid = offers[(offers["event_time"] >= offers["opened"]) & (offers["event_time"] <= closes)]
    final = valid.groupby([_window_of(valid["opened"]), "auction", "category"])["price"].max()
    means = final.groupby(level=["window_start", "category"]).mean()
    return means.reset_index(name="mean_price")


def q5(events: Frame) -> Frame:
    """The auctions with most bids in each sliding window."""
    bids = _bids(events)
    last = bids["event_time"].dt.floor(f"{SLIDE}s")
    starts = [last - pd.Timedelta(seconds=back) for back in range(0, WINDOW, SLIDE)]
    each = pd.concat([pd.DataFrame({"window_start": start, "auction": bids["auction"]}) for start in starts])
    counts = each.value_counts().reset_index(name="bids")
    return counts[counts["bids"] == counts.groupby("window_start")["bids"].transform("max")]


def q7(events: Frame) -> Frame:
    """The highest bid of each window."""
    bids = _bids(events)
    in_order = bids.sort_values(["price", "auction", "bidder", "event_time"])
    highest = in_order.groupby(_window_of(in_order["event_time"])).tail(1)
    found = highest.rename(columns={"event_time": "at"}).assign(window_start=_window_of(highest["event_time"]))
    return found[["window_start", "price", "auction", "bidder", "at"]]


def q8(events: Frame) -> Frame:
    """People with the auctions of the window in which they entered."""
    window = _window_of(events["event_time"])
    people = events.assign(window_start=window).loc[events["kind"] == "person", ["window_start", "person", "name"]]
    auctions = events.assign(window_start=window).loc[
        events["kind"] == "auction", ["window_start", "seller", "reserve"]
    ]
    new = people.merge(auctions, left_on=["window_start", "person"], right_on=["window_start", "seller"])
    return new[["window_start", "person", "name", "reserve"]]


def q11(events: Frame) -> Frame:
    """The sessions of everyone."""
    bids = _bids(events).sort_values(["bidder", "event_time"])
    pause = bids.groupby("bidder")["event_time"].diff()
    session = (pause.isna() | (pause > pd.Timedelta(seconds=GAP))).cumsum()
    times = bids.groupby([session.rename("session"), "bidder"])["event_time"]
    found = times.agg(bids="size", start="min", end="max").reset_index()
    found["end"] += pd.Timedelta(seconds=GAP)
    return found[["bidder", "bids", "start", "end"]]


def q12(events: Frame) -> Frame:
    """How often everyone bids in a window."""
    bids = _bids(events)
    counts = bids.groupby([_window_of(bids["event_time"]), "bidder"]).size()
    return counts.reset_index(name="bids")


TRUTHS: dict[str, Callable[[Frame], Frame]] = {
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
