"""What the applications must give, on a few rows whose result one can see."""

from __future__ import annotations

import pandas as pd

from foretide.apps import url_count_sliding
from foretide.apps.app import Load

LOAD = Load()


def at(*seconds):
    return pd.to_datetime(list(seconds), unit="s", utc=True)


def test_a_request_is_in_every_window_of_the_past_two_minutes():
    lines = ["1 1.0 http://a -", "2 1.0 http://a -", "3 1.0 http://b -", "4 1.0 -"]
    requests = pd.DataFrame({"event_time": at(1000, 1014, 1015, 1015), "line": lines})
    counts = url_count_sliding.truth(requests, LOAD)
    expected = {
        (start, url): sum(start <= second < start + 120 for second in seconds)
        for url, seconds in {"http://a": [1000, 1014], "http://b": [1015]}.items()
        for start in range(0, 2000, 15)
    }
    found = {
        (start.timestamp(), url): n
        for start, url, n in zip(counts["window_start"], counts["url"], counts["requests"], strict=True)
    }
    assert found == {key: count for key, count in expected.items() if count}
    at_once = requests.assign(due=[int(time.timestamp() * 1e6) for time in requests["event_time"]])
    updates = url_count_sliding.last_counts(at_once)
    assert updates[updates["url"] != "malformed"].sort_values(["url", "window_start"])["requests"].tolist() == [
        found[key] for key in sorted(found, key=lambda key: key[::-1])
    ]
    assert (updates["url"] == "malformed").sum() == 8
