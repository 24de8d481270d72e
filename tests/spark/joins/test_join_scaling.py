"""An overloaded join gets another executor, and gives it back: Algorithm 3 on real executors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = pytest.mark.spark
STORY = Path(__file__).with_name("join_scaling_story.py")


def tell(folder, kind):
    command = [sys.executable, str(STORY), str(folder), kind]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    return json.loads(told.stdout.splitlines()[-1])


@pytest.mark.apart
def test_a_join_whose_measured_state_is_too_much_for_one_executor_gets_another_one(tmp_path):
    story = tell(tmp_path, "memory")
    assert story["failure"] is None
    assert story["state_bytes"] > 0
    assert story["executors"] == [1, 2], story
    assert story["asked"] == [2]
    assert "is busy: 1 units of cores and memory more, which needs a new session" in story["reasons"][0]
    assert "one more joiner" in story["reasons"][0]
    assert story["joined"] == story["by_spark"]
    assert story["joined"][0] > 0


@pytest.mark.soak  # it needs a core of its own
def test_an_overloaded_join_gets_another_executor_and_gives_it_back_when_all_is_calm(tmp_path):
    story = tell(tmp_path, "cpu")
    assert story["state_bytes"] > 0
    assert story["failure"] is None
    assert story["executors"] == [1, 2, 1], story
    assert story["asked"][0] == 2
    assert story["asked"][-1] == 1
    assert "is busy: 1 units of cores and memory more, which needs a new session" in story["reasons"][0]
    assert "one more joiner" in story["reasons"][0]
    assert story["reasons"][-1] == "all joiners are idle: one fewer"
    assert story["joined"] == story["by_spark"]
    assert story["joined"][0] > 0
