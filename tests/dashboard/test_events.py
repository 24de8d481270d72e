"""The events of a pipeline: what a client is told of, and that it is told once."""

import json
import time

import pytest

from dashboard.pipelines import announce_pipeline
from foretide.control.actions.registry import SetSplit
from foretide.control.decisions.decision import Decision, Wish
from foretide.dashboard.events import Follower
from foretide.dashboard.reading import Reader
from foretide.metrics.metric import Sample
from foretide.status.pipelines import default_store
from foretide.status.sources import Sources
from foretide.store.metric_store import MetricStore


class Watching:
    """A client that follows a pipeline, of which things become known."""

    def __init__(self, folder, *, decided):
        made = announce_pipeline(folder, decided=decided)
        self.sources = Sources()
        self.follower = Follower(Reader(self.sources), "shop")
        self.store = MetricStore.open(default_store(made.location, "shop"))

    def decide(self, *numbers, acted=True):
        wish = Wish("bypass", SetSplit("work", (1.0, 1.0, 1.0)), "worker 1 is slow")
        chosen = (wish,) if acted else ()
        made = [Decision(n, time.time(), "shop", wishes=(wish,), chosen=chosen) for n in numbers]
        self.store.write_decisions("shop", made)

    def measure(self):
        self.store.write("shop", [Sample("batch", "shop", time.time(), 8.0)])

    def told(self):
        """The kinds of the new events, with the numbers of decisions."""
        self.sources._cache.clear()
        lines = [event.strip().split("\n") for event in self.follower.news()]
        kinds = [kind.removeprefix("event: ") for kind, _ in lines]
        data = [json.loads(text.removeprefix("data: ")) for _, text in lines]
        return [each["id"] if kind == "decision" else kind for kind, each in zip(kinds, data, strict=True)]

    def close(self):
        self.store.close()
        self.sources.close()


@pytest.fixture
def watch(tmp_path):
    made = []

    def start(*, decided=True):
        made.append(Watching(tmp_path, decided=decided))
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_the_first_decision_of_a_pipeline_is_told(watch):
    client = watch(decided=False)
    assert client.told() == ["overview"]
    client.decide(1)
    assert 1 in client.told()


def test_decisions_from_before_a_client_came_are_not_told(watch):
    client = watch()
    assert client.told() == ["overview"]
    client.measure()
    assert client.told() == ["overview"]


def test_each_decision_is_told_once_also_one_that_changed_nothing(watch):
    client = watch()
    client.told()
    client.decide(6, acted=False)
    assert client.told() == [6]
    client.measure()
    assert client.told() == ["overview"]
    client.decide(7)
    client.measure()
    assert client.told() == ["overview", 7]
    assert client.told() == []


def test_none_of_many_decisions_between_two_looks_is_lost(watch):
    client = watch()
    client.told()
    client.decide(*range(6, 136))
    assert client.told() == list(range(6, 136))
    assert client.told() == []
