"""Guarantees, shown by killing the driver (SIGKILL) in the middle of batches and starting again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from helpers import environment, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.apart]
APPS = Path(__file__).with_name("crash_apps.py")
ROWS, A_BATCH, HOPS = 600, 100, 3


def lines(file):
    return Counter(int(line) for line in file.read_text().split()) if file.exists() else Counter()


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """What was left after a kill with all pipelines in the middle of a batch, and what was there at the end."""
    names = ["exactly-once", "at-least-once", "at-most-once", "loop"]
    folder = tmp_path_factory.mktemp("crash")
    command = [sys.executable, str(APPS), str(folder)]
    with (folder / "stdout").open("w") as out:
        before = crash(folder, names, command, out)
        assert not (folder / "finished").exists()
        (folder / "go").touch()
        subprocess.run(command, env=environment(), check=True, stdout=out, stderr=out)
    assert (folder / "finished").exists()
    return folder, before


def crash(folder, names, command, out):
    first = subprocess.Popen(command, env=environment(), start_new_session=True, stdout=out, stderr=out)
    try:
        waiting = [folder / f"{name}.waiting" for name in names[:3]]
        wait_for(lambda: first.poll() is not None or all(file.exists() for file in waiting))
        assert first.poll() is None, (folder / "stdout").read_text()[-2000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    wait_until_still(folder, names)
    return {name: lines(folder / f"{name}.log") for name in names}


def wait_until_still(folder, names):
    """Python workers outlive their killed JVM by a moment."""
    sizes = None
    while sizes != (sizes := [(folder / f"{name}.log").stat().st_size for name in names]):
        time.sleep(1.5)


def output(folder, name):
    return Counter(int(line) for line in (folder / f"{name}.csv").read_text().split()[1:])


def test_exactly_once_commits_every_tuple_once_though_some_were_worked_on_twice(crashed):
    folder, before = crashed
    assert output(folder, "exactly-once") == Counter(range(ROWS))
    worked_on = lines(folder / "exactly-once.log")
    assert set(worked_on) == set(range(ROWS))
    assert max(worked_on.values()) == 2  # the batch that was cut off was replayed
    assert before["exactly-once"].total() < ROWS


def test_at_least_once_works_on_every_tuple_and_on_some_twice(crashed):
    folder, _ = crashed
    worked_on = lines(folder / "at-least-once.log")
    assert set(worked_on) == set(range(ROWS))
    assert max(worked_on.values()) == 2
    printed = (folder / "stdout").read_text()
    assert all(f"|{value}" in printed.replace(" ", "") for value in (0, 299, ROWS - 1))


def test_at_most_once_works_on_no_tuple_twice_and_drops_only_what_was_under_way(crashed):
    folder, before = crashed
    worked_on = lines(folder / "at-most-once.log")
    assert max(worked_on.values()) == 1
    dropped = set(range(ROWS)) - set(worked_on)
    assert 0 < len(dropped) < A_BATCH
    kept = output(folder, "at-most-once")
    assert max(kept.values()) == 1
    lost = set(range(ROWS)) - set(kept)
    assert lost - dropped <= set(before["at-most-once"])  # worked on, but its batch was never committed
    assert len({value // A_BATCH for value in lost}) == 1  # all of them in the one batch that was cut off


def test_a_feedback_loop_is_exactly_once_across_the_kill(crashed):
    folder, _ = crashed
    assert output(folder, "loop") == Counter(range(ROWS))
    assert all(times >= HOPS for times in lines(folder / "loop.log").values())
