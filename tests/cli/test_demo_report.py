"""The report at the end of a demonstration, over recorded runs."""

from pathlib import Path

import pytest

from foretide.cli.console import Console
from foretide.cli.running.demo_report import write_report
from recorded_run import record


@pytest.fixture
def runs(tmp_path):
    for name, policies in (("off", ()), ("on", None)):
        store = tmp_path / name / "checkpoint" / "foretide" / "metrics.db"
        record(store) if policies is None else record(store, policies=policies)
    return {f"control {name}": tmp_path / name for name in ("off", "on")}


def test_both_runs_are_in_the_report_by_their_names_and_its_place_is_said(runs, tmp_path, capsys):
    path = tmp_path / "report.html"
    write_report(runs, path, Console(soft_wrap=True))
    assert f"report: {path} (open it in a browser)" in capsys.readouterr().out
    html = path.read_text(encoding="utf-8")
    assert all(f">{name}</h2>" in html for name in runs)


def test_a_demonstration_without_a_report_says_why_and_goes_on(tmp_path, capsys):
    write_report({"control on": tmp_path}, tmp_path / "report.html", Console(soft_wrap=True))
    assert "no report: " in capsys.readouterr().out
    write_report({"control on": tmp_path}, None, Console(soft_wrap=True))
    assert capsys.readouterr().out == ""
    assert not Path(tmp_path / "report.html").exists()
