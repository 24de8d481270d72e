"""Applications in real-time mode, from Kafka to Kafka: the last update of each result is the truth."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from foretide.apps.app import APPS, find_app
from foretide.topology.modes import REAL_TIME
from foretide.topology.sinks import KafkaSink
from foretide.topology.sources import KafkaSource
from foretide.topology.validate import find_problems
from helpers import environment

STORY = Path(__file__).with_name("real_time_story.py")
NAMES = [
    "url-count", "url-count-sliding", "unique-users", "word-count",
    "twitter-classification", "dns-classification", "log-events", "continuous-queries-scan", "logo-detection",
]  # fmt: skip
ROWS = {"dns-classification": 415, "logo-detection": 54}
"""Of applications whose load is drawn at random, or that do much work for each row."""


@pytest.mark.parametrize("name", NAMES)
def test_every_form_for_real_time_is_a_valid_topology(name):
    topology = find_app(name).real_time.build(KafkaSource("here:9092", "in", "row bigint, due bigint"))
    assert find_problems(topology) == []
    assert list(REAL_TIME.problems(topology, KafkaSink("here:9092"), "at-least-once")) == []


@pytest.mark.spark
@pytest.mark.apart
def test_the_results_in_real_time_are_exactly_the_truth_while_an_edge_is_split_anew(tmp_path, broker):
    command = [sys.executable, str(STORY), str(tmp_path), broker.address]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=1200)
    assert told.returncode == 0, told.stderr[-3000:]
    story = json.loads(told.stdout.splitlines()[-1])
    assert sorted(NAMES) == sorted(name for name in APPS if find_app(name).real_time is not None)
    without = set() if find_spec("cv2") else {"logo-detection"}
    assert set(story) == set(NAMES) - without
    for name, found in story.items():
        rows = ROWS.get(name, 400)
        assert (found["handed_out"], found["missing"], found["surplus"], found["letters"]) == (rows, 0, 0, 0)
        assert found["found_rows"] == found["expected_rows"] > 0
        assert found["in_force"]
