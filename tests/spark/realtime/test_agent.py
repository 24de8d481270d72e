"""Reaching executors while tasks run: real ones in a process of their own, the driver in local mode."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from foretide.spark.realtime.agent import Agent, LocalAgent, Reply, open_agent
from foretide.spark.realtime.commands import Answer, Command
from helpers import environment

STORY = Path(__file__).with_name("agent_story.py")
NAMES = ("foretide.test.agent.route", "foretide.test.agent.counts")


@pytest.mark.spark
@pytest.mark.apart
def test_routes_are_in_force_when_every_executor_has_acknowledged_them(tmp_path):
    """In the middle of one batch: tuples sent after an acknowledgement follow the new route, all of them."""
    command = [sys.executable, str(STORY), str(tmp_path)]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    story = json.loads(told.stdout.splitlines()[-1])
    assert story["problem"] is None
    assert story["before"] == 0, "without a live route slot % pool decides"
    assert story["created"] == ["0", "1"]
    assert (story["by_topic"], story["by_job"]) == ([20, 0], [2, 0]), story  # all acknowledged, no tuple elsewhere
    assert story["counted"][1] == story["counted_by_job"][1] == 2
    assert sum(story["counted"][0]) == story["expected"]
    assert min(story["counted"][0]) > 0
    assert sum(story["counted_by_job"][0]) > story["expected"]
    assert story["quarantined"][:2] == [["0"], ["1"]]
    assert "executor 1 was not reached by a job" in story["quarantined"][2]
    assert (story["ended"], story["again"]) == ([True, 0], [True, 0]), "the control query was stopped"
    assert (story["batches"], story["lost"], story["doubled"]) == (0, 0, 0)


def test_the_driver_is_reached_directly_in_local_mode(spark):
    agent = open_agent(spark, "here", "nobody:9092", {}, "/nowhere")
    properties = spark._jvm.java.lang.System.getProperties()
    route, counts = NAMES
    try:
        assert isinstance(agent, LocalAgent)
        agent.start()
        done = agent.set_properties({route: "01\u00c8"})
        assert (set(done.executors), done.missing, done.by_all) == ({"driver"}, frozenset(), True)
        assert properties.getProperty(route) == "01\u00c8"
        assert agent.read_counters([counts]) == {"driver": {}}
        assert agent.create_counters({counts: 3}).by_all
        properties.get(counts).addAndGet(1, 5)
        assert agent.create_counters({counts: 2}).by_all, "those that are there stay"
        assert agent.read_counters([counts, "none"]) == {"driver": {counts: "[0, 5, 0]"}}
        assert (agent.executors().keys(), agent.problem) == ({"driver"}, None)
        agent.close()
    finally:
        for name in NAMES:
            properties.remove(name)


class Scripted(Agent):
    """Executors that answer as the test says."""

    def __init__(self):
        super().__init__()
        self.answering, self.out, self.got = {"0", "1"}, frozenset(), []

    def executors(self):
        return {"0": "a", "1": "b"}

    def unused(self):
        return self.out

    def run(self, command, timeout):
        self.got.append((set(self.answering), dict(command.properties)))
        return {executor: Reply(0.1) for executor in self.answering}


def test_an_executor_that_missed_a_route_gets_it_when_it_answers_again():
    agent = Scripted()
    assert agent.set_properties({"a": "0", "b": "0"}).by_all
    agent.answering = {"0"}
    done = agent.set_properties({"a": "1"})
    assert (done.by_all, done.missing) == (False, {"1"})
    agent.read_counters([])
    assert agent.got[-1] == ({"0"}, {}), "it is still away: nothing is sent"
    agent.answering = {"0", "1"}
    agent.read_counters([])
    assert agent.got[-1] == ({"0", "1"}, {"a": "1", "b": "0"})
    agent.read_counters([])
    assert agent.got[-1] == ({"0", "1"}, {}), "once is enough"


def test_executors_in_quarantine_without_tasks_are_not_waited_for():
    agent = Scripted()
    agent.answering, agent.out = {"0"}, frozenset({"1"})
    assert agent.set_properties({"a": "0"}).by_all


def test_commands_and_answers_are_json():
    command = Command({"route": "0\u00c8"}, {"counts": 4}, ["counts"])
    parts = {"set": {"route": "0\u00c8"}, "create": {"counts": 4}, "read": ["counts"]}
    assert json.loads(command.text("app-1", "7")) == {"application": "app-1", "id": "7", **parts}
    read = [{"key": "counts", "text": "[0, 1]"}, {"key": "none"}]
    text = json.dumps({"id": "7", "executor": "3", "partition": 2, "new": [], "made": [], "read": read})
    assert Answer.of(text) == Answer("7", "3", 2, {"counts": "[0, 1]"})
