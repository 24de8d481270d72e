"""Progress where stderr is no terminal."""

import io

from foretide.cli.console import plain_progress, progress_bar


def test_a_line_from_time_to_time_and_none_for_what_is_quick():
    seconds = iter([0.0, 1.0, 2.5, 3.0, 4.0, 6.0, 10.0, 12.0])
    stream = io.StringIO()
    report = plain_progress("simulating", lambda: next(seconds), stream)
    for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
        report(share)
    assert stream.getvalue().splitlines() == [
        "simulating: 20% after 2 s",
        "simulating: 50% after 6 s",
        "simulating: 70% after 12 s",
    ]


def test_what_is_quick_writes_nothing_to_a_file(capsys):
    with progress_bar("learning {} [/]") as report:
        report(0.5)
    assert capsys.readouterr().err == ""
