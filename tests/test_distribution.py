"""A wheel of the repository works in an empty environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foretide.spark.versions import NEWEST, OLDEST, dotted

ROOT = Path(__file__).parents[1]
STORY = Path(__file__).with_name("distribution_story.py")
VERSIONS = Path(__file__).with_name("versions_story.py")
MODEL = '[[operator]]\nname = "extract"\nservice_rate = 1.75\narrivals = 1.0\nprocessors = 2\n'


def test_the_versions_of_spark_are_those_that_are_installed_and_documented():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    above = (NEWEST[0], NEWEST[1] + 1)
    assert f'"pyspark>={dotted(OLDEST)},<{dotted(above)}"' in project
    assert f"pyspark=={dotted(NEWEST)}." in (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert f"| Spark | {dotted(OLDEST)} to {dotted(NEWEST)}" in (ROOT / "README.md").read_text(encoding="utf-8")


def call(*words, cwd, **environment):
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "", **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(folder, *packages):
    """A wheel of the repository, and packages, in an empty environment; returns its Python."""
    call(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT), cwd=folder)
    (wheel,) = folder.glob("foretide-*.whl")
    call(sys.executable, "-m", "venv", "empty", cwd=folder)
    python = str(folder / "empty" / "bin" / "python")
    call(python, "-m", "pip", "install", "-q", *packages, str(wheel), cwd=folder)
    return python


@pytest.mark.soak
@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_an_older_spark_works_but_for_what_it_is_said_to_lack(tmp_path, version):
    pins = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "pyspark" not in line]
    (tmp_path / "constraints.txt").write_text("\n".join(pins), encoding="utf-8")
    python = install(tmp_path, "-c", str(tmp_path / "constraints.txt"), f"pyspark=={version}.*")
    told = json.loads(call(python, str(VERSIONS), cwd=tmp_path, FORETIDE_HOME=str(tmp_path / "home")).splitlines()[-1])
    assert told["spark"].startswith(f"{version}.")
    assert "real-time mode needs Spark 4.3" in told["refused"]
    assert len(told["split"]) == 4
    assert told["split"][0] > 0
    assert told["last_split"][:3] == [0, 0, 0]
    assert (told["in_force"], told["rows_once"], told["join_is_exact"]) == (True, True, True)
    assert told["alarms"] == []
    assert told["target"] is not None
    if version == "4.2":
        replayed = call(python, str(STORY), cwd=tmp_path, FORETIDE_HOME=str(tmp_path / "home")).splitlines()[-1]
        assert (json.loads(replayed)["rows"], json.loads(replayed)["alarms"]) == (2000, [])


@pytest.mark.soak
def test_a_wheel_works_in_an_empty_environment(tmp_path):
    python = install(tmp_path, "-c", str(ROOT / "constraints.txt"))
    foretide = str(tmp_path / "empty" / "bin" / "foretide")
    assert call(foretide, "--version", cwd=tmp_path).strip()
    (tmp_path / "model.toml").write_text(MODEL, encoding="utf-8")
    assert "extract" in call(foretide, "plan", "model.toml", "--latency", "5s", cwd=tmp_path)
    checks = json.loads(call(foretide, "doctor", "--json", cwd=tmp_path, FORETIDE_HOME=str(tmp_path / "home")))
    assert {check["name"]: check["state"] for check in checks}["Spark"] == "ok"
    told = json.loads(call(python, str(STORY), cwd=tmp_path, FORETIDE_HOME=str(tmp_path / "home")).splitlines()[-1])
    assert str(tmp_path) in told["foretide"]
    assert (told["rows"], told["alarms"]) == (told["expected"], [])
