import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "preflight.sh"
NEW_JAVA = 'openjdk version "17.0.15" 2025-04-15'


@pytest.fixture
def bin_folder(tmp_path):
    """A PATH with the tools that the script itself uses, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "sed", "head"):
        (folder / tool).symlink_to(shutil.which(tool))
    return folder


def put(folder, name, script):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def put_python(folder, version, name="python3"):
    """A Python that knows only its version: fails the question of the script when it is too old."""
    new = tuple(map(int, version.split("."))) >= (3, 11)
    put(folder, name, f'case "$2" in *version_info*) exit {int(not new)};; *) echo {version};; esac')


def put_java(folder, said=NEW_JAVA):
    put(folder, "java", f"echo '{said}' >&2")


def preflight(folder, python="python3", **environment):
    done = subprocess.run(
        ["sh", str(SCRIPT), python],
        env={"PATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def refusal(*arguments, **environment):
    """The one line that a failing check says."""
    code, said = preflight(*arguments, **environment)
    assert code != 0
    assert said.endswith("\n")
    assert len(said.splitlines()) == 1
    return said


@pytest.mark.parametrize("version", ["3.11.0", "3.14.2"])
@pytest.mark.parametrize("java", [NEW_JAVA, 'openjdk version "21" 2023-09-19', 'openjdk version "25-ea"'])
def test_a_machine_that_has_all_it_takes_is_told_nothing(bin_folder, version, java):
    put_python(bin_folder, version)
    put_java(bin_folder, java)
    assert preflight(bin_folder) == (0, "")


def test_a_missing_python_is_one_line_with_what_to_install(bin_folder):
    put_java(bin_folder)
    said = refusal(bin_folder)
    assert "Python 3.11 or newer is needed and 'python3' was not found: install it" in said
    assert "make PYTHON=" in said


def test_an_old_python_is_one_line_with_its_version(bin_folder):
    put_python(bin_folder, "3.9.2")
    put_java(bin_folder)
    said = refusal(bin_folder)
    assert "Python 3.11 or newer is needed, but 'python3' is 3.9.2: install a newer one" in said


def test_the_python_that_was_named_is_the_one_that_is_looked_at(bin_folder):
    put_python(bin_folder, "3.9.2")
    put_python(bin_folder, "3.12.1", name="python3.12")
    put_java(bin_folder)
    assert preflight(bin_folder, "python3.12") == (0, "")
    assert "'python3.13' was not found" in refusal(bin_folder, "python3.13")


def test_a_missing_java_is_one_line_with_what_to_install(bin_folder):
    put_python(bin_folder, "3.11.7")
    said = refusal(bin_folder)
    assert "Java 17 or newer is needed and 'java' was not found: install a JDK" in said
    assert "apt install openjdk-17-jre-headless" in said


@pytest.mark.parametrize(
    ("java", "version"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "11"),
        ('java version "1.8.0_392"', "8"),
        ("no version at all", "unknown"),
    ],
)
def test_an_old_java_is_one_line_with_its_version_and_what_to_install(bin_folder, java, version):
    put_python(bin_folder, "3.11.7")
    put_java(bin_folder, java)
    said = refusal(bin_folder)
    assert f"Java 17 or newer is needed, but 'java' is version {version}: install a newer JDK" in said
    assert "apt install openjdk-17-jre-headless" in said


def test_what_java_says_before_its_version_does_not_matter(bin_folder):
    put_python(bin_folder, "3.11.7")
    put(bin_folder, "java", f"echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2; echo '{NEW_JAVA}' >&2")
    assert preflight(bin_folder) == (0, "")


def test_java_home_goes_before_the_path(bin_folder, tmp_path):
    put_python(bin_folder, "3.11.7")
    put_java(bin_folder)
    home = str(tmp_path / "jdk")
    assert "jdk/bin/java' was not found" in refusal(bin_folder, JAVA_HOME=home)
    put_java(tmp_path / "jdk" / "bin", 'java version "1.8.0_392"')
    assert "jdk/bin/java' is version 8" in refusal(bin_folder, JAVA_HOME=home)
    put_java(tmp_path / "jdk" / "bin")
    assert preflight(bin_folder, JAVA_HOME=home) == (0, "")
