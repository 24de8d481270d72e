"""Commands that end on a signal, on real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from foretide.apps.experiment import _BUSY
from foretide.probes.process import read_stat
from foretide.runtime.shutdown import Interrupted, descendants, end_all, in_session, interruptible, kill_all, within
from foretide.status.pipelines import foretide_home
from helpers import environment, wait_for

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('in', flush=True); time.sleep(600)"
)
COMMAND = """
import os, subprocess, sys, time
from foretide.cli.exits import run_command
from foretide.cli.running.preflight import ended_by_signals
from foretide.runtime.shutdown import descendants, end_all
from foretide.status.pipelines import Running, announce

def run(end):
    announce(Running("shop", os.getpid(), "shop/foretide"))
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        print(child.pid, flush=True)
        time.sleep(600)
    except KeyboardInterrupt as interrupt:
        if end == "hangs":
            print("ending", flush=True)
            time.sleep(600)
        end_all(descendants(os.getpid()), 10)
        interrupt.add_note("the pipeline was stopped after batch 7")
        raise

def command():
    with ended_by_signals():
        run(sys.argv[1])

run_command(command, lambda: "run", as_json="--json" in sys.argv)
"""


def start(code, *arguments, **extra):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), **extra
    )


def is_alive(pid):
    stat = read_stat(pid)
    return stat is not None and not stat.ended


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_ends_with_its_children_a_sentence_and_the_code_of_the_signal(number, code):
    with start(COMMAND, "ends") as command:
        child = int(command.stdout.readline())
        command.send_signal(number)
        _, said = command.communicate(timeout=60)
    assert command.returncode == code
    assert said == f"foretide: interrupted by {number.name}; the pipeline was stopped after batch 7\n"
    assert not is_alive(child)
    assert not list((foretide_home() / "running").glob("*.json"))


def test_with_json_a_signal_is_json_too():
    with start(COMMAND, "ends", "--json") as command:
        command.stdout.readline()
        command.send_signal(signal.SIGTERM)
        printed, _ = command.communicate(timeout=60)
    message = "interrupted by SIGTERM; the pipeline was stopped after batch 7"
    assert json.loads(printed) == {"error": {"kind": "Interrupted", "message": message, "command": "run"}}


def test_a_second_signal_ends_the_command_and_its_children_at_once():
    with start(COMMAND, "hangs") as command:
        child = int(command.stdout.readline())
        command.send_signal(signal.SIGTERM)
        assert command.stdout.readline() == "ending\n"
        command.send_signal(signal.SIGTERM)
        assert command.wait(60) == 143
    assert not is_alive(child)


def test_handlers_are_as_before_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="interrupted by SIGTERM"), interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interrupt_that_spark_has_raised_is_that_of_sigint():
    interrupt = KeyboardInterrupt()
    interrupt.add_note("the pipeline was stopped after batch 3")
    found = Interrupted.of(interrupt)
    assert found.exit_code == 130
    assert str(found) == "interrupted by SIGINT; the pipeline was stopped after batch 3"


def test_processes_that_do_not_end_are_killed():
    with start(STUBBORN) as stubborn:
        assert stubborn.stdout.readline() == "in\n"
        own = {pid: started for pid, started in descendants(os.getpid()).items() if pid == stubborn.pid}
        end_all(own, 0.2)
        assert stubborn.wait(60) == -signal.SIGKILL


def test_a_session_is_found_after_its_leader_was_killed():
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); time.sleep(600)"
    with start(code, start_new_session=True) as leader:
        assert leader.stdout.readline() == "in\n"
        leader.kill()
        leader.wait()
        (left,) = in_session(leader.pid)
        kill_all(in_session(leader.pid))
        wait_for(lambda: not is_alive(left))


def test_a_process_of_a_reused_id_is_left_alone():
    with start(STUBBORN) as other:
        assert other.stdout.readline() == "in\n"
        kill_all({other.pid: 1})
        assert other.poll() is None
        other.kill()


def test_a_call_that_hangs_or_fails_is_not_waited_for():
    forever = threading.Event()
    assert within(10, lambda: None, "nothing")
    assert not within(0.01, forever.wait, "waiting")
    assert not within(10, lambda: 1 / 0, "dividing")
    forever.set()


def test_busy_loops_end_when_their_parent_is_killed():
    code = (
        "import subprocess, sys, os, time\n"
        "hog = subprocess.Popen([sys.executable, '-c', sys.argv[1], str(os.getpid())])\n"
        "print(hog.pid, flush=True)\n"
        "time.sleep(600)"
    )
    with start(code, _BUSY) as parent:
        hog = int(parent.stdout.readline())
        assert is_alive(hog)
        parent.kill()
    wait_for(lambda: not is_alive(hog))
