"""`foretide report` over the store of a simulated run."""

import json

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.errors import StoreError
from recorded_run import record


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    record(folder / "checkpoint" / "foretide" / "metrics.db")
    return str(folder)


@pytest.fixture
def call(monkeypatch, tmp_path):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["report", *words])


def test_a_report_is_written_and_the_command_says_where(call, run, tmp_path):
    assert call(run).stdout == "report: foretide-report.html\n"
    assert (tmp_path / "foretide-report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert call(run, "-o", "other.html").exit_code == 0
    assert (tmp_path / "other.html").exists()


def test_figures_are_printed_as_json_without_a_file(call, run, tmp_path):
    (found,) = json.loads(call(run, "--json").stdout)
    assert found["run"] == "shop"
    assert found["summary"]["targets"][0]["record"]["target"]["latency"] == 3.0
    assert len(found["decisions"]) == found["summary"]["decisions"]["changes"]
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "Missing argument 'RUN'"),
        (("{run}", "-o", "report.txt"), 2, "must end in .html or .htm"),
        (("{run}", "-o", "nowhere/report.html"), 2, "the folder 'nowhere' does not exist"),
        (("{run}", "--since", "1s"), 1, "no batch of 'shop' was measured in that time"),
        (("{run}", "--pipeline", "other"), 1, "has no metrics of 'other'; it has: 'shop'"),
        (("nothing.db",), 1, "nothing.db"),
    ],
)
def test_what_cannot_be_reported_on_is_said(call, run, words, code, said, tmp_path):
    result = call(*(word.format(run=run) for word in words))
    assert result.exit_code == code
    assert said in " ".join(result.stderr.split())
    assert not list(tmp_path.glob("*.html"))


def test_an_error_as_json_has_a_kind(call):
    error = json.loads(call("nothing.db", "--json").stdout)["error"]
    assert (error["kind"], error["command"]) == (StoreError.__name__, "report")
