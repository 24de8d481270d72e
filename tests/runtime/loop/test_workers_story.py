"""Slow executors are taken out and let in again, or killed and replaced, and every row is written once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("workers_story.py")


def tell(folder, *names):
    command = [sys.executable, str(STORY), str(folder / "story"), *names]
    home = {"FORETIDE_HOME": str(folder / "home")}
    done = subprocess.run(command, env=environment() | home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return tell(tmp_path_factory.mktemp("workers"), "bypass", "prediction_error", "plain")


@pytest.mark.parametrize(
    ("policy", "out", "back"),
    [
        ("bypass", "slowness", "tries whether it is healthy"),
        ("prediction_error", "is usual", "its hold time is over"),
    ],
)
def test_a_slow_executor_is_taken_out_and_let_in_again_by_the_policy_itself(told, policy, out, back):
    story = told[policy]
    assert out in story["out"]
    assert back in story["back"]
    assert story["worker"] not in story["without"]
    assert story["without"]
    assert story["works"]
    assert (story["each_once"], story["alarms"], story["restarts"]) == (True, [], 0)


def test_executors_of_a_query_without_edges_are_taken_out_let_in_given_back_and_asked_for(told):
    story = told["plain"]
    serving = [workers for workers, _, _ in story["phases"]]
    assert story["worker"] not in serving[0]
    assert [len(workers) for workers in serving] == [1, 2, 1, 2]
    for workers, worked, in_last_batch in story["phases"]:
        assert worked == workers
        assert set(in_last_batch) <= set(workers)
    assert [problem for problem in story["problems"] if "worse than the last value" not in problem] == []
    assert story["each_once"]


def test_where_spark_keeps_no_list_a_slow_executor_is_killed_and_replaced_and_no_row_is_lost(tmp_path):
    story = tell(tmp_path, "replaced")["replaced"]
    assert story["gone"] == [story["worker"]]
    assert len(story["new"]) == 1
    assert story["works"]
    assert any("bad executors are killed and replaced instead" in each for each in story["problems"])
    assert (story["each_once"], story["alarms"], story["restarts"]) == (True, [], 0)
