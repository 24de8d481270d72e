"""The example with an edge in the README, saved as it says and run as a process, and the order that it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from docs.pages import ROOT
from foretide.runtime.shutdown import descendants, kill_all
from helpers import environment, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.apart]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROUTED = {0, 3}


def example():
    """The block that the README says is to be saved as `example.py`."""
    blocks = re.findall(r"```python\n(.*?)```", README.partition("Save this as `example.py`")[0], re.DOTALL)
    assert "ft.edge(" in blocks[-1]
    return blocks[-1]


def order():
    """The first command below it."""
    (command,) = re.findall(r"```console\nforetide (route set [^\n]*)\n```", README)
    return shlex.split(command)


def tasks_by_batch(printed):
    """The values of the column `task` in each batch that was printed in full and has rows."""
    *batches, _ = printed.read_text(encoding="utf-8").split("Batch: ")
    found = [
        {int(row.split("|")[-2]) for row in re.findall(r"^\|\s*\d.*\|$", batch, re.MULTILINE)} for batch in batches
    ]
    return [tasks for tasks in found if tasks]


def test_the_example_of_the_readme_follows_a_route_that_another_process_sets_and_ends_cleanly(tmp_path):
    (tmp_path / "example.py").write_text(example(), encoding="utf-8")
    printed, errors = tmp_path / "printed", tmp_path / "errors"
    with printed.open("w") as out, errors.open("w") as err:
        run = subprocess.Popen([sys.executable, "example.py"], cwd=tmp_path, env=environment(), stdout=out, stderr=err)
    try:
        wait_for(lambda: run.poll() is not None or any(tasks - ROUTED for tasks in tasks_by_batch(printed)))
        command = [sys.executable, "-m", "foretide", *order()]
        done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + errors.read_text(encoding="utf-8")
        wait_for(lambda: run.poll() is not None or tasks_by_batch(printed)[-1] <= ROUTED)
        assert run.wait(timeout=600) == 0, errors.read_text(encoding="utf-8")
    finally:
        kill_all(descendants(run.pid))
        run.kill()
    seen = tasks_by_batch(printed)
    assert seen[0] - ROUTED
    assert seen[-1] <= ROUTED
    said = errors.read_text(encoding="utf-8")
    assert "\tat " not in said
    assert "Exception" not in said
