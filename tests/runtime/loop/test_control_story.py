"""The control loop acts on real executors, and what it did is seen in what Spark reports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("control_story.py")


def test_every_action_is_performed_on_real_executors_and_confirmed_by_what_spark_reports(tmp_path):
    command = [sys.executable, str(STORY), str(tmp_path)]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    story = json.loads(told.stdout.splitlines()[-1])
    assert story["done"] == 8, story
    assert story["workers"]["last"] == ["0"], story
    assert story["state_partitions"] == [2, 3]
    assert story["restarts"] == 1
    assert story["alarms"] == []
    assert [problem for problem in story["problems"] if "worse than the last value" not in problem] == []
    assert (story["lost"], story["doubled"]) == (0, 0)
    assert story["rows"] > 1000
