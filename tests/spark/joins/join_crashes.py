"""Killing the application of `join_crash_app`, and reading what it noted and committed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from foretide.joins.placement.timeline import from_json
from helpers import environment, multiset

APP = Path(__file__).with_name("join_crash_app.py")


@contextlib.contextmanager
def doomed(folder, mode):
    """The application in a process of its own; it, and all that it started, is killed at the end of the block.

    The block gets a function that tells whether it is still alive. It has to be until then.
    """
    log = folder / "stdout"
    command = [sys.executable, str(APP), str(folder), mode]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment(), start_new_session=True, stdout=out, stderr=out)
    try:
        yield lambda: process.poll() is None
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def notes(folder):
    file = folder / "notes"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def output(spark, folder, batch="*"):
    """What was committed, by one batch or by all of them."""
    return multiset(spark.read.parquet(str(folder / "out" / str(batch))))


def committed(folder, batch):
    """Whether a batch was committed; offsets are written before it begins."""
    assert (folder / "checkpoint" / "offsets" / str(batch)).exists(), "it has not begun"
    return (folder / "checkpoint" / "commits" / str(batch)).exists()


def plan_read(folder, batch):
    """The plan that a batch has read, of those that are slow enough to be watched."""
    return from_json((folder / f"plan-{batch}.json").read_text())
