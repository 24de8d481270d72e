"""The pages on planning, simulation and forecasting run from top to bottom in an empty folder, as they are written."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.pages import ROOT, run
from foretide.cli import app
from foretide.forecasting.load import registry


def follow(page, skipped=()):
    """Do what a page says, block by block; returns the commands that were run."""
    done, names = [], {}
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for kind, block in re.findall(r"```(toml|python|console)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            run(block, names)
        elif kind == "toml":
            name, end = re.match(r"# (\S+\.toml)(, at the end)?\n", block).groups()
            with Path(name).open("a" if end else "w", encoding="utf-8") as file:
                file.write(block)
        else:
            commands = [line.removeprefix("$ ") for line in block.splitlines() if "foretide " in line]
            for words in (shlex.split(command, comments=True) for command in commands):
                if words[1:] in skipped:
                    continue
                result = CliRunner().invoke(app, words[1:])
                assert result.exit_code == 0, (words, result.output, result.exception)
                done.append(words[1])
    return done


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_planning():
    of_a_pipeline = shlex.split("plan url-count --rate 50000 --latency 2s")  # tests/cli/test_decisions.py runs it
    assert follow("planning.md", [of_a_pipeline]) == ["plan", "plan", "plan", "simulate", "plan"]


def test_simulation():
    pytest.importorskip("matplotlib")
    assert follow("simulation.md") == ["simulate"] * 4


def test_forecasting(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(registry, "available", lambda: registry.NUMPY_MODELS)
    monkeypatch.setenv("FORETIDE_HOME", str(Path.cwd() / "home"))
    topology = ["run", "my_module:topology"]  # tests/runtime/loop/test_foresight_story.py hands a history to a pipeline
    events = [*topology, "--history", "rates.csv", "--event", "2026-11-27 18:00 1h x3"]
    skipped = [["evaluate", "taxi"], events, [*topology, "--model", "models/rates"]]
    done = follow("forecasting.md", skipped)
    assert done == ["train", "forecast", "train", "history", "history", "train"]
