"""A driver that is killed in the middle of a batch, with a change of plan under way, loses and doubles nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from helpers import environment, wait_for
from spark.join_cases import put_all
from spark.join_crash_app import SHAPE, SLOW

pytestmark = pytest.mark.spark
APP = Path(__file__).with_name("join_crash_app.py")


def notes(folder):
    file = folder / "notes"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def output(folder):
    parts = [pq.read_table(part) for part in sorted((folder / "out").iterdir())]
    return Counter(tuple(row.values()) for part in parts for row in part.to_pylist())


def command(folder, mode):
    return [sys.executable, str(APP), str(folder), mode]


def test_a_kill_in_the_middle_of_a_batch_with_a_change_under_way_loses_and_doubles_nothing(tmp_path):
    put_all(tmp_path / "input", SHAPE, seed=3)
    with (tmp_path / "stdout").open("w") as out:
        calm = subprocess.Popen(command(tmp_path, "plain"), env=environment(), stdout=out, stderr=out)
        doomed = subprocess.Popen(
            command(tmp_path, "killed"), env=environment(), start_new_session=True, stdout=out, stderr=out
        )
        wait_for(lambda: doomed.poll() is not None or (notes(tmp_path) and notes(tmp_path)[-1]["batch"] >= SLOW))
        assert doomed.poll() is None, (tmp_path / "stdout").read_text()[-3000:]
        os.killpg(doomed.pid, signal.SIGKILL)
        doomed.wait()
        assert calm.wait(timeout=120) == 0
        (tmp_path / "control" / "past-join.json").unlink()  # what was not kept has to be read from the join's state
        killed = notes(tmp_path)
        again = subprocess.run(
            command(tmp_path, "again"), env=environment(), check=False, timeout=120, stdout=out, stderr=out
        )
    assert again.returncode == 0, (tmp_path / "stdout").read_text()[-3000:]
    resumed = notes(tmp_path)[len(killed) :]
    assert killed[-1]["changing"], "the kill came too early or too late to say anything"
    assert resumed[0]["batch"] == SLOW, "the batch that was cut off is run again"
    assert resumed[-1]["problem"] is None
    assert resumed[-1]["version"] > killed[-1]["version"] + 1, "the plan went on changing after the restart"
    wanted, found = output(tmp_path / "plain"), output(tmp_path / "ours")
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    assert wanted.total() > 100
