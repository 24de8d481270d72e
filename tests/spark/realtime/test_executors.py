"""Executors that come and go while a pipeline runs in real time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import environment

pytestmark = [pytest.mark.spark, pytest.mark.apart]
STORY = Path(__file__).with_name("executors_story.py")


def test_executors_are_added_and_taken_out_between_batches_and_no_tuple_is_lost_or_doubled(tmp_path, broker):
    """The story waits until an added executor works, and until one that is out does not; the query never ends."""
    command = [sys.executable, str(STORY), str(tmp_path), broker.address]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    story = json.loads(done.stdout.splitlines()[-1])
    assert (story["alone"], story["acknowledged_by_both"], story["acknowledged_without"]) == (1, 2, 2)
    assert story["sent"] > 100
    assert story["once"]
    assert story["restarts"] == 0
    assert [each for each in story["problems"] if "worse than the last value" not in each] == []
