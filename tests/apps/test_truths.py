"""What the applications must give, on a few rows whose result one can see."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from foretide.apps import (
    continuous_queries,
    continuous_queries_scan,
    dns_classification,
    log_events,
    taxi_join,
    twitter_branches,
    twitter_classification,
    url_count_sliding,
)
from foretide.apps.app import Load
from foretide.apps.twitter_classification import STOP_WORDS, TOPICS
from foretide.workloads.dns import DnsQueries
from foretide.workloads.logs import LogLines
from foretide.workloads.plates import Plates

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


HEALTH, SPORT = TOPICS["health"], TOPICS["sport"]


def test_a_tweet_is_classified_by_its_words_and_its_author():
    texts = [
        f"{HEALTH[0]} {SPORT[0]} {SPORT[1]}",
        f"{SPORT[0]} {SPORT[0]} {HEALTH[0]}",  # a word counts once, and of equal topics the first one wins
        f"{STOP_WORDS[0]} #{HEALTH[0]} http://example.org/1",
    ]
    tweets = pd.DataFrame({"row": [0, 1, 2], "due": [7, 8, 9], "user": ["user_0", "user_2", "user_99"], "text": texts})
    found = twitter_classification.truth(tweets, LOAD)
    assert found["topic"].tolist() == ["sport", "health", "other"]
    assert found["author"].tolist() == ["agency", "politician", "person"]
    assert twitter_classification.last_classes(tweets)["due"].tolist() == [7, 8, 9]


def test_news_goes_by_its_publisher_and_opinions_by_their_author():
    good, bad = twitter_branches.GOOD[50], twitter_branches.BAD[50]
    texts = [f"{HEALTH[0]} http://example.org/15", f"{good} {bad} {good}", good, bad]
    users = ["user_0", "user_0", "user_1", "user_500"]
    tweets = pd.DataFrame({"row": range(4), "user": users, "text": texts})
    assert list(twitter_branches.truth(tweets, LOAD).itertuples(index=False, name=None)) == [
        (0, "publisher_1", "health", 2),
        (1, "agency", "mixed", 3),
        (2, "newspaper", "good", 2),
        (3, "person", "bad", 1),
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("10.0.0.1 www.site3.example A NOERROR 80", "normal"),
        ("10.0.0.1 www.site3.example A SERVFAIL 80", "failed"),
        ("10.0.0.1 0123456789ab.info A NXDOMAIN 80", "generated"),
        ("10.0.0.1 0123456789ab.info A NOERROR 80", "normal"),
        ("10.0.0.1 abcdefghi012.info A NXDOMAIN 80", "failed"),
        (f"10.0.0.1 {'a' * 30}.t1.example TXT NOERROR 80", "tunnel"),
        (f"10.0.0.1 {'a' * 30}.t1.example A NOERROR 80", "normal"),
    ],
)
def test_a_dns_query_is_of_the_class_of_its_name_and_answer(line, found):
    assert dns_classification.class_of(line)[2] == found


def test_what_the_generator_of_dns_queries_hides_is_found():
    lines = DnsQueries(seed=3, generated=0.1, tunnels=0.05).rows(0, 4000)["line"].to_pylist()
    found = pd.Series([dns_classification.class_of(line)[2] for line in lines]).value_counts(normalize=True)
    assert found["generated"] == pytest.approx(0.1, abs=0.02)
    assert found["tunnel"] == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("node-1 ERROR names.Index: no copy of block 3 after 5 tries", "failure"),
        ("node-1 WARN storage.Writer: slow write of block 3, took 251 ms", "slow"),
        ("node-1 WARN storage.Writer: slow write of block 3, took 250 ms", "usual"),
        ("node-1 INFO storage.Writer: slow write of block 3, took 251 ms", "usual"),
        ("node-1 ", "unreadable"),
        ("", "unreadable"),
    ],
)
def test_a_log_line_is_an_event_by_its_level_and_message(line, found):
    assert log_events.event_of(line)[3] == found


def test_faults_and_cut_lines_are_as_frequent_as_the_generator_was_told():
    lines = LogLines(seed=3, faults=0.3, malformed=0.1).rows(0, 4000)["line"].to_pylist()
    found = pd.Series([log_events.event_of(line)[3] for line in lines]).value_counts(normalize=True)
    assert found["unreadable"] == pytest.approx(0.1, abs=0.02)
    assert found["failure"] == pytest.approx(0.9 * 0.2, abs=0.03)


def test_a_scan_of_the_table_finds_what_the_join_finds():
    passages = Plates(seed=7, speeding=0.3).rows(0, 60)
    batch = passages.append_column("event_time", pa.array(range(60), pa.timestamp("us", tz="UTC")))
    unknown = pa.record_batch({"plate": ["XXX-999"], "speed": [200.0], "event_time": batch["event_time"][:1]})
    batch = pa.Table.from_batches([batch, unknown]).combine_chunks().to_batches()[0]
    (found,) = continuous_queries_scan.query(LOAD.seed)(iter([batch]))
    expected = continuous_queries.truth(batch.to_pandas(), LOAD)
    assert found.to_pandas()[list(expected.columns)].equals(expected.reset_index(drop=True))
    assert found["name"].null_count == 1
    assert len(expected) > 5


def test_an_order_meets_the_free_vehicles_of_its_cell_within_two_seconds():
    orders = pd.DataFrame({"order_id": [1, 2], "cell": [7, 8], "event_time": at(10, 10)})
    positions = pd.DataFrame(
        {
            "vehicle_id": [1, 2, 3, 4, 5],
            "cell": [7, 7, 7, 7, 8],
            "free": [True, True, False, True, True],
            "event_time": at(8, 12, 10, 13, 10),
        }
    )
    pairs = taxi_join.truth({"orders": orders, "positions": positions}, LOAD)
    assert sorted(zip(pairs["order_id"], pairs["vehicle_id"], strict=True)) == [(1, 1), (1, 2), (2, 5)]
