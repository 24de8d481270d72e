"""A history that was handed in makes the loop act before the load comes; without one it acts after it."""

import json
import subprocess
import sys

import pytest


@pytest.mark.spark
@pytest.mark.apart
def test_replicas_are_added_before_a_load_that_the_history_knows_and_after_it_without(tmp_path):
    command = [sys.executable, "-m", "foretide", "demo", "foresight", "--waves", "3", "--json"]
    plot = tmp_path / "foresight.png"
    done = subprocess.run([*command, "--plot", str(plot)], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    off, on = json.loads(done.stdout)
    assert [side["rows_lost"] for side in (off, on)] == [0, 0]
    sooner = [each for each in on["increases"] if each.get("foreseen") and each["at"] < each["rise"]]
    assert sooner, (on, done.stderr)
    assert all("are expected" in each["reason"] for each in sooner)
    assert not any(each.get("foreseen") for each in off["increases"])
    before = {each["rise"] for each in off["increases"] if "at" in each and each["at"] < each["rise"] - 8}
    assert {each["rise"] for each in sooner} - before, off  # a busy machine may look like more load for a while
