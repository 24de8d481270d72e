"""The tasks of the detector agree on the maximal frequent patterns, however late they hear of each other."""

from __future__ import annotations

from collections import Counter

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from foretide.apps import frequent_patterns
from foretide.apps.app import Load
from foretide.apps.pattern_detector import Detector, itemsets

TRANSACTIONS = st.lists(st.sets(st.sampled_from("abcde"), max_size=4).map(lambda items: " ".join(sorted(items))))


def maximal_of(window, threshold):
    """By the definition: more occurrences than the threshold, and no superset has as many."""
    counts = Counter(itemset for items in window for itemset in itemsets(items))
    frequent = [itemset for itemset, count in counts.items() if count > threshold]
    return {each for each in frequent if not any(set(each.split()) < set(other.split()) for other in frequent)}


class Tasks:
    """Some detectors, and the announcements that each of them has not heard yet."""

    def __init__(self, count, threshold):
        self.detectors = [Detector(threshold) for _ in range(count)]
        self.on_their_way = [Counter() for _ in range(count)]
        self.balance = Counter()

    def turn(self, task, counted):
        heard, self.on_their_way[task] = self.on_their_way[task], Counter()
        before = Detector.from_json(self.detectors[task].to_json())
        assert before == self.detectors[task]
        changes = before.take(counted, heard)
        self.detectors[task] = before
        self.balance.update(changes)
        for waiting in self.on_their_way:
            waiting.update(changes)
        return changes


@given(TRANSACTIONS, st.integers(1, 6), st.integers(0, 2), st.integers(1, 3), st.randoms(use_true_random=False))
def test_when_all_have_heard_everything_exactly_the_maximal_patterns_are_announced(
    transactions, window, threshold, count, random
):
    tasks = Tasks(count, threshold)
    waiting = [Counter() for _ in range(count)]
    for place, items in enumerate(transactions):
        leaving = transactions[place - window] if place >= window else ""
        for change, moved in ((1, items), (-1, leaving)):
            for itemset in itemsets(moved):
                waiting[len(itemset) * 7 % count][itemset] += change
        task = random.randrange(count)
        tasks.turn(task, waiting[task])
        waiting[task] = Counter()
    for _ in range(10):
        for task in range(count):
            tasks.turn(task, waiting[task])
            waiting[task] = Counter()
    assert not any(tasks.turn(task, {}) for task in range(count))
    assert {itemset for itemset, n in tasks.balance.items() if n} == maximal_of(transactions[-window:], threshold)
    assert set(tasks.balance.values()) <= {0, 1}


def test_a_larger_pattern_hides_a_smaller_one_until_it_is_rare_again():
    detector = Detector(threshold=1)
    assert detector.take({"a": 3}, {}) == {"a": 1}
    assert detector.take({}, {"a": 1, "a b": 1}) == {"a": -1}
    assert detector.take({}, {"a": -1}) == {}
    assert detector.take({}, {"a b": -1}) == {"a": 1}
    assert detector.take({"a": -2}, {"a": 1}) == {"a": -1}


def test_the_window_is_the_papers_where_the_load_fills_it_twice_and_half_the_load_otherwise():
    assert frequent_patterns.window_of(Load(seconds=320, rate=320)) == 50_000
    assert frequent_patterns.window_of(Load(seconds=40, rate=320)) == 6400
    assert frequent_patterns.window_of(Load(seconds=1, rate=1)) == 1


def test_the_truth_is_that_of_the_last_window():
    load = Load(seconds=8, rate=100)  # a window of 400, in which an itemset is frequent with 3 occurrences
    items = ["x y"] * 500 + ["a b c"] * 2 + ["a b"] + ["c d"] * 2 + [""] * 395
    found = frequent_patterns.truth({"entering": pd.DataFrame({"items": items})}, load)
    assert sorted(found["itemset"]) == ["a b", "c"]
