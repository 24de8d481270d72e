"""`foretide simulate`, as someone at a terminal meets it."""

import json
import re
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from foretide.cli import app
from foretide.cli.simulate import simulate
from foretide.errors import EnvironmentNotReadyError, ForetideError, IdleNetworkError, ModelError

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
    for word in ("parse", "count", "busy", "p99", "fully processed"):
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
    assert isinstance(result.exception, EnvironmentNotReadyError)
    assert "foretide[plot]" in str(result.exception)


def test_the_guide_runs_as_it_is_printed(run):
    guide = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(toml|python)\n(.*?)```", guide, re.DOTALL)
    plain, controlled = [text for kind, text in blocks if kind == "toml"]
    assert run(text=plain).exit_code == 0
    [options] = re.findall(r"foretide simulate query.toml (--policies .*)", guide)
    result = run(*options.split(), text=controlled)
    assert result.exit_code == 0, result.output
    shown = re.search(r"^Simulated.*?^Decisions", guide, re.DOTALL | re.MULTILINE)[0].split()
    assert result.stdout.split()[: len(shown)] == shown
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, "guide", "exec"), {})


def test_a_bad_model_is_explained_in_full(run):
    result = run(text=MODEL.replace("service_rate = 100", "service_rate = 0").replace("= 80", "= -1"))
    assert isinstance(result.exception, ModelError)
    assert "service_rate is 0" in str(result.exception)
    assert "service_rate is -1" in str(result.exception)


CONTROLLED = (
    MODEL.replace("processors = 3", "processors = 3\npool = 6")
    + """
curve = [[0, 0.5], [10, 1.0]]

[[simulation.slow_worker]]
operator = "count"
replica = 1
factor = 5
start = 4
"""
)


def test_policies_run_the_control_loop_beside_the_same_without_control(run):
    result = run("--policies", "bypass,replicas", "--latency", "2s", "--period", "1s", text=CONTROLLED)
    assert result.exit_code == 0, result.output
    for word in (
        "bypass, replicas",
        "no control",
        "latency p99",
        "mean executors",
        "Decisions",
        "replicas behind edge",
    ):
        assert word in result.stdout


def test_a_controlled_run_as_json(run):
    options = ("--policies", "bypass, replicas", "--set", "guards.cooldown=5", "--json", "--seed", "3")
    data = json.loads(run(*options, text=CONTROLLED).stdout)
    assert data["policies"] == ["bypass", "replicas"]
    assert data["controlled"]["latency_p99_s"] > 0
    assert data["uncontrolled"]["actions"] == 0
    assert len(data["decisions"]) > 0
    assert data == json.loads(run(*options, text=CONTROLLED).stdout)


def test_the_static_policy_changes_nothing(run):
    data = json.loads(run("--policies", "static", "--json", text=CONTROLLED).stdout)
    assert data["controlled"] == data["uncontrolled"]
    assert data["decisions"] == []


@pytest.mark.parametrize(
    ("options", "text", "says"),
    [
        (["--policies", "nope"], CONTROLLED, "nope"),
        (
            ["--policies", "static"],
            CONTROLLED.replace("[micro_batch]\ncores = 4\nfixed_cost = 0.2", ""),
            "[micro_batch]",
        ),
        (["--policies", "static"], CONTROLLED.replace("processors = 2\n", ""), "operator 'parse': has no workers"),
        (["--policies", "static"], CONTROLLED + "[simulation.routes]\ncount = [1, 2]", "routes cannot be combined"),
        (
            ["--policies", "static"],
            CONTROLLED.replace("replica = 1", "replica = 9"),
            "worker 9 of count",
        ),
        (["--policies", "static"], CONTROLLED.replace("duration = 20", "duration = 20\nwarm_up = 30"), "warm-up is 30"),
    ],
)
def test_what_cannot_be_controlled_is_refused(run, options, text, says):
    result = run(*options, text=text)
    assert isinstance(result.exception, ForetideError)
    assert says in str(result.exception)


@pytest.mark.parametrize("options", [["--latency", "2s"], ["--policies", "static", "--plot", "run.png"]])
def test_options_that_do_not_go_together_are_refused(run, options):
    assert run(*options, text=CONTROLLED).exit_code == 2


def test_a_latency_that_is_not_a_duration_is_a_usage_error(tmp_path):
    (tmp_path / "model.toml").write_text(CONTROLLED)
    arguments = ["simulate", str(tmp_path / "model.toml"), "--policies", "static", "--latency", "soon"]
    assert CliRunner().invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize("name", [".", "folder.png", "n" * 300 + ".png", "nowhere/plot.png", "plot.doc"])
def test_a_plot_that_cannot_be_written_is_refused_before_the_run(run, tmp_path, monkeypatch, name):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr("foretide.cli.simulate.run_scenario", lambda *_: pytest.fail("the run was started"))
    result = run("--plot", name)
    assert result.exit_code == 2
    assert "Invalid value for --plot" in result.stderr


@pytest.mark.parametrize("change", [("arrivals = 150", "arrivals = 0"), ("duration = 20", "curve = [[0, 0.0]]")])
@pytest.mark.parametrize("options", [[], ["--policies", "static"]])
def test_nothing_to_simulate_is_refused_as_by_plan(run, change, options):
    assert isinstance(run(*options, text=MODEL.replace(*change)).exception, IdleNetworkError)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("arrivals = 150", "arrivals = 1e7"), "arrivals"),
        (("duration = 20", "duration = 1e6"), "duration"),
        (("arrivals = 150", "arrivals = 1e9"), "arrivals"),
        (('to = "count"', 'to = "count"\ngain = 1e5'), "gain"),
        (("duration = 20", "duration = 1e308"), "duration"),
        (("processors = 2", "processors = 9223372036854775808"), "processors"),
        (("duration = 20", "duration = 5e-324"), "duration"),
        (("duration = 20", "duration = 20\n[simulation.routes]\nparse = [1e308, 1e308]"), "parse"),
    ],
)
def test_a_simulation_without_end_is_refused_at_once_with_the_field_to_change(run, change, field):
    text = MODEL.replace("service_rate = 100", "service_rate = 1e6").replace("service_rate = 80", "service_rate = 1e6")
    result = run(text=text.replace(*change))
    assert isinstance(result.exception, ModelError)
    assert field in str(result.exception)


def test_an_empty_batch_for_each_row_counts_too(run):
    slow = MODEL.replace('"pipeline"', '"micro-batch"').replace("fixed_cost = 0.2", "fixed_cost = 0")
    result = run(
        text=slow.replace("arrivals = 150", "arrivals = 50000").replace("service_rate = 80", "service_rate = 1e5")
    )
    assert "tuples, tasks and batches would be simulated" in str(result.exception)


@pytest.mark.parametrize("name", ["[/]", "[/red]"])
def test_a_name_is_not_markup(run, name):
    for options in ([], ["--policies", "static"]):
        result = run(*options, text=MODEL.replace('"count"', f'"{name}"'))
        assert result.exit_code == 0, result.output


def test_figures_stay_in_one_piece_at_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = MODEL.replace('"parse"', '"parse_and_normalise"').replace('mode = "pipeline"', 'mode = "micro-batch"')
    result = run(text=text)
    assert "…" not in result.stdout
    for line in result.stdout.splitlines():
        assert not line.rstrip().endswith("±")
    assert re.search(r"[\d,]+ tuples entered, [\d,]+ were fully processed", result.stdout)


def test_what_was_not_measured_is_a_dash(run):
    result = run(text=MODEL.replace("arrivals = 150", "arrivals = 1e-9"))
    assert result.exit_code == 0
    assert "nan" not in result.stdout
    assert json.loads(run("--json", text=MODEL.replace("arrivals = 150", "arrivals = 1e-9")).stdout)["trees"] == 0
