import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "postgres.sh"


class Machine:
    """A machine with the tools that the script itself uses, and others that only note how they were called."""

    def __init__(self, folder):
        self.bin, self.installed, self._calls = folder / "bin", folder / "postgresql", folder / "calls"
        self.bin.mkdir()
        for tool in ("sh", "env", "ls", "mkdir", "touch"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.put("sed")

    def put(self, name, does=""):
        path = self.bin / name
        path.write_text(f'#!/bin/sh\necho {name} "$@" >> "{self._calls}"\n{does}\n')
        path.chmod(0o755)

    def put_user(self, number):
        (self.bin / "id").write_text(f"#!/bin/sh\necho {number}\n")
        (self.bin / "id").chmod(0o755)

    def put_apt(self, *, works=True):
        """An apt-get that brings PostgreSQL's programs."""
        target = self.installed / "15" / "bin"
        brings = f'case "$*" in *" postgresql") mkdir -p "{target}"; touch "{target}/postgres";; esac'
        self.put("apt-get", brings if works else "exit 100")

    def run(self):
        environment = {"PATH": str(self.bin), "FORETIDE_POSTGRES_FOLDER": str(self.installed)}
        done = subprocess.run(["sh", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    @property
    def calls(self):
        return self._calls.read_text().splitlines() if self._calls.exists() else []


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_where_postgresql_is_nothing_is_done(machine):
    machine.put_apt()
    (machine.installed / "17" / "bin").mkdir(parents=True)
    (machine.installed / "17" / "bin" / "postgres").touch()
    assert machine.run() == (0, "")
    assert machine.calls == []


def test_where_it_is_on_the_path_nothing_is_done(machine):
    machine.put_apt()
    machine.put("postgres")
    assert machine.run() == (0, "")
    assert machine.calls == []


def test_root_installs_it_without_a_server_being_set_up(machine):
    machine.put_user(0)
    machine.put_apt()
    assert machine.run() == (0, "Installing PostgreSQL for the tests ...\n")
    asked = [call for call in machine.calls if call.startswith("apt-get")]
    assert [call.split()[1] for call in asked] == ["update", "install", "install"]
    assert [call.split()[-1] for call in asked[1:]] == ["postgresql-common", "postgresql"]
    assert machine.run() == (0, "")


def test_others_install_it_by_sudo(machine):
    machine.put_user(1000)
    machine.put_apt()
    machine.put("sudo", '"$@"')
    assert machine.run()[0] == 0
    assert sum(call.startswith("sudo") for call in machine.calls) >= 3
    assert machine.calls[0] == "sudo apt-get update -qq"


@pytest.mark.parametrize(
    ("apt", "says"), [(False, "this is no Debian"), (True, "'apt-get install postgresql' as root")]
)
def test_who_cannot_install_it_is_told_what_to_do(machine, apt, says):
    machine.put_user(1000)
    if apt:
        machine.put_apt()
    code, said = machine.run()
    assert code == 1
    assert says in said
    assert machine.calls == []


def test_an_installation_that_fails_is_a_failure(machine):
    machine.put_user(0)
    machine.put_apt(works=False)
    assert machine.run()[0] == 100
