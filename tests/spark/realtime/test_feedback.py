"""Feedback loops and lag in real-time mode, with real topics."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("feedback_story.py")


def test_loops_in_real_time_are_measured_and_one_that_grows_is_stopped(tmp_path, broker):
    command = [sys.executable, str(STORY), str(tmp_path), broker.address]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    story = json.loads(told.stdout.splitlines()[-1])
    assert "feedback has n: string, the loop's entry has n: bigint" in story["misfit"]
    bounded = story["bounded"]
    assert bounded["gain"] == pytest.approx(0.6, abs=0.05)
    assert bounded["read"] == 1510
    assert bounded["lag"] == {"records": 0, "0": 0, "1": 0, "2": 0, "3": 0, "4": 0}
    assert bounded["waiting"] == 0
    assert bounded["slots"] == {"in": 10, "keep": 2, "keep -> keep": 3}
    assert (bounded["running"], bounded["restarts"], bounded["alarms"]) == (True, 0, [])
    assert story["unbounded"]["feedback"] == "grow -> grow"
    assert story["unbounded"]["gain"] > 1
