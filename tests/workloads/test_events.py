from collections import Counter

import pytest

from foretide.workloads.tweets import EVENTS, UserEvents

ROWS = UserEvents(seed=1, zipf=1.0).rows(0, 200_000)


def test_events_have_their_shares():
    count = Counter(ROWS["event"].to_pylist())
    assert count.keys() == EVENTS.keys()
    for event, share in EVENTS.items():
        assert count[event] / ROWS.num_rows == pytest.approx(share, rel=0.05)


def test_the_shares_make_a_whole():
    assert sum(EVENTS.values()) == pytest.approx(1)


def test_users_follow_zipf():
    count = Counter(ROWS["user_id"].to_pylist())
    assert max(count) < 5000
    assert count[0] / count[1] == pytest.approx(2, rel=0.05)
    assert count[0] / count[9] == pytest.approx(10, rel=0.1)
