"""Giving executors back: none is removed while the running batch may read what its tasks have written there."""

import time

import pytest

from foretide.spark import executors
from foretide.spark.executors import Executors


class Listed:
    """The exclusion list, as a set."""

    def __init__(self):
        self.out = set()

    def put(self, executor, host):
        self.out.add(executor)

    def release(self, executor):
        self.out.discard(executor)

    def executors(self):
        return frozenset(self.out)


class Cluster(Executors):
    """Three executors of a cluster manager that does as it is told."""

    def __init__(self, exclusions):
        self._list, self.can_resize, self.limits = exclusions, True, []
        self._leaving, self._removed, self._seen = {}, set(), 3
        self.allow(1)
        self.live, self.asked, self.calm = {"0": "a", "1": "a", "2": "b"}, None, False

    def executors(self):
        return dict(self.live)

    def _runs_nothing(self):
        return self.calm

    def _kill(self, gone):
        self.live = {executor: host for executor, host in self.live.items() if executor not in gone}

    def _ask_for(self, count):
        self.asked = count


def test_an_executor_that_is_given_back_is_removed_after_the_first_batch_without_it():
    cluster = Cluster(Listed())
    cluster.resize(2)
    assert set(cluster.live) == {"0", "1", "2"}
    assert cluster._list.out == {"2"}
    assert cluster.quarantined() == frozenset()  # it is not one that a policy may let in again
    cluster.remove_idle(frozenset({"0", "1"}), time.time() - 60)  # a batch from before
    cluster.remove_idle(frozenset({"0", "2"}), time.time() + 1)  # a batch that it worked in
    assert set(cluster.live) == {"0", "1", "2"}
    cluster.remove_idle(frozenset({"0", "1"}), time.time() + 1)
    assert set(cluster.live) == {"0", "1"}
    assert cluster.asked == 2


def test_spark_is_asked_once_to_remove_an_executor_that_takes_its_time(monkeypatch):
    cluster, asked = Cluster(Listed()), []
    monkeypatch.setattr(cluster, "_kill", asked.append)  # it lives on for some seconds
    cluster.resize(2)
    for _ in range(3):
        cluster.remove_idle(frozenset({"0", "1"}), time.time() + 1)
    assert asked == [["2"]]


def test_one_that_is_wanted_again_stays():
    cluster = Cluster(Listed())
    cluster.resize(1)
    cluster.resize(2)
    assert cluster._list.out == {"2"}
    cluster.resize(3)
    assert cluster._list.out == set()
    cluster.remove_idle(frozenset(), time.time() + 1)
    assert (set(cluster.live), cluster.asked) == ({"0", "1", "2"}, 3)


def test_quarantined_ones_go_first():
    cluster = Cluster(Listed())
    cluster.take_out("0")
    cluster.resize(2)
    cluster.remove_idle(frozenset({"1", "2"}), time.time() + 1)
    assert set(cluster.live) == {"1", "2"}


def test_without_batches_it_is_removed_after_a_while(monkeypatch):
    cluster = Cluster(Listed())
    cluster.resize(2)
    now = time.time()
    monkeypatch.setattr(executors.time, "time", lambda: now + 61)
    cluster.remove_idle(frozenset({"2"}), 0.0)
    assert set(cluster.live) == {"0", "1"}


def test_while_nothing_runs_it_is_removed_at_once():
    cluster = Cluster(Listed())
    cluster.calm = True
    cluster.resize(1)
    assert (set(cluster.live), cluster.asked) == ({"0"}, 1)


def test_without_the_exclusion_list_it_is_removed_at_once():
    cluster = Cluster(None)
    cluster.resize(2)
    assert (set(cluster.live), cluster.asked) == ({"0", "1"}, 2)


@pytest.mark.parametrize(("least", "most", "allowed"), [(1, None, (1, 3)), (2, 8, (2, 8)), (5, None, (5, 5))])
def test_the_range_is_up_to_what_there_has_been_unless_a_maximum_is_given(least, most, allowed):
    cluster = Cluster(Listed())
    cluster.allow(least, most)
    assert cluster.allowed == cluster.range == allowed


def test_there_is_no_range_where_the_number_cannot_be_changed():
    cluster = Cluster(Listed())
    cluster.can_resize = False
    assert cluster.range is None
