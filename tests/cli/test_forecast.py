"""`foretide train`, `forecast` and `evaluate`: tables, JSON, plots, and errors in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.cli import app
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
    assert isinstance(result.exception, ForecastError | SystemExit)
