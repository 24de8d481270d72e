"""Progress, on a terminal and elsewhere."""

import io
import os
import sys
import time

from foretide.cli import progress
from foretide.cli.console import PlainProgress, progress_bar
from foretide.cli.running import application
from helpers import wait_for


def test_lines_at_growing_intervals_and_none_for_what_is_quick():
    now = 0.0
    stream = io.StringIO()
    shown = PlainProgress("simulating", lambda: now, stream)
    for now in (1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 12.0, 25.0, 26.0, 27.0):
        shown.set_share(now / 40)
        shown.turn()
    assert stream.getvalue().splitlines() == [
        "simulating: 2% after 1 s",
        "simulating: 8% after 3 s",
        "simulating: 15% after 6 s",
        "simulating: 25% after 10 s",
        "simulating: 62% after 25 s",
    ]


def test_work_that_reports_nothing_is_shown_too(capsys, monkeypatch):
    monkeypatch.setattr("foretide.cli.console._FIRST_SECONDS", 0.0)
    said = ""

    def is_said():
        nonlocal said
        said += capsys.readouterr().err
        return "learning: 0% after" in said

    with progress_bar("learning"):
        wait_for(is_said)


def test_what_is_quick_writes_nothing_to_a_file(capsys):
    with progress_bar("learning {} [/]") as report:
        report(0.5)
    assert capsys.readouterr().err == ""


def test_progress_is_said_outside_of_a_terminal(capfd, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_FIRST_SECONDS", 0.0)
    with progress.progress("comparing the output"), application.redirected_stderr(tmp_path / "log"):
        time.sleep(0.2)
    assert "comparing the output ... 0 s\n" in capfd.readouterr().err
    assert (tmp_path / "log").read_text(encoding="utf-8") == ""


def test_progress_on_a_terminal_is_one_line_that_is_erased_at_the_end(monkeypatch):
    ours, theirs = os.openpty()
    monkeypatch.setattr(progress, "_LOOK_SECONDS", 0.01)
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress.progress("starting Spark"):
            said = screen.read(22) + screen.read(1)
        while not said.endswith(b"\x1b[K"):
            said += screen.read(1)
    assert said.startswith(b"\rstarting Spark ... 0 s\r")
    assert b"\n" not in said
