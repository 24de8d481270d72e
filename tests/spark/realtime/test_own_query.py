"""A real-time query that was started with Spark alone: an edge, and `ft.control`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from foretide.control.world.setup import Setup
from foretide.routing.table import RouteTable
from foretide.runtime.pipeline.followed_real_time import EntryReader
from foretide.runtime.pipeline.query import live_setup
from foretide.spark.realtime.operators import MeteredOperator
from foretide.spark.realtime.plan import is_real_time
from helpers import environment
from spark.realtime.test_reader import Clock, Executors, Query

STORY = Path(__file__).with_name("own_query_story.py")
AGENTS = {"local[8]": "LocalAgent", "local-cluster[2,9,700]": "ControlTopicAgent"}


@pytest.mark.apart
@pytest.mark.parametrize("master", AGENTS)
def test_running_tasks_follow_published_routes_once_a_loop_is_attached(tmp_path, broker, master):
    """In the middle of one batch, on the driver and on executors that are reached through the source's brokers."""
    command = [sys.executable, str(STORY), str(tmp_path), broker.address, master]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    story = json.loads(told.stdout.splitlines()[-1])
    assert (story["at first"], story["without a loop"]) == ([0, 1], [0, 1]), "the ring of the batch"
    assert "has no edge that running tasks follow" in story["refused"]
    assert (story["agent"], story["problem"]) == (AGENTS[master], None)
    assert story["with a loop"] == [2], "what was published before"
    assert all(seconds is not None and seconds < 10 for seconds in story["seconds"]), story["seconds"]
    assert (story["batches"], story["lost"], story["doubled"]) == (0, 0, 0)
    assert story["version"], "the observed version is the published one"
    assert story["counted"]
    assert min(story["per task"]) > 0
    assert story["placed"] == 3
    operators = [["source", None, True], ["work", "work", False], ["last", None, False]]
    assert story["setup"][0] == "pipeline"
    assert sorted(story["setup"][1], key=str) == sorted(operators, key=str)
    assert sorted(story["setup"][2]) == [["source", "work"], ["work", "last"]]
    assert story["known"] == {"arrival_rate": True, "service_time_ms": False, "selectivity": False}
    assert story["alarms"] == []
    assert (story["closed"], story["left"], story["route left"], story["ended"]) == (True, [], None, True)


def test_only_entries_are_known_of_an_operator_without_an_exit():
    executors, clock = Executors("1", "2"), Clock()
    operators = [MeteredOperator(name, 2, name) for name in ("in", "parse")]
    reader = EntryReader(frozenset({"in"}), Query(), operators, "k", executors.read, clock=clock)
    executors.did("1", "in", 0, 30, 0)
    executors.did("2", "parse", 1, 20, 0)
    clock.now += 1
    (report,) = reader.reports()
    assert report.input_rows == 30
    assert {(run.operator, run.task, run.worker, run.rows_in) for run in report.tasks} == {
        ("in", 0, "1", 30),
        ("parse", 1, "2", 20),
    }
    assert {(run.known, run.timed) for run in report.tasks} == {("entries", False)}
    assert report.edges["parse"].per_task == (0, 20)


def test_edges_without_a_route_cannot_be_changed():
    class Cluster:
        cores, range, can_quarantine = 4, None, True

    routes = RouteTable().declare("work", 3)
    setup = live_setup("q", "source", {"work": 3, "last": 1}, [("source", "work"), ("work", "last")], routes, Cluster())
    assert isinstance(setup, Setup)
    assert [(part.name, part.pool, part.edge) for part in setup.operators] == [
        ("source", 4, None),
        ("work", 3, "work"),
        ("last", 1, None),
    ]
    assert (setup.mode, setup.executors) == ("pipeline", None)


def test_a_query_whose_jvm_cannot_be_asked_is_taken_for_micro_batches():
    assert not is_real_time(Query())
