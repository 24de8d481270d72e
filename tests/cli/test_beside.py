"""A dashboard beside a run: it answers while the run lasts, and no longer."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from foretide.cli.running import beside
from foretide.cli.running.beside import dashboard_beside
from foretide.dashboard.server import listen
from foretide.errors import EnvironmentNotReadyError
from helpers import environment


def status(address):
    with urllib.request.urlopen(f"{address}/healthz", timeout=60) as answer:
        return answer.status


def test_a_dashboard_answers_at_the_address_that_is_said_until_the_run_ends(monkeypatch):
    said = []
    with listen("127.0.0.1", 0) as taken:
        monkeypatch.setattr(beside, "_PORT", taken.getsockname()[1])
        with dashboard_beside(True, said.append):
            address = said[0].removeprefix("dashboard: ")
            assert status(address) == 200
        with pytest.raises(urllib.error.URLError):
            status(address)


def test_nothing_is_started_unless_it_is_wanted_and_what_is_missing_is_said(monkeypatch):
    said = []

    def missing():
        raise EnvironmentNotReadyError("the dashboard requires nicegui")

    monkeypatch.setattr(beside, "check_installed", missing)
    with dashboard_beside(False, said.append):
        assert said == []
    with dashboard_beside(True, said.append):
        assert said == ["no dashboard: the dashboard requires nicegui"]


def test_it_ends_with_a_run_that_is_killed():
    code = (
        "import time\nfrom foretide.cli.running.beside import dashboard_beside\n"
        "with dashboard_beside(True, lambda said: print(said, flush=True)):\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment()) as run:
        address = run.stdout.readline().strip().removeprefix("dashboard: ")
        assert status(address) == 200
        os.kill(run.pid, 9)
    while True:
        try:
            status(address)
        except OSError:
            break
        time.sleep(0.2)
