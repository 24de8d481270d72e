"""An executor that becomes slow within a batch is taken out within it, and copies of its tasks give the same output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("late_batch_story.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    command = [sys.executable, str(STORY), str(tmp_path_factory.mktemp("late"))]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["stateless", "stateful"])
def test_a_slow_executor_is_excluded_within_the_batch_and_copies_of_its_tasks_win(told, kind):
    story = told[kind]
    assert story["chosen"] == [["bypass", "quarantine", "0"]]
    assert "running slowness" in story["reason"]
    assert story["within"] == story["slowed_in"]  # decided before the batch in which it became slow had ended
    assert story["copied"] >= 1
    assert story["won"] >= 1
    assert story["observed"]
    assert story["problems"] == []
    assert story["restarts"] == 0
    assert story["audit"] == []


@pytest.mark.parametrize("kind", ["stateless", "stateful"])
def test_the_output_is_row_for_row_that_of_plain_spark(told, kind):
    story = told[kind]
    assert story["rows"] > 0
    assert (story["missing"], story["surplus"]) == (0, 0)
