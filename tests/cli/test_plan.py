"""`foretide plan FILE`: a table, JSON, and errors on stderr."""

import json
import re

import pytest
from typer.testing import CliRunner

from foretide.cli import app as foretide
from foretide.errors import FileError, ForetideError

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
    assert isinstance(result.exception.__cause__, ForetideError)
    assert says in str(result.exception.__cause__)
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [[], ["--budget", "22", "--latency", "2s"]])
def test_a_model_is_planned_for_either_a_budget_or_a_latency(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "either --budget N or --latency DURATION" in " ".join(result.output.split())


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


def test_the_best_is_not_among_the_next_best(run):
    result = run("--budget", "22")
    table = result.stdout.split("Alternatives with the same number")[1]
    assert "extract 10, match 11, aggregate 1" not in table
    assert "extract 11, match 10, aggregate 1" in table
    assert "+0.00%" not in result.stdout


def test_where_nothing_helps_no_operator_is_named(run):
    idle = '[[operator]]\nname = "a"\nservice_rate = 1000\narrivals = 1\n'
    result = run("--budget", "4", text=idle)
    assert "One more processor would make no difference." in result.stdout
    assert "0.00%" not in result.stdout


ODD_FIGURES = re.compile(r"\b(inf|nan|Infinity|NaN)\b|\de[+-]\d\d|\d{6}\.\d+%")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"service_rate = 650.0": "service_rate = 650.0\nservice_scv = 1e6\narrival_scv = 1e6"},
        {"arrivals = 13.0": "arrivals = 1e-9"},
        {"service_rate = 1.75": "service_rate = 1e12", "arrivals = 13.0": "arrivals = 36020"},
        {"service_rate = 1.6": "service_rate = 60", "service_rate = 1.75": "service_rate = 0.0001"},
    ],
)
@pytest.mark.parametrize("batches", ["", BATCHES, BATCHES.replace("0.2", "1e9"), BATCHES + "work_per_row = 1e-9"])
def test_figures_are_for_people(run, changes, batches):
    text = MODEL + batches
    for old, new in changes.items():
        text = text.replace(old, new)
    for options in (["--budget", "200000"], ["--latency", "1000s"]):
        result = run(*options, text=text)
        assert not ODD_FIGURES.search(result.stdout + str(result.exception)), result.stdout
        assert not isinstance(result.exception, ArithmeticError)


def test_nothing_is_cut_at_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "extract_and_normalise"
    result = run("--budget", "22", text=MODEL.replace('"extract"', f'"{name}"'))
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    column = "".join(line[:12].strip() for line in result.stdout.splitlines()[3:6])
    assert name in column


@pytest.mark.parametrize("name", ["[/]", "[/red]", "[bold]"])
def test_a_name_is_not_markup(run, name):
    result = run("--budget", "22", text=MODEL.replace('"extract"', f'"{name}"'))
    assert result.exit_code == 0
    assert name in result.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--budget", "9" * 20], "budget is a number of 20 digits. Give a whole number between 1 and 1,000,000"),
        (["--budget", "1" + "0" * 400], "a number of 401 digits"),
        (["--latency", "1e12s"], "latency is 1000000000000.0. Give seconds"),
        (["--latency", "2000000000"], "between 1e-9 and 1,000,000,000"),
    ],
)
@pytest.mark.parametrize("batches", ["", BATCHES])
def test_a_question_out_of_bounds_is_refused(run, options, says, batches):
    assert says in str(run(*options, text=MODEL + batches).exception)


@pytest.mark.parametrize("latency", ["inf", "nan", "1e400", "1e300s", "-1"])
def test_a_latency_without_end_is_a_usage_error(run, latency):
    assert run("--latency", latency).exit_code == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (MODEL.encode("utf-16"), "is not UTF-8"),
        ('name = "Zürich"'.encode("latin-1"), "is not UTF-8"),
        (b"a = " + b"[" * 20_000, "is nested too deeply"),
        (MODEL.encode() + b"[simulation]\nseed = " + b"9" * 5000, "a number of too many digits"),
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path, content, says):
    (tmp_path / "model.toml").write_bytes(content)
    result = CliRunner().invoke(foretide, ["plan", str(tmp_path / "model.toml"), "--budget", "9"])
    assert isinstance(result.exception.__cause__, ForetideError)
    assert "model.toml" in str(result.exception.__cause__)
    assert says in str(result.exception.__cause__)


@pytest.mark.parametrize("file", ["/dev/zero", "/proc/self/mem"])
def test_a_device_is_not_read(file):
    result = CliRunner().invoke(foretide, ["plan", file, "--budget", "9"])
    assert isinstance(result.exception.__cause__, FileError)
