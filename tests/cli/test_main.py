"""The table of commands: its help, and how every command is told which pipeline is meant."""

import json
import os
import re

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cli.fuzz_cases import commands, words_of
from foretide.cli.main import app
from foretide.control_folder.folder import ControlFolder
from foretide.status.pipelines import Running, announce, foretide_home


def say(*arguments, code=0):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def test_the_help_has_panels_and_no_options_for_shell_completion():
    shown = say("--help")
    for panel in ("Run", "Watch", "Steer", "Plan", "Forecast", "Settings"):
        assert f"─ {panel} ─" in shown
    assert "completion" not in shown
    assert {each.rich_help_panel for each in get_command(app).commands.values()} >= {"Run", "Watch", "Steer"}


def test_completion_can_be_installed_still(monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # any shell may run the tests
    assert "complete" in CliRunner().invoke(app, ["--show-completion"]).output


def test_without_a_command_the_help_is_shown():
    assert "Usage: foretide" in say(code=2)


@pytest.fixture
def two(tmp_path):
    for name in ("shop", "other"):
        folder = ControlFolder(str(tmp_path / name))
        folder.change_routes(lambda table, name=name: table.declare(f"edge-of-{name}", pool=2))
        announce(Running(name, os.getpid(), folder.location))


def test_a_pipeline_is_named_by_an_argument_or_an_option(two):
    for arguments in (("route", "show", "shop"), ("route", "show", "--app", "shop")):
        assert "edge-of-shop" in say(*arguments)
    assert "75.0%" in say("route", "set", "edge-of-other", "3:1", "other")
    assert "no limit is set" in say("admission", "show", "shop", "--app", "shop")
    assert "several pipelines match" in say("route", "show", code=1)
    assert "'other' and 'shop' are two pipelines" in say("route", "show", "shop", "--app", "other", code=2)


def test_wherever_the_option_is_there_the_argument_is_too():
    for name, command in commands().items():
        arguments = [each.name for each in command.params if each.param_type_name == "argument"]
        has_option = any("--app" in each.opts for each in command.params)
        assert ("app_argument" in arguments[-1:]) is has_option, name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "1.5", "shop"), "DECISION must be a whole number"),
        (("evaluate", "x.csv", "--share", "much"), "must be a number"),
        (("decisions", "--last", "0"), "must be greater than or equal to 1"),
    ],
)
def test_wrong_values_are_explained_in_plain_words(arguments, words):
    assert words in say(*arguments, code=2)


def test_a_damaged_entry_is_named_once_on_stderr_and_spoils_no_json(two):
    (foretide_home() / "running" / "odd\x1b.json").write_text("{")
    result = CliRunner().invoke(app, ["list", "--json"])
    assert (result.exit_code, result.stdout.count('"shop"')) == (0, 1)
    assert result.stderr.count("odd\\x1b.json' does not describe a running pipeline") == 1


def test_the_usage_of_every_command_names_its_arguments_in_capitals():
    for name in commands():
        words = words_of(name)
        usage = say(*words, "--help").split("Usage: foretide ")[1].splitlines()[0]
        assert not re.search(r"[a-z]|\[\[", usage.removeprefix(" ".join(words))), usage


def test_without_pipelines_the_list_is_empty_and_commands_for_one_fail():
    assert say("list") == "no pipeline runs on this machine\n"
    assert json.loads(say("list", "--json")) == []
    for command in ("status", "metrics", "decisions", "explain", "stop", "restart", "drain h1", "route show",
                    "admission show", "target show"):  # fmt: skip
        assert "no pipeline runs on this machine" in say(*command.split(), code=1), command
