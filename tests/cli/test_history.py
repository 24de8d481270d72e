"""`foretide history`: what is imported, shown, and learnt by the pipeline of that name."""

import json
import time

import pytest
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.forecasting.load_history import read_history
from foretide.runtime.forecasts.handed_in import forecast_service, history_file
from foretide.settings.forecasts import ForecastSettings


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))


def call(*words):
    return CliRunner().invoke(app, ["history", *words]).output


def csv(tmp_path, name, rates):
    file = tmp_path / f"{name}.csv"
    file.write_text("rate\n" + "\n".join(map(str, rates)))
    return str(file)


def test_what_was_imported_is_shown_and_learnt_at_the_next_start(tmp_path):
    told = json.loads(call("import", csv(tmp_path, "load", [100.0] * 200), "--app", "shop", "--step", "1s", "--json"))
    assert told["history"][0] | {"from": 0, "until": 0} == {
        "source": None, "values": 200, "step_seconds": 1.0, "from": 0, "until": 0, "mean": 100.0
    }  # fmt: skip
    assert "200" in call("show", "shop")
    settings = ForecastSettings(spouts=("requests",), workers=False, min_history=600.0)
    service = forecast_service("shop", settings, None, None)
    service.turn()
    assert service.problems == []
    assert list(service.loads.loads["requests"].values) == [100.0] * 200


def test_a_second_import_is_added(tmp_path):
    call("import", csv(tmp_path, "one", [1.0] * 30), "--app", "shop", "--step", "10s", "--source", "a")
    call("import", csv(tmp_path, "two", [2.0] * 20), "--app", "shop", "--step", "10s", "--source", "b")
    found = read_history(str(history_file("shop")), time.time())
    assert {name: len(earlier.samples) for name, earlier in found.items()} == {"a": 30, "b": 20}


def test_nothing_to_import_and_nothing_imported_are_said(tmp_path):
    assert "no history was imported for 'shop'" in call("show", "shop")
    empty = tmp_path / "empty.json"
    empty.write_text('{"result": []}')
    assert "has no load" in call("import", str(empty), "--app", "shop")
