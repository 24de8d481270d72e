"""`foretide simulate`, as someone at a terminal meets it."""

import json
import re
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from foretide.cli.plan.simulate import simulate

MODEL = """
[[operator]]
name = "parse"
service_rate = 100
arrivals = 150
processors = 2

[[operator]]
name = "count"
service_rate = 80
processors = 3

[[flow]]
from = "parse"
to = "count"

[micro_batch]
cores = 4
fixed_cost = 0.2

[simulation]
mode = "pipeline"
duration = 20
"""


@pytest.fixture
def run(tmp_path):
    app = typer.Typer()
    app.command()(simulate)

    def call(*options, text=MODEL):
        file = tmp_path / "model.toml"
        file.write_text(text, encoding="utf-8")
        return CliRunner().invoke(app, [str(file), *options])

    return call


def test_the_table_names_operators_and_quantiles(run):
    result = run()
    assert result.exit_code == 0, result.output
    for word in ("parse", "count", "utilization", "p99", "fully processed"):
        assert word in result.stdout


def test_micro_batches_are_summed_up(run):
    result = run(text=MODEL.replace('"pipeline"', '"micro-batch"'))
    assert "batches of" in result.stdout


def test_json_is_all_that_goes_to_stdout(run):
    data = json.loads(run("--json", "--seed", "4").stdout)
    assert data["trees"] == data["completed"] > 2000
    assert {each["name"] for each in data["operators"]} == {"parse", "count"}
    assert data == json.loads(run("--json", "--seed", "4").stdout)
    assert data != json.loads(run("--json", "--seed", "5").stdout)


@pytest.mark.parametrize(("name", "start"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_plots(run, tmp_path, name, start):
    pytest.importorskip("matplotlib")
    assert run("--plot", str(tmp_path / name)).exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(start)


def test_another_ending_is_refused_before_the_run(run, tmp_path):
    result = run("--plot", str(tmp_path / "plot.pdf"))
    assert result.exit_code == 2
    assert ".png or .svg" in result.stderr


def test_without_matplotlib_it_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("--plot", str(tmp_path / "plot.png"))
    assert result.exit_code == 1
    assert "foretide[plot]" in result.stderr


def test_the_guide_runs_as_it_is_printed(run):
    guide = (Path(__file__).parents[3] / "docs" / "simulation.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(toml|python)\n(.*?)```", guide, re.DOTALL))
    assert run(text=blocks["toml"]).exit_code == 0
    exec(compile(blocks["python"], "guide", "exec"), {})


def test_a_bad_model_is_explained_in_full(run):
    result = run(text=MODEL.replace("service_rate = 100", "service_rate = 0").replace("= 80", "= -1"))
    assert result.exit_code == 1
    assert "service_rate is 0" in result.stderr
    assert "service_rate is -1" in result.stderr
