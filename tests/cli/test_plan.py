"""`foretide plan FILE`: a table, JSON, and errors on stderr."""

import json

import pytest
from typer.testing import CliRunner

from foretide.cli import app as foretide
from foretide.errors import ForetideError

MODEL = """
[[operator]]
name = "extract"
service_rate = 1.75
arrivals = 13.0
processors = 8

[[operator]]
name = "match"
service_rate = 1.6
processors = 12

[[operator]]
name = "aggregate"
service_rate = 650.0
processors = 2

[[flow]]
from = "extract"
to = "match"

[[flow]]
from = "match"
to = "aggregate"
"""
BATCHES = """
[micro_batch]
cores = 4
fixed_cost = 0.2
task_cost = 0.002
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments, text=MODEL, name="model.toml"):
        file = tmp_path / name
        file.write_text(text)
        return CliRunner().invoke(foretide, ["plan", str(file), *arguments])

    return call


def test_prints_the_allocation_and_why(run):
    result = run("--budget", "22")
    assert result.exit_code == 0
    for what in (
        "extract",
        "10",
        "11",
        "74%",
        "Alternatives with the same number",
        "The bottleneck is extract",
        "split best as 10:11:1",
    ):
        assert what in result.stdout


def test_json_is_the_whole_answer(run):
    answer = json.loads(run("--latency", "1.5s", "--json").stdout)
    assert answer["mode"] == "pipeline"
    assert answer["asked"] == "latency"
    assert answer["allocation"]["expected_total_sojourn"] <= 1.5
    assert {line["name"] for line in answer["operators"]} == {"extract", "match", "aggregate"}
    assert len(answer["alternatives"]) == 3
    assert answer["why"][0].endswith("in all operators.")


def test_infinite_becomes_null(run):
    answer = json.loads(run("--budget", "22", "--json", text=MODEL.replace("processors = 8", "processors = 1")).stdout)
    assert answer["now"] is None


def test_a_measured_snapshot_as_json(run):
    operator = {"name": "a", "service_rate": 10.0, "arrivals": 25.0, "service_scv": 0.4, "arrival_scv": 2.0}
    result = run("--budget", "4", text=json.dumps({"operator": [operator]}), name="snapshot.json")
    assert result.exit_code == 0
    assert "4 processors split best as 4" in result.stdout


def test_micro_batches(run):
    result = run("--budget", "32", text=MODEL + BATCHES)
    assert result.exit_code == 0
    assert "Micro-batches" in result.stdout
    assert "32 cores with" in result.stdout
    assert json.loads(run("--budget", "32", "--json", text=MODEL + BATCHES).stdout)["mode"] == "micro-batch"


@pytest.mark.parametrize(
    ("arguments", "text", "says"),
    [
        (["--budget", "9"], MODEL, "the least that would do is 18"),
        (["--latency", "100ms"], MODEL, "no allocation gets below"),
        ([], MODEL, "needs a budget or a latency"),
        (["--budget", "9"], "operator = 3", "Give tables [[operator]]"),
        (["--budget", "9"], "][", "is not valid TOML"),
        (
            ["--budget", "9"],
            MODEL + '[[flow]]\nfrom = "match"\nto = "extract"\n',
            "the loop through extract, match",
        ),
    ],
)
def test_errors_carry_their_figures(run, arguments, text, says):
    result = run(*arguments, text=text)
    assert isinstance(result.exception, ForetideError)
    assert says in str(result.exception)
    assert result.stdout == ""


def test_an_error_is_printed_once_to_stderr(tmp_path, capsys):
    (tmp_path / "model.toml").write_text(MODEL)
    with pytest.raises(SystemExit) as ended:
        foretide(["plan", str(tmp_path / "model.toml"), "--budget", "9"])
    printed = capsys.readouterr()
    assert ended.value.code == 1
    assert printed.err.count("the least that would do is 18") == 1
    assert printed.out == ""


def test_a_latency_that_is_not_a_duration_is_a_usage_error(run):
    assert run("--latency", "soon").exit_code == 2
    assert json.loads(run("--latency", "1500ms", "--json").stdout)["asked"] == "latency"
