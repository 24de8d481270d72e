"""What an import or a command loads, in a fresh interpreter: nothing heavy that it does not need."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers import environment

PURE = ("topology", "routing", "metrics", "queueing", "simulation", "planning", "joins", "control")
HEAVY = ("pyspark", "sqlalchemy", "pydantic", "pyarrow", "pandas", "jax")
MODEL = """
[[operator]]
name = "extract"
service_rate = 1.75
arrivals = 1.0
processors = 2
"""


def modules_of(package):
    folders = find_spec(f"foretide.{package}").submodule_search_locations
    if folders is None:
        return [f"foretide.{package}"]
    (folder,) = folders
    root = Path(folder).parents[0]
    files = sorted(Path(folder).rglob("*.py"))
    return [f"foretide.{'.'.join(file.relative_to(root).with_suffix('').parts)}" for file in files]


def loaded_after(code, names):
    check = f"{code}\nimport sys\nprint(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def running(*arguments):
    """Code that runs a command and goes on."""
    return f"from foretide.cli import app\ntry:\n    app({list(arguments)!r})\nexcept SystemExit:\n    pass"


@pytest.mark.parametrize("package", PURE)
def test_a_pure_package_loads_nothing_heavy(package):
    imports = "\n".join(f"import {name}" for name in modules_of(package) if not name.endswith("__init__"))
    assert loaded_after(imports, HEAVY) == []


@pytest.mark.parametrize("package", ["control_folder", "dashboard", "probes", "reports", "settings", "status", "store"])
def test_a_package_beside_spark_loads_neither_spark_nor_jax(package):
    imports = "\n".join(f"import {name}" for name in modules_of(package) if not name.endswith("__init__"))
    assert loaded_after(imports, ("pyspark", "jax", "pandas", "matplotlib")) == []


def test_foretide_itself_loads_nothing_heavy():
    assert loaded_after("import foretide", (*HEAVY, "numpy", "typer")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",), ("--version",), ("list",), ("status", "--help"), ("status",), ("settings",), ("apps",),
        ("plan", "model.toml", "--budget", "4"), ("route", "show"), ("target", "show"), ("simulate", "--help"),
    ],
)  # fmt: skip
def test_commands_for_people_load_neither_spark_nor_jax(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORETIDE_HOME", str(tmp_path))
    (tmp_path / "model.toml").write_text(MODEL, encoding="utf-8")
    assert loaded_after(running(*arguments), ("pyspark", "jax", "pandas", "pyarrow", "matplotlib")) == []


def test_the_help_loads_no_command_at_all():
    assert loaded_after(running("--help"), ("foretide.cli.running.run", "foretide.cli.console", "numpy")) == []
