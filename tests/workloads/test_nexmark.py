"""Nexmark's events: proportions, references between people, auctions and bids, hot ones, and times."""

import numpy as np
import pytest

from foretide.workloads.nexmark import CATEGORIES, CYCLE, FIRST_CATEGORY, FIRST_ID, NexmarkEvents

EVENTS = 200_000


@pytest.fixture(scope="module")
def events():
    return NexmarkEvents(seed=3).rows(0, EVENTS).to_pandas()


def of_kind(events, kind):
    return events[events["kind"] == kind]


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_are_bids(events):
    assert events["kind"].value_counts().to_dict() == {"bid": 184_000, "auction": 12_000, "person": 4_000}
    assert list(events["kind"][:5]) == ["person", "auction", "auction", "auction", "bid"]
    assert (events["kind"].to_numpy().reshape(-1, CYCLE) == events["kind"].to_numpy()[:CYCLE]).all()


def test_people_and_auctions_are_numbered_in_turn(events):
    people, auctions = of_kind(events, "person"), of_kind(events, "auction")
    assert (people["person"].to_numpy() == FIRST_ID + np.arange(len(people))).all()
    assert (auctions["auction"].to_numpy() == FIRST_ID + np.arange(len(auctions))).all()


def test_columns_of_other_kinds_are_zero_or_empty(events):
    own = {
        "person": {"person", "name", "email", "credit_card", "city", "state"},
        "auction": {"auction", "seller", "category", "item", "initial_bid", "reserve", "open_ms"},
        "bid": {"auction", "bidder", "price"},
    }
    assert {"kind"}.union(*own.values()) == set(events.columns)
    for kind, columns in own.items():
        rows = of_kind(events, kind).drop(columns="kind")
        filled = {name for name in rows.columns if rows[name].astype(bool).all()}
        assert filled == columns
        assert not rows.drop(columns=[*columns]).astype(bool).any(axis=None)


@pytest.mark.parametrize(
    ("kind", "column", "hot", "share"),
    [("bid", "auction", 0, 1 / 2), ("bid", "bidder", 1, 3 / 4), ("auction", "seller", 0, 3 / 4)],
)
def test_the_hot_ones_have_their_share_and_change_in_turn(events, kind, column, hot, share):
    rows = of_kind(events, kind)
    cycle = rows.index.to_numpy() // CYCLE
    newest = cycle * 3 + 2 if column == "auction" else cycle
    is_hot = rows[column].to_numpy() == FIRST_ID + newest // 100 * 100 + hot
    assert is_hot.mean() == pytest.approx(share, abs=0.03)  # those who are hot are also among all others
    assert rows[column][is_hot].nunique() == newest.max() // 100 + 1


def test_sellers_and_bidders_are_among_the_last_people_or_the_next_few(events):
    for kind, column in (("auction", "seller"), ("bid", "bidder")):
        rows = of_kind(events, kind)
        newest = rows.index.to_numpy() // CYCLE
        behind = newest - (rows[column].to_numpy() - FIRST_ID)
        assert behind.max() == 999
        assert behind.min() == -10
        assert (rows[column] >= FIRST_ID).all()


def test_a_seller_enters_within_the_time_that_is_promised(events):
    made = NexmarkEvents(seed=3)
    auctions = of_kind(events, "auction")
    entered = (auctions["seller"].to_numpy() - FIRST_ID) * CYCLE
    late, early = made.seller_seconds
    since = (auctions.index.to_numpy() - entered) / made.rate
    assert -late <= since.min() < 0 < since.max() <= early


def test_auctions_are_open_for_a_hundred_auctions_on_average(events):
    made = NexmarkEvents(seed=3)
    open_seconds = of_kind(events, "auction")["open_ms"] / 1000
    assert open_seconds.mean() * made.rate / CYCLE * 3 == pytest.approx(100, rel=0.05)
    assert 0 < open_seconds.min() < open_seconds.max() <= made.max_open_seconds


def test_bids_are_on_the_last_auctions_or_the_next_few(events):
    bids = of_kind(events, "bid")
    newest = bids.index.to_numpy() // CYCLE * 3 + 2
    behind = newest - (bids["auction"].to_numpy() - FIRST_ID)
    assert (behind.min(), behind.max()) == (-10, 100)
    assert (bids["auction"] >= FIRST_ID).all()


def test_prices_are_spread_over_all_powers_of_ten(events):
    digits = np.log10(of_kind(events, "bid")["price"])
    assert (digits.min(), digits.max()) == pytest.approx((2, 8), abs=0.01)
    np.testing.assert_allclose(np.histogram(digits, 6)[0] / len(digits), 1 / 6, atol=0.005)


def test_all_categories_occur(events):
    wanted = set(range(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES))
    assert set(of_kind(events, "auction")["category"]) == wanted


def test_without_hot_ones_nobody_stands_out():
    bids = of_kind(NexmarkEvents(seed=3, hot_bidders=1, hot_auctions=1).rows(0, EVENTS).to_pandas(), "bid")
    assert bids["bidder"].value_counts(normalize=True).iloc[0] < 0.002
    assert bids["auction"].value_counts(normalize=True).iloc[0] < 0.002
