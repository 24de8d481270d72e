"""A supervisor on small real processes: which ends of a driver it takes for a crash, and what is left of the driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from foretide.control_folder.supervision import SUPERVISOR, read_supervisor
from foretide.errors import DamagedFileError, PipelineFailedError
from foretide.probes.process import read_stat
from foretide.runtime.driver_supervisor import CRASHED, DriverSupervisor, RestartLimits, next_restart
from helpers import environment, wait_for

QUICK = RestartLimits(max_restarts=3, first_wait_seconds=0.01)
DRIVER = """
import os, pathlib, signal, subprocess, sys
runs = pathlib.Path(sys.argv[1], "runs")
ends = sys.argv[2].split(",")
with runs.open("a") as file:
    print(os.getpid(), file=file)
end = int(ends[min(len(runs.read_text().split()), len(ends)) - 1])
if end == -9:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path(sys.argv[1], "left").write_text(str(left.pid))
os.kill(os.getpid(), -end) if end < 0 else sys.exit(end)
"""


def supervisor(folder, *ends, limits=QUICK):
    said = []
    command = [sys.executable, "-c", DRIVER, str(folder), ",".join(map(str, ends))]
    return DriverSupervisor("shop", command, folder, limits, said.append), said


def runs(folder):
    return len((folder / "runs").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("end", [0, 1, 2, 130, 143, -2, -15])
def test_a_driver_that_is_done_refused_or_stopped_stays_ended(tmp_path, end):
    supervised, said = supervisor(tmp_path, end)
    assert supervised.run() == end
    assert runs(tmp_path) == 1
    assert said == []


@pytest.mark.parametrize("end", [-9, -11, CRASHED, 137, 134])
def test_a_driver_that_dies_is_started_again_and_that_is_shown(tmp_path, end):
    supervised, said = supervisor(tmp_path, end, end, 0)
    assert supervised.run() == 0
    assert runs(tmp_path) == 3
    assert len(said) == 2
    status = read_supervisor(tmp_path)
    assert (status.restarts, status.max_restarts, status.pid, status.ended) == (2, 3, os.getpid(), True)
    assert status.last_exit in said[0]
    assert (tmp_path / SUPERVISOR).stat().st_mode & 0o777 == 0o600


def test_a_driver_that_always_dies_is_given_up(tmp_path):
    supervised, said = supervisor(tmp_path, -6)
    with pytest.raises(PipelineFailedError, match="'shop' failed: its driver was killed by SIGABRT, after 3 restarts"):
        supervised.run()
    assert runs(tmp_path) == 4
    assert len(said) == 3


def test_what_a_killed_driver_leaves_is_ended_before_the_next_one_starts(tmp_path):
    supervised, _ = supervisor(tmp_path, -9, 0)
    assert supervised.run() == 0
    left = read_stat(int((tmp_path / "left").read_text(encoding="utf-8")))
    assert left is None or left.ended


def test_waits_double_and_a_healthy_driver_starts_a_new_row():
    limits = RestartLimits(max_restarts=8, first_wait_seconds=1.0, max_wait_seconds=10.0, healthy_seconds=60.0)
    waits, row = [], 0
    while (planned := next_restart(limits, row, 5.0)) is not None:
        row, wait = planned
        waits.append(wait)
    assert waits == [1, 2, 4, 8, 10, 10, 10, 10]
    assert next_restart(limits, row, 60.0) == (1, 1.0)
    assert next_restart(RestartLimits(max_restarts=0), 0, 9999.0) is None


STOPPABLE = """
import pathlib, signal, sys, time
def end(number, frame):
    pathlib.Path(sys.argv[1], "stopped").write_text(str(number))
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, end); signal.signal(signal.SIGINT, end)
pathlib.Path(sys.argv[1], "ready").touch()
time.sleep(600)
"""
SUPERVISOR_COMMAND = """
import pathlib, sys
from foretide.cli.exits import run_command
from foretide.cli.running.preflight import ended_by_signals
from foretide.errors import PipelineFailedError
from foretide.probes.process import read_stat
from foretide.runtime.driver_supervisor import DriverSupervisor, RestartLimits
folder = pathlib.Path(sys.argv[1])
supervisor = DriverSupervisor("shop", [sys.executable, "-c", sys.argv[2], str(folder)], folder, RestartLimits(), print)
def command():
    with ended_by_signals():
        return supervisor.run()

run_command(command, lambda: "run", as_json=False)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_supervisor_stops_the_driver_and_then_the_supervisor(tmp_path, number):
    command = [sys.executable, "-c", SUPERVISOR_COMMAND, str(tmp_path), STOPPABLE]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as running:
        wait_for((tmp_path / "ready").exists)
        wait_for(lambda: read_supervisor(tmp_path) is not None)
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert (tmp_path / "stopped").read_text(encoding="utf-8") == str(int(number))
    assert said == f"foretide: interrupted by {number.name}; the driver was stopped\n"
    assert read_supervisor(tmp_path).ended


def test_a_damaged_status_of_a_supervisor_is_named(tmp_path):
    assert read_supervisor(tmp_path) is None
    for text in ("", "[]", '{"pid": "x"}', "[" * 100_000):
        (tmp_path / SUPERVISOR).write_text(text, encoding="utf-8")
        with pytest.raises(DamagedFileError, match=SUPERVISOR):
            read_supervisor(tmp_path)
    (tmp_path / SUPERVISOR).write_text(json.dumps({"pid": 7, "restarts": 1, "at": time.time()}), encoding="utf-8")
    assert read_supervisor(tmp_path).restarts == 1
