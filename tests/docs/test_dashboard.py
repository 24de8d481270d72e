"""The commands of docs/dashboard.md run as they are written, beside a dashboard in a process of its own."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from dashboard.pipelines import announce_pipeline
from docs.pages import ROOT
from helpers import environment

PAGE = (ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")


@contextmanager
def dashboard_process(*options):
    """`foretide dashboard` on a free port; yields its address."""
    command = [sys.executable, "-m", "foretide", "dashboard", "--port", "0", "--json", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield json.loads(line)["address"]
        finally:
            process.terminate()
    assert process.returncode in {0, -15, 143}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("FORETIDE_HOME", str(home))
    return announce_pipeline(tmp_path, name="url-count", edge="extract")


def test_the_curl_examples_answer(folder):
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    curls = [each for each in commands if each.startswith("curl")]
    assert (len(curls), len(commands)) == (11, 13)
    with dashboard_process() as address:
        for command in curls:
            script = (
                f'TOKEN=$(cat "$FORETIDE_HOME/dashboard.token")\n{command.replace("http://127.0.0.1:8080", address)}'
            )
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=os.environ)
            assert done.stdout, command
            assert '"error"' not in done.stdout, (command, done.stdout)
    assert folder.routes().edges["extract"].shares == (0.5, 0.375, 0.125)
    assert folder.orders.mode() is None
