"""`foretide train`, `forecast` and `evaluate`: tables, JSON, plots, and errors in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.errors import ModelFolderError
from foretide.forecasting.forecaster import SeriesForecast
from foretide.forecasting.load.registry import NUMPY_MODELS
from foretide.workloads.traces import load_trace


@pytest.fixture
def call(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    _write("short.csv", 400)
    return lambda *arguments: CliRunner().invoke(app, [*arguments])


def _write(name, size):
    Path(name).write_text("value\n" + "\n".join(str(value) for value in load_trace("taxi").values[:size]) + "\n")


def test_train_forecast_and_go_on(call):
    trained = call("train", "short.csv", "--output", "kept", "--model", "ridge", "--season", "48")
    assert trained.exit_code == 0, trained.output
    assert "400 values learnt" in trained.output
    _write("longer.csv", 450)
    ahead = call("forecast", "longer.csv", "--model", "kept", "--horizon", "3", "--json")
    found = json.loads(ahead.stdout)
    assert found["values"] == 450
    assert [step["step"] for step in found["steps"]] == [1, 2, 3]
    assert all(step["low_95"] <= step["low_80"] <= step["median"] <= step["high_80"] for step in found["steps"])
    on = call("train", "longer.csv", "--output", "kept", "--resume", "--json")
    assert json.loads(on.stdout)["values"] == 450


def test_forecast_without_a_saved_model_draws_and_prints(call, tmp_path):
    result = call("forecast", "short.csv", "--model", "ewma", "--horizon", "5", "--plot", "ahead.svg")
    assert result.exit_code == 0, result.output
    assert "95 % interval" in result.output
    assert (tmp_path / "ahead.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("command", ["forecast", "evaluate"])
def test_explanations_are_wrapped_where_the_output_is_no_terminal(call, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    options = ["--model", "ewma", "--model", "ridge"] if command == "evaluate" else []
    result = call(command, "short.csv", "--season", "48", "--horizon", "3", *options)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(result.stdout.split())
    assert "highest weights" in words  # the explanation itself, which is longer than a line


def test_evaluate_prints_the_table_and_draws_forecast_against_truth(call, tmp_path):
    options = ["--model", "ridge", "--model", "ewma", "--season", "48", "--horizon", "3", "--plot", "roll.png"]
    result = call("evaluate", "short.csv", *options)
    assert result.exit_code == 0, result.output
    assert "short, 3 ahead: the last 30%, 120 forecasts a model" in result.output
    assert "1 ahead" not in result.output
    for word in (
        "ensemble",
        "last value",
        "ridge",
        "ewma",
        "sMAPE",
        "in 80%",
        "vs last",
        "highest weights",
        "ridge 1,000",
    ):
        assert word in result.output
    assert (tmp_path / "roll.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads(call("evaluate", "short.csv", *options, "--json").stdout)["scores"]
    assert [row["model"] for row in rows] == ["ensemble", "last value", "ridge", "ewma"]
    assert rows[1]["relative_rmse"] == 1
    assert rows[2]["relative_rmse"] < 1


@pytest.mark.parametrize("command", ["train", "forecast", "evaluate"])
def test_an_unknown_model_or_plot_is_a_usage_error(call, command):
    extra = ["--output", "kept"] if command == "train" else []
    result = call(command, "short.csv", "--model", "oracle", *extra)
    assert result.exit_code == 2
    if command != "train":
        assert call(command, "short.csv", "--plot", "plot.txt").exit_code == 2


def test_a_series_that_is_missing_is_an_error(call):
    from foretide.errors import ForecastError

    result = call("forecast", "nowhere.csv")
    assert result.exit_code == 1
    assert isinstance(result.exception.__cause__, ForecastError)


@pytest.mark.parametrize("command", [["forecast"], ["evaluate"], ["train", "--output", "kept"]])
@pytest.mark.parametrize("name", ["[/]", "[/red]", "oracle"])
def test_an_unknown_model_is_a_usage_error_before_the_source_is_read(call, command, name):
    result = call(*command, "nothing.csv", "--model", name)
    assert result.exit_code == 2
    assert "must be one of last value" in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("command", ["forecast", "evaluate"])
@pytest.mark.parametrize("name", [".", "folder.png", "n" * 300 + ".png", "nowhere/plot.png", "plot.doc"])
def test_a_plot_that_cannot_be_written_is_refused_before_the_source_is_read(call, command, name):
    Path("folder.png").mkdir()
    result = call(command, "nothing.csv", "--plot", name)
    assert result.exit_code == 2
    assert "--plot" in result.stderr


@pytest.mark.parametrize("folder", ["\udcff", "n" * 300, "short.csv/kept", "/proc/kept"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_training(call, monkeypatch, folder):
    monkeypatch.setattr("foretide.cli.forecast.train_model", lambda *_: pytest.fail("it was trained"))
    result = call("train", "short.csv", "--output", folder, "--model", "last value")
    assert isinstance(result.exception.__cause__, ModelFolderError)
    assert "cannot be written" in str(result.exception.__cause__)


@pytest.mark.parametrize("command", [["evaluate"], ["train", "--output", "kept"]])
@pytest.mark.parametrize("value", ["5e-324", "0", "1e-300"])
def test_json_has_no_infinity(call, command, value):
    Path("tiny.csv").write_text("value\n" + "\n".join([value, "0"] * 100) + "\n")
    result = call(*command, "tiny.csv", "--model", "moving average", "--json")
    assert result.exit_code == 0, result.output
    json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_the_work_of_a_forecast_grows_with_its_steps_and_not_with_their_square(call, monkeypatch):
    calls = []
    quantile = SeriesForecast.quantile
    monkeypatch.setattr(SeriesForecast, "quantile", lambda *all_of_it: calls.append(1) or quantile(*all_of_it))
    for options in ([], ["--json"]):
        calls.clear()
        result = call("forecast", "short.csv", "--model", "last value", "--horizon", "300", *options)
        assert result.exit_code == 0
        assert len(calls) < 10


def test_of_a_long_series_the_latest_values_are_learnt(call, monkeypatch):
    monkeypatch.setattr("foretide.cli.forecast.LEARNT", 100)
    _write("tail.csv", 400)
    Path("tail.csv").write_text("value\n" + "\n".join(Path("tail.csv").read_text().split()[-100:]) + "\n")
    long, tail = (
        json.loads(call("forecast", name, "--model", "ewma", "--json").stdout) for name in ("short.csv", "tail.csv")
    )
    assert (long["values"], tail["values"]) == (400, 100)
    assert long["steps"] == tail["steps"]


def test_a_horizon_beyond_the_history_is_forecast_by_every_model_without_extras(call):
    for name in NUMPY_MODELS:
        assert call("forecast", "short.csv", "--model", name, "--horizon", "1000").exit_code == 0


def test_nothing_is_cut_at_80_columns(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    Path("large.csv").write_text("value\n" + "\n".join(["1000000000000000", "1"] * 40) + "\n")
    result = call("forecast", "large.csv", "--model", "last value")
    assert result.exit_code == 0
    assert "…" not in result.stdout
    assert "e+" not in result.stdout


def test_a_file_with_times_is_forecast_for_times(call):
    hours = "\n".join(f"2026-01-{1 + i // 24:02}T{i % 24:02}:00:00Z,{100 + i % 24}" for i in range(240))
    Path("times.csv").write_text(f"time,rate\n{hours}\n")
    found = json.loads(call("forecast", "times.csv", "--horizon", "2", "--model", "ridge", "--json").stdout)
    assert [step["at"] for step in found["steps"]] == [1768089600.0, 1768093200.0]
    assert "\ntime " in call("forecast", "times.csv", "--horizon", "1", "--model", "ewma").output


def test_a_packaged_trace_is_forecast_at_its_times(call):
    options = ("forecast", "taxi", "--model", "last value", "--horizon", "2")
    steps = json.loads(call(*options, "--json").stdout)["steps"]
    assert [step["at"] for step in steps] == [1422748800.0, 1422750600.0]  # 2015-02-01 00:00 and 00:30
    shown = call(*options).output
    assert "time" in shown
    assert "2015-0" in shown  # the day depends on the time zone
