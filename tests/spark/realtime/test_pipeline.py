"""A whole pipeline in real-time mode, from Kafka to Kafka, on real executors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("pipeline_story.py")


def test_a_topology_runs_in_real_time_through_route_changes_and_the_death_of_an_executor(tmp_path, broker):
    command = [sys.executable, str(STORY), str(tmp_path), broker.address]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    story = json.loads(told.stdout.splitlines()[-1])
    assert story["operators"] == ["mark", "numbers", "parse"]
    assert story["service_times"] == ["mark", "numbers", "parse"]
    assert story["latency"]
    assert story["counted"] == {"numbers": "parse", "parse": "mark", "mark": None}
    assert story["in_flight"] == {"parse": 0, "mark": 0}
    taken, emitted = story["mark_rows"]
    assert taken == 2700  # the tens end at the sink
    assert 0.001 <= story["mark_seconds"] < 0.05
    assert story["latencies"] == {"mark": emitted, "parse.sink": 300}
    assert story["acknowledged"] == 20
    assert story["restarts_before"] == 0
    assert story["tens"]
    assert story["marked"]
    assert story["letters"] == {"numbers": 2, "mark": 30}
    assert story["restarts"] >= 1
    assert story["running"]
    assert story["acknowledged_by_the_new_one"]
    assert story["cost"]
    assert all("read again" in message and "written twice" in message for message in story["cost"])
