"""The likely source of trouble: the first plain explanation that the figures support."""

import pytest

from foretide.metrics.alarm_rules import likely_source
from foretide.metrics.snapshot import Snapshot

SLOW = {
    ("worker_slowness", "1"): 8.4,
    ("worker_slowness", "2"): 2.0,
    ("worker_slowness", "3"): 2.0,
}
SKEWED = {("skew", "count"): 3.1, ("skew", "parse"): 1.0}
FULL = {("capacity", "count"): 0.5, ("capacity", "parse"): 0.93}
CROWDED = {
    ("worker_cpu_wait_percent", "0"): 518.0,
    ("worker_cpu_user_percent", "0"): 36.0, ("worker_cpu_system_percent", "0"): 4.0,
    ("worker_cpu_wait_percent", "1"): 1295.0, ("worker_cpu_user_percent", "1"): 40.0,
}  # fmt: skip
MORE = {("arrival_rate", "lines"): 500.0, ("lag", "lines"): 90.0, ("input_rows_per_second", "app"): 400.0}

SLOW_SAID = "worker 1, which takes 4.2 times as long for the same work as the others"
SKEWED_SAID = "edge 'count', whose fullest replica gets 3.1 times the mean"
FULL_SAID = "operator 'parse', whose busiest replica is busy 93% of the time"
CROWDED_SAID = "a lack of free cores: every worker waits for one 13 times as long as it has one"
MORE_SAID = "spout 'lines', where 500 tuples fall due a second while 400 are taken"


def source(figures, age=0.0):
    return likely_source(Snapshot(1000.0, "app", {key: (value, 1000.0 - age) for key, value in figures.items()}))


@pytest.mark.parametrize(
    ("figures", "said"),
    [(SLOW, SLOW_SAID), (SKEWED, SKEWED_SAID), (CROWDED, CROWDED_SAID), (FULL, FULL_SAID), (MORE, MORE_SAID)],
    ids=["slow worker", "skewed edge", "few free cores", "full operator", "more load"],
)
def test_a_source_is_named_when_the_figures_are_fresh(figures, said):
    assert source(figures) == said
    assert source(figures, age=121.0) is None


def test_the_plainest_explanation_comes_first():
    assert source({**MORE, **FULL, **CROWDED, **SKEWED, **SLOW}) == SLOW_SAID
    assert source({**MORE, **FULL, **SKEWED}) == SKEWED_SAID
    assert source({**MORE, **FULL, **CROWDED}) == CROWDED_SAID
    assert source({**MORE, **FULL}) == FULL_SAID


@pytest.mark.parametrize(
    "harmless",
    [
        {},
        {("worker_slowness", "driver"): 1e9},
        {("worker_slowness", "1"): 3.0, ("worker_slowness", "2"): 2.0},
        {("worker_slowness", "1"): 3.0, ("worker_slowness", "2"): 0.0},
        {**CROWDED, ("worker_cpu_wait_percent", "0"): 79.0},
        {("worker_cpu_wait_percent", "0"): 49.0},
        {("skew", "count"): 2.0},
        {("capacity", "count"): 0.8},
        {**MORE, ("lag", "lines"): 0.0},
        {**MORE, ("arrival_rate", "lines"): 400.0},
        {("arrival_rate", "lines"): 500.0, ("lag", "lines"): 90.0},
        {("arrival_rate", "parse"): 500.0, ("input_rows_per_second", "app"): 400.0},
    ],
)
def test_where_nothing_stands_out_no_source_is_named(harmless):
    assert source(harmless) is None
