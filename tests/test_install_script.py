"""What `make` shows while pip installs: how it gets on, and pip's own output only if it fails."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "install.sh"


def install(code):
    return subprocess.run(["sh", SCRIPT, "sh", "-c", code], capture_output=True, text=True, check=False)


def test_it_says_at_once_that_something_is_done_and_hides_what_pip_says():
    done = install("sleep 1; echo Collecting numpy; echo noise")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("  installing, 0 s: preparing\n")
    assert "noise" not in done.stdout


def test_a_failure_shows_what_pip_said_and_keeps_its_exit_code():
    done = install("sleep 1; echo no such package; exit 3")
    assert done.returncode == 3
    assert "no such package" in done.stderr
