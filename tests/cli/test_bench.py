"""`foretide bench` with the quickest experiment, and what it refuses."""

import json

import pytest
from typer.testing import CliRunner

from foretide.cli import app

QUICKEST = "drs-overhead"


@pytest.fixture
def call(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    return lambda *words: CliRunner().invoke(app, ["bench", *words])


def test_an_experiment_writes_json_with_raw_samples_and_the_report_and_is_not_run_again(call, tmp_path):
    first = call(QUICKEST, "--quick")
    assert first.exit_code == 0, first.output
    assert "report: artifacts/experiments/report.html" in first.stdout
    folder = tmp_path / "artifacts" / "experiments"
    found = json.loads((folder / f"{QUICKEST}.json").read_text(encoding="utf-8"))
    assert found["error"] is None
    assert found["quick"] is True
    assert len(found["repetitions"]) == 2
    assert all(len(each["samples"]) == len(found["sides"]) + 1 for each in found["repetitions"])
    assert [each["says"] for each in found["claims"]]
    assert f'id="{QUICKEST}"' in (folder / "report.html").read_text(encoding="utf-8")
    assert json.loads(call(QUICKEST, "--quick", "--resume", "--json").stdout) == []


def test_the_list_has_every_experiment_with_its_paper_and_what_spark_cannot_do(call):
    rows = json.loads(call("--list", "--json").stdout)
    assert QUICKEST in {row["experiment"] for row in rows}
    assert {"drs", "pa-sps", "aj-stream", "storm-at-twitter"} <= {row["paper"] for row in rows}
    assert {row["experiment"] for row in json.loads(call("drs", "--list", "--json").stdout)} == {
        row["experiment"] for row in rows if row["paper"] == "drs"
    }
    assert "vertical scaling" in call("--list").stdout


def test_an_unknown_name_is_refused_with_the_one_that_was_meant(call, tmp_path):
    result = call("drs-overhed")
    assert result.exit_code == 1
    assert "did you mean 'drs-overhead'?" in result.stderr
    assert not (tmp_path / "artifacts").exists()


def test_a_folder_that_is_a_file_is_refused_before_anything_runs(call, tmp_path):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    result = call(QUICKEST, "--quick", "--folder", "taken")
    assert result.exit_code == 1
    assert "'taken' cannot be a folder of results" in " ".join(result.stderr.split())


def test_without_the_repository_it_says_to_clone_it(call, monkeypatch):
    monkeypatch.setattr("foretide.cli.bench.find_spec", lambda _: None)
    result = call("--list")
    assert result.exit_code == 1
    assert "clone Foretide's repository" in " ".join(result.stderr.split())
