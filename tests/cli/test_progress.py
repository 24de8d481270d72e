"""Progress where stderr is no terminal."""

import io

from foretide.cli.console import PlainProgress, progress_bar
from helpers import wait_for


def test_lines_at_growing_intervals_and_none_for_what_is_quick():
    now = 0.0
    stream = io.StringIO()
    progress = PlainProgress("simulating", lambda: now, stream)
    for now in (1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 12.0, 25.0, 26.0, 27.0):
        progress.set_share(now / 40)
        progress.turn()
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
