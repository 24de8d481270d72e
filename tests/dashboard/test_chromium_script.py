"""Where Chromium comes from: scripts/chromium.sh, and scripts/test.sh, which calls it and goes on without."""

import shutil
import subprocess

import pytest

from docs.pages import ROOT


class Machine:
    """A machine with the tools that the scripts use, and others that only note how they were called."""

    def __init__(self, folder):
        self.bin, self._calls, self.browser = folder / "bin", folder / "calls", folder / "chromium"
        self.bin.mkdir()
        for tool in ("sh", "env", "dirname", "mktemp", "rm", "cat", "touch", "chmod"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.put("python")
        self.put("id", does="echo 0")

    def put(self, name, does=""):
        path = self.bin / name
        path.write_text(f'#!/bin/sh\necho {name} "$@" >> "{self._calls}"\n{does}\n')
        path.chmod(0o755)

    def put_apt(self):
        """An apt-get that brings Chromium."""
        self.put("apt-get", f'case "$*" in *" chromium") touch "{self.browser}"; chmod +x "{self.browser}";; esac')

    def run(self, script, *arguments, **variables):
        there = {"PATH": str(self.bin), "FORETIDE_CHROMIUM": str(self.browser), **variables}
        command = ["sh", str(ROOT / "scripts" / script), *arguments]
        done = subprocess.run(command, env=there, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def called(self, name):
        return [each for each in self._calls.read_text().splitlines() if each.startswith(f"{name} ")]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_chromium_is_installed_once(machine):
    machine.put_apt()
    for _ in range(2):
        assert machine.run("chromium.sh")[0] == 0
    installed = "apt-get install -qq -y --no-install-recommends chromium"
    assert machine.called("apt-get") == ["apt-get update -qq", installed]


def test_as_another_user_sudo_installs_it_and_never_asks_for_a_password(machine):
    machine.put_apt()
    machine.put("id", does="echo 1000")
    machine.put("sudo", does='shift; exec "$@"')
    assert machine.run("chromium.sh")[0] == 0
    assert all(each.startswith("sudo -n ") for each in machine.called("sudo"))


def test_without_apt_the_tests_say_so_and_go_on(machine):
    status, said = machine.run("test.sh", "python")
    assert (status, "this is no Debian" in said, "pages are skipped" in said) == (0, True, True)
    assert len(machine.called("python")) == 3


def test_where_chromium_is_required_the_tests_fail_at_once_without_it(machine):
    assert machine.run("test.sh", "python", FORETIDE_REQUIRE_CHROMIUM="1")[0] == 1
    assert machine._calls.exists() is False or machine.called("python") == []


def test_the_tests_install_chromium_where_they_can(machine):
    machine.put_apt()
    status, said = machine.run("test.sh", "python")
    assert (status, "skipped" in said) == (0, False)
    assert machine.browser.exists()
