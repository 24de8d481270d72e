"""`foretide settings`, as a person and as a program uses it."""

import json

import pytest
from typer.testing import CliRunner

from foretide.cli.main import app
from foretide.cli.settings import chosen_settings
from foretide.errors import SettingsError
from foretide.settings.reference import SETTINGS


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def say(*arguments, code=0):
    result = CliRunner().invoke(app, ["settings", *arguments], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def test_every_setting_is_shown_with_its_origin(monkeypatch, own_folder):
    (own_folder / "mine.toml").write_text("[guards]\nquota = 11\n", encoding="utf-8")
    monkeypatch.setenv("FORETIDE_GUARDS__DEADBAND", "0.2")
    flags = ["--config", "mine.toml", "--set", "guards.cooldown=1 minute", "--policy", "replicas", "--policy", "bypass"]
    rows = shown_rows("--all", *flags)
    assert list(rows)[1:] == list(SETTINGS)
    assert rows["guards.quota"] == "11 mine.toml"
    assert rows["guards.deadband"] == "0.2 environment variable FORETIDE_GUARDS__DEADBAND"
    assert rows["guards.cooldown"] == "1 min flag --set guards.cooldown"
    assert rows["control.policies"] == "replicas, bypass flag --set control.policies"
    assert rows["evaluation.block_for"] == "15 min default"
    assert rows["run.batch_timeout"] == "none default"
    assert rows["run.trigger"] == "500 ms default"
    assert rows["forecasts.horizons"] == "1 s, 3 s, 10 s, 30 s, 1 min default"
    brief = shown_rows(*flags)
    advanced = {path for path, setting in SETTINGS.items() if setting.scope is not None}
    assert set(brief) == set(rows) - advanced | {"guards.deadband"}


def shown_rows(*arguments):
    lines = [line for line in say(*arguments).splitlines() if line[0] != " "]
    return {line.split()[0]: " ".join(line.split()[1:]) for line in lines}


def test_programs_get_values_and_sources():
    found = json.loads(say("--json", "--set", "target.latency=2s"))
    assert list(found) == list(SETTINGS)
    assert found["target.latency"] == {"value": 2.0, "source": "flag --set target.latency"}
    assert found["target.budget"] == {"value": None, "source": "default"}
    assert [rule["name"] for rule in found["monitoring.rules"]["value"]][:2] == ["lag-growing", "near-capacity"]


def test_a_mistake_is_one_sentence(capsys):
    with pytest.raises(SystemExit) as ended:
        app(["settings", "--set", "guards.quota=many"])
    assert ended.value.code == 1
    said = "foretide: guards.quota must be a whole number, got 'many' (flag --set guards.quota)"
    assert capsys.readouterr().err.strip() == said


def test_policies_by_flag_and_by_setting_at_once_are_refused():
    with pytest.raises(SettingsError, match="given twice"):
        chosen_settings(None, ["control.policies=bypass"], ["replicas"])
    assert chosen_settings(policies=["static"]).control.policies == ("static",)


def test_a_policy_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(
        SettingsError, match=r"control.policies must be a list of bypass, prediction_error, .*static, got"
    ):
        chosen_settings(policies=["prediction_error", "oracle"])
