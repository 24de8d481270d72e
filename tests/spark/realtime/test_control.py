"""The control loop on a running real-time pipeline with real executors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("control_story.py")


def test_drs_adds_replicas_a_slow_executor_gets_less_and_replicas_follow_the_load(tmp_path, broker):
    command = [sys.executable, str(STORY), str(tmp_path), broker.address]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    story = json.loads(told.stdout.splitlines()[-1])
    assert story["mode"] == "pipeline"
    assert {"processors", "bypass"} <= set(story["policies"])
    assert story["processors"]["replicas"] >= 2
    assert "the model says" in story["processors"]["reason"]
    assert story["bypass"]["after"] < story["bypass"]["before"] / 2
    assert story["by_load"] >= 2
    assert story["account"] == [0, 0]  # no tuple lost or doubled
    assert story["restarts"] == 0
