"""`foretide doctor`: ten lines, each with what mends it."""

import json
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from foretide.cli import doctor
from foretide.cli.main import app
from foretide.errors import EnvironmentNotReadyError


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FORETIDE_JARS", str(tmp_path / "jars"))
    monkeypatch.chdir(tmp_path)


def call(*arguments):
    return CliRunner().invoke(app, ["doctor", *arguments], env={"COLUMNS": "80"})


def found(name):
    result = call("--json")
    return next(check for check in json.loads(result.stdout) if check["name"] == name), result.exit_code


def test_ten_lines_say_what_is_there():
    result = call()
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == len(doctor.CHECKS) == 10
    names = [check["name"] for check in json.loads(call("--json").stdout)]
    assert names == ["Python", "Java", "Spark", "extras", "settings", "PostgreSQL", "Kafka", "folders", "exclusion",
                     "machine"]  # fmt: skip
    assert [line[3:].split()[0] for line in result.stdout.splitlines()] == names


def test_every_extra_of_the_package_is_looked_for():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(doctor._EXTRAS) == set(project["project"]["optional-dependencies"]) - {"dev"}


def test_what_is_optional_is_missing_and_not_wrong(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "psycopg" else object())
    monkeypatch.setattr(doctor, "CHECKS", (doctor._extras, doctor._kafka))
    assert call().exit_code == 0
    check, _ = found("extras")
    assert (check["state"], check["remedy"]) == ("missing", f"{sys.executable} -m pip install 'foretide[postgres]'")
    assert found("Kafka")[0]["state"] == "missing"


@pytest.mark.parametrize(
    ("version", "state", "words"),
    [
        (None, "problem", "not installed"),
        ((4, 0, 5), "problem", "4.1 or newer"),
        ((4, 1, 0), "missing", "lacks a replay source"),
        ((4, 2, 1), "missing", "lacks real-time mode"),
        ((4, 3, 0), "ok", "4.3.0"),
        ((5, 0), "missing", "newer"),
    ],
)
def test_spark_is_judged_by_its_version(monkeypatch, version, state, words):
    monkeypatch.setattr(doctor, "spark_version", lambda: version)
    check, code = found("Spark")
    assert (check["state"], code) == (state, int(state == "problem"))
    assert words in check["found"]
    assert (check["remedy"] is None) == (state == "ok")


def test_a_java_that_is_missing_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    check, code = found("Java")
    assert (check["state"], code) == ("problem", 1)
    assert "openjdk" in check["remedy"]


def test_settings_stores_and_folders_that_cannot_be_used_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("FORETIDE_MONITORING__STORE", "postgresql://me:secret@127.0.0.1:1/metrics")
    check, code = found("PostgreSQL")
    assert (check["state"], code) == ("problem", 1)
    assert "secret" not in json.dumps(check)
    monkeypatch.setenv("FORETIDE_NO_SUCH", "1")
    assert found("settings")[0]["state"] == "problem"
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert "FORETIDE_HOME" in found("folders")[0]["remedy"]


def test_the_exclusion_list_is_looked_for_in_the_jars_of_spark(monkeypatch, tmp_path):
    (tmp_path / "jars").mkdir()
    with zipfile.ZipFile(tmp_path / "jars" / "spark-core_2.13-5.0.jar", "w") as jar:
        jar.writestr("org/apache/spark/Other.class", "")
    monkeypatch.setattr(doctor, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    assert doctor._exclusion_list().state == "missing"


def test_a_small_machine_is_told(monkeypatch):
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _: {0})
    assert found("machine")[0]["found"].startswith("1 core,")


def test_a_java_error_without_a_remedy_has_one_still(monkeypatch):
    def fail():
        raise EnvironmentNotReadyError("no Java")

    monkeypatch.setattr("foretide.spark.java.check_java", fail)
    assert doctor._java() == doctor.Check("Java", "problem", "no Java", "install a JDK")
